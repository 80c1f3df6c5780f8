"""What kind of store file some bytes are, for files that do not lie where a broker puts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.formats import struct_of
from rmqtool.formats.checkpoint import CHECKPOINT_FILE_SIZE, CHECKPOINTS
from rmqtool.formats.consumequeue import (
    BATCH_COMPACTED_OFFSET,
    BATCH_UNIT_SIZE,
    BATCH_UNITS,
    EXT_HEADS,
    UNIT_SIZE,
    UNITS,
)
from rmqtool.formats.index import HEADERS, SLOT_SIZE
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
    fields = CHECKPOINTS.decode(head)
    if fields is None or any(head[CHECKPOINTS.size :]):
        return False
    times = fields.physic_msg_timestamp_ms, fields.logics_msg_timestamp_ms, fields.index_msg_timestamp_ms
    return any(times) and all(time == 0 or _is_time(time) for time in times)


def _is_index(head: bytes, size_bytes: int) -> bool:
    header = HEADERS.decode(head)
    if header is None or size_bytes % SLOT_SIZE:
        return False
    begin, end, begin_phy, end_phy, used, count = header
    return bool(
        _is_time(begin) and begin <= end < _LATEST_MS and 0 <= begin_phy <= end_phy and used >= 0 < count
    )


def _is_unit(head: bytes) -> bool:
    unit = UNITS.decode(head)
    return unit is not None and unit.physical_offset >= 0 and unit.size > 0


def _is_batch_unit(head: bytes) -> bool:
    unit = BATCH_UNITS.decode(head)
    if unit is None or unit.physical_offset < 0 or unit.size <= 0:
        return False
    plausible = unit.msg_base_offset >= 0 and unit.batch_size > 0 and _is_time(unit.store_timestamp_ms)
    return plausible and unit.compacted_offset == BATCH_COMPACTED_OFFSET


def _is_ext_unit(head: bytes) -> bool:
    unit = EXT_HEADS.decode(head)
    if unit is None or unit.bit_map_size < 0:
        return False
    return unit.size == EXT_HEADS.size + unit.bit_map_size and _is_time(unit.store_timestamp_ms)
