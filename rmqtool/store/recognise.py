"""What kind of store file some bytes are, for files that do not lie where a broker puts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.formats import struct_of
from rmqtool.formats.checkpoint import CHECKPOINT, CHECKPOINT_FILE_SIZE
from rmqtool.formats.consumequeue import (
    BATCH_COMPACTED_OFFSET,
    BATCH_UNIT,
    BATCH_UNIT_SIZE,
    EXT_HEAD,
    EXT_HEAD_SIZE,
    UNIT,
    UNIT_SIZE,
)
from rmqtool.formats.index import HEADER, HEADER_SIZE
from rmqtool.formats.message import BLANK, BLANK_MAGIC, MAGIC_V1, MAGIC_V2

if TYPE_CHECKING:
    from rmqtool.store.reading import ReadOnlyFile

_EARLIEST_MS = 1_262_304_000_000  # 2010, before the first broker
_LATEST_MS = 4_102_444_800_000  # 2100
_HEAD_BYTES = 4096


def kind_of_bytes(file: ReadOnlyFile) -> str | None:
    """Return the ``--type`` that a file's first bytes fit, or None; zeros fit nothing.

    The most telling format is tried first: a magic, then headers with times, then bare units.
    """
    size_bytes = file.size_bytes()
    head = file.read_at(0, _HEAD_BYTES, [])
    if _is_commitlog(head):
        return "commitlog"
    if size_bytes == CHECKPOINT_FILE_SIZE and _is_checkpoint(head):
        return "checkpoint"
    if _is_index(head, size_bytes):
        return "index"
    if size_bytes % BATCH_UNIT_SIZE == 0 and _is_batch_unit(head):
        return "batchconsumequeue"
    if size_bytes % UNIT_SIZE == 0 and _is_unit(head):
        return "consumequeue"
    return "consumequeue-ext" if _is_ext_unit(head) else None


def _is_time(timestamp_ms: int) -> bool:
    return _EARLIEST_MS <= timestamp_ms < _LATEST_MS


def _is_commitlog(head: bytes) -> bool:
    # A BLANK begins like every record: length, magic.
    start = struct_of(BLANK)
    if len(head) < start.size:
        return False
    size, magic = start.unpack_from(head)[:2]
    return bool(size > 0 and magic in {MAGIC_V1, MAGIC_V2, BLANK_MAGIC})


def _is_checkpoint(head: bytes) -> bool:
    fields = struct_of(CHECKPOINT)
    if any(head[fields.size :]):
        return False
    times = fields.unpack_from(head)[:3]
    return any(times) and all(time == 0 or _is_time(time) for time in times)


def _is_index(head: bytes, size_bytes: int) -> bool:
    if len(head) < HEADER_SIZE or size_bytes % 4:
        return False
    begin, end, begin_phy, end_phy, used, count = struct_of(HEADER).unpack_from(head)
    return bool(
        _is_time(begin) and begin <= end < _LATEST_MS and 0 <= begin_phy <= end_phy and used >= 0 < count
    )


def _is_unit(head: bytes) -> bool:
    if len(head) < UNIT_SIZE:
        return False
    physical_offset, size, _ = struct_of(UNIT).unpack_from(head)
    return bool(physical_offset >= 0 and size > 0)


def _is_batch_unit(head: bytes) -> bool:
    if len(head) < BATCH_UNIT_SIZE:
        return False
    fields = struct_of(BATCH_UNIT).unpack_from(head)
    physical_offset, size, _, store_time, base, batch_size, compacted, _ = fields
    plausible = physical_offset >= 0 and size > 0 and base >= 0 and batch_size > 0
    return bool(plausible and _is_time(store_time) and compacted == BATCH_COMPACTED_OFFSET)


def _is_ext_unit(head: bytes) -> bool:
    if len(head) < EXT_HEAD_SIZE:
        return False
    size, _, store_time, bit_map_size = struct_of(EXT_HEAD).unpack_from(head)
    return bool(size == EXT_HEAD_SIZE + bit_map_size and bit_map_size >= 0 and _is_time(store_time))
