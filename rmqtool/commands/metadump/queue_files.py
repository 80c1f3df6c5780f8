"""Files of queues: units stay but for the hash of the tags, which is that of the new tags where it fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.commands.metadump.sparse import write_sparse
from rmqtool.formats.consumequeue import EXT_HEAD_SIZE, EXT_HEADS

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s
    from rmqtool.commands.metadump.disguise import Disguise
    from rmqtool.commands.metadump.fitting import LookUp
    from rmqtool.io.reading import ReadOnlyFile
    from rmqtool.store import StoreFile
    from rmqtool.store.staged_file import StagedFile


_CHUNK_UNITS = 1 << 16
_CHUNK_BYTES = 1 << 20
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_LEAST_LONG = -(1 << 63)
_OP_TAG = 100
"""Hash of the tag ``d``, which is the broker's own (``TransactionalMessageUtil.REMOVE_TAG``)."""


def write_units(
    source: ReadOnlyFile,
    target: StagedFile,
    layout: np.dtype[Any],
    label: str,
    tags: LookUp,
    disguise: Disguise,
) -> dict[int, list[int]]:
    """Make a file of units anew.

    Args:
        source: The file.
        target: Receives it, at its full size already.
        layout: of a unit, or of a batch unit.
        label: Its name in the store.
        tags: Hashes of the log's records.
        disguise: Replaces what the log does not know.

    Returns:
        Physical offsets of the units' messages by address in the queue's extension.
    """
    size, position = source.size_bytes(), 0
    addresses: dict[int, list[int]] = {}
    whole = size // layout.itemsize * layout.itemsize
    while position < whole:
        position = source.next_written(position) // layout.itemsize * layout.itemsize
        data = source.read_at(position, min(_CHUNK_UNITS * layout.itemsize, max(whole - position, 0)), [])
        data = data[: len(data) // layout.itemsize * layout.itemsize]
        if not data:
            break
        if any(data):
            units = np.frombuffer(data, layout).copy()
            offsets, codes = units["physicalOffset"].astype(np.int64), units["tagsCode"].astype(np.int64)
            units["tagsCode"] = new_codes(offsets, codes, tags, disguise)
            is_address = codes < _INT_MIN
            for address, offset in zip(codes[is_address] - _LEAST_LONG, offsets[is_address], strict=True):
                addresses.setdefault(int(address), []).append(int(offset))
            write_sparse(target, position, units.tobytes())
        position += len(data)
    rest = source.read_at(whole, size - whole, [])
    if any(rest):
        write_sparse(target, whole, disguise.noise(rest, label, whole))
    return addresses


def new_codes(offsets: Int64s, codes: Int64s, tags: LookUp, disguise: Disguise) -> Int64s:
    """Return new tags codes: what is no hash stays, a hash of other tags than the record's stays wrong."""
    found, is_met = tags.find(offsets, codes)
    is_hash = (codes != 0) & (codes >= _INT_MIN) & (codes <= _INT_MAX)
    made = codes.copy()
    made[is_met & is_hash] = found[is_met & is_hash]
    for row in np.flatnonzero(is_hash & ~is_met & (codes != _OP_TAG)):
        made[row] = disguise.number(b"tags", int(codes[row]), 31)
    return made


def write_extension(
    source: ReadOnlyFile,
    target: StagedFile,
    label: str,
    start: int,
    addresses: dict[int, list[int]],
    tags: LookUp,
    disguise: Disguise,
) -> None:
    """Make a file of ``consumequeue_ext`` anew.

    Args:
        source: The file.
        target: Receives it, at its full size already.
        label: Its name in the store.
        start: Address of its first byte.
        addresses: As `write_units` returns for the queue.
        tags: Hashes of the log's records.
        disguise: Replaces what the log does not know.
    """
    size, position = source.size_bytes(), 0
    while head := EXT_HEADS.decode(source.read_at(position, EXT_HEAD_SIZE, [])):
        if head.size < EXT_HEAD_SIZE or position + head.size > size:
            break
        code = _new_code(head.tags_code, addresses.get(start + position, [-1]), tags, disguise)
        write_sparse(target, position, EXT_HEADS.encode(head._replace(tags_code=code)))
        at = position + EXT_HEAD_SIZE
        write_sparse(target, at, source.read_at(at, head.size - EXT_HEAD_SIZE, []))
        position += head.size
    end = source.read_at(position, 2, [])
    write_sparse(target, position, end)
    write_noise(source, target, label, position + len(end), size, disguise)


def _new_code(code: int, offsets: list[int], tags: LookUp, disguise: Disguise) -> int:
    """Return the new tags code of an ext unit that units with these messages name: of the first it fits."""
    places, codes = np.array(offsets), np.full(len(offsets), code)
    _, is_met = tags.find(places, codes)
    at = int(is_met.argmax())
    return int(new_codes(places[at : at + 1], codes[:1], tags, disguise)[0])


def write_noise(
    source: ReadOnlyFile | StoreFile,
    target: StagedFile,
    label: str,
    position: int,
    size: int,
    disguise: Disguise,
) -> None:
    """Write what nobody understands, from a position on up to the size of the file."""
    while position < size:
        position = source.next_written(position)
        data = source.read_at(position, min(_CHUNK_BYTES, max(size - position, 0)), [])
        if any(data):
            write_sparse(target, position, disguise.noise(data, label, position))
        position += max(len(data), 1)
