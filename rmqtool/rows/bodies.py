"""Bodies as the application sent them: decompressed within bounds.

Compression is as in ``MessageSysFlag``, ``CompressionType#findByValue`` and the three compressors (5.3.3);
4.9.8 knows zlib only. A body is hostile: a few bytes may unpack to terabytes, and any may be uncompressed
data.
"""

from __future__ import annotations

import sys
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.formats.message import COMPRESSED_FLAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.progress import Progress


MAX_BODY_BYTES = 64 << 20
"""Larger bodies stay compressed; a broker takes messages of 4 MiB, unless configured otherwise."""

_TYPE_MASK = 0x7 << 8
_LZ4, _ZSTD, _ZLIB, _OLD_ZLIB = 0x1 << 8, 0x2 << 8, 0x3 << 8, 0


class BodyError(ValueError):
    """A body that cannot be unpacked; the message says why."""


def decompressed(every: Iterable[rows.Row], progress: Progress) -> Iterator[rows.Row]:
    """Yield rows, bodies of messages unpacked; ``body_length`` stays that of the log.

    A body that cannot be unpacked stays as it is, with a warning.
    """
    for row in every:
        if not isinstance(row, rows.Message):
            yield row
            continue
        try:
            yield replace(row, body=decompress(row.body, row.sys_flag))
        except BodyError as failure:
            progress.warn(f"the body of the message at {row.physical_offset} stays compressed: {failure}")
            yield row


def decompress(body: bytes, sys_flag: int, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return a body unpacked, or as it is if SYSFLAG does not mark it as compressed.

    BodyError if it is not such data, is cut short, or unpacks to more than ``max_bytes``.
    """
    if not sys_flag & COMPRESSED_FLAG or not body:
        return body
    unpack = _UNPACKERS.get(sys_flag & _TYPE_MASK)
    if unpack is None:
        raise BodyError(f"SYSFLAG {sys_flag} names no compression that a broker knows")
    data = unpack(body, max_bytes)
    if len(data) > max_bytes:
        raise BodyError(f"it unpacks to more than {max_bytes} bytes")
    return data


def _unpack_zlib(body: bytes, max_bytes: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(body, max_bytes + 1)
    except zlib.error as failure:
        raise BodyError(f"it is no zlib data: {failure}") from failure
    return _whole(data, unpacker.eof, max_bytes)


def _unpack_lz4(body: bytes, max_bytes: int) -> bytes:
    from lz4.frame import LZ4FrameDecompressor

    unpacker = LZ4FrameDecompressor()
    try:
        data: bytes = unpacker.decompress(body, max_length=max_bytes + 1)
    except RuntimeError as failure:
        raise BodyError(f"it is no lz4 frame: {failure}") from failure
    return _whole(data, unpacker.eof, max_bytes)


def _unpack_zstd(body: bytes, max_bytes: int) -> bytes:
    """Unpack one frame: the size that it claims does not count, and its window has a bound."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    limit = zstd.DecompressionParameter.window_log_max
    lowest, highest = limit.bounds()
    unpacker = zstd.ZstdDecompressor(options={limit: min(max(max_bytes.bit_length(), lowest), highest)})
    try:
        data = unpacker.decompress(body, max_bytes + 1)
    except zstd.ZstdError as failure:
        raise BodyError(f"it is no zstd data: {failure}") from failure
    return _whole(data, unpacker.eof, max_bytes)


def _whole(data: bytes, is_at_end: bool, max_bytes: int) -> bytes:
    if not is_at_end and len(data) <= max_bytes:
        raise BodyError("it ends too early")
    return data


_UNPACKERS: dict[int, Callable[[bytes, int], bytes]] = {
    _OLD_ZLIB: _unpack_zlib,
    _ZLIB: _unpack_zlib,
    _LZ4: _unpack_lz4,
    _ZSTD: _unpack_zstd,
}
