"""Kinds of files in a store: their places, their layouts, and how to recognise their bytes.

A new kind is a row here. Commands have one table each by the same kinds: rows in `rmqtool.commands.dump.run`,
comparison in `rmqtool.commands.diff.run`, checks in `rmqtool.check.derived`; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rmqtool.formats import Decoder, checkpoint, consumequeue, index, message
from rmqtool.formats.checkpoint import CHECKPOINT_FILE_SIZE, CHECKPOINTS
from rmqtool.formats.consumequeue import (
    BATCH_COMPACTED_OFFSET,
    BATCH_UNITS,
    EXT_HEADS,
    PREBLANK_SIZE,
    UNITS,
    UnitFields,
)
from rmqtool.formats.index import HEADERS, SLOT_SIZE
from rmqtool.formats.message import BLANK_MAGIC, MAGIC_V1, MAGIC_V2, RECORD_STARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rmqtool.io import ReadOnlyFile

_EARLIEST_MS = 1_262_304_000_000  # 2010, before the first broker
_LATEST_MS = 4_102_444_800_000  # 2100
_HEAD_BYTES = 4096
_LARGEST_MESSAGE_BYTES = 1 << 28  # 64 times maxMessageSize
_LARGEST_LOG_BYTES = 1 << 50


class PathKind(StrEnum):
    """Kinds of PATH; the values but ``store`` are those of ``--type``."""

    STORE = "store"
    COMMITLOG = "commitlog"
    CONSUMEQUEUE = "consumequeue"
    CONSUMEQUEUE_EXT = "consumequeue-ext"
    BATCHCONSUMEQUEUE = "batchconsumequeue"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    CONFIG = "config"


@dataclass(frozen=True)
class FileKind:
    """One kind of file.

    ``directory`` is its place in a store root (``StorePathConfigHelper``), None where it has none of its own;
    with ``is_queue`` its files lie in ``TOPIC/QUEUEID`` below. ``schemas`` are its layouts by the names of
    ``dump --layout``; ``units`` decodes units of one length. ``recognises`` takes a file's first bytes and
    its size; the lowest ``rank`` is the surest sign and is tried first.
    """

    kind: PathKind
    directory: str | None = None
    is_queue: bool = False
    schemas: Mapping[str, Any] = field(default_factory=dict)
    units: Decoder[Any] | None = None
    recognises: Callable[[bytes, int], bool] | None = None
    rank: int = 0


def kind_of_bytes(file: ReadOnlyFile) -> PathKind | None:
    """Return the kind that a file's first bytes fit, or None; zeros fit nothing.

    The surest signs are tried first: a magic, then headers with times, then bare units.
    """
    size_bytes = file.current_size()
    head = file.read_at(0, _HEAD_BYTES, [])
    for one in sorted(KINDS.values(), key=lambda one: one.rank):
        if one.recognises is not None and one.recognises(head, size_bytes):
            return one.kind
    return None


def _is_time(timestamp_ms: int) -> bool:
    return _EARLIEST_MS <= timestamp_ms < _LATEST_MS


def _is_commitlog(head: bytes, _size_bytes: int) -> bool:
    # A BLANK begins like every record: length, magic.
    start = RECORD_STARTS.decode(head)
    return start is not None and start.total_size > 0 and start.magic in {MAGIC_V1, MAGIC_V2, BLANK_MAGIC}


def _is_checkpoint(head: bytes, size_bytes: int) -> bool:
    fields = CHECKPOINTS.decode(head)
    if fields is None or size_bytes != CHECKPOINT_FILE_SIZE or any(head[CHECKPOINTS.size :]):
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


def _is_unit(head: bytes, size_bytes: int) -> bool:
    """Bare units have no magic: text of such a length would be units, too, at offsets that no log reaches."""
    if size_bytes % UNITS.size:
        return False
    ends = range(UNITS.size, len(head) + 1, UNITS.size)
    units = [unit for end in ends if (unit := UNITS.decode(head[end - UNITS.size : end])) is not None]
    begun = [unit for unit in units if unit.physical_offset or unit.size]
    return bool(units) and units[0] in begun and all(map(_leads_into_a_log, begun))


def _leads_into_a_log(unit: UnitFields) -> bool:
    fits = 0 < unit.size <= _LARGEST_MESSAGE_BYTES or unit == (0, PREBLANK_SIZE, 0)
    return fits and 0 <= unit.physical_offset < _LARGEST_LOG_BYTES


def _is_batch_unit(head: bytes, size_bytes: int) -> bool:
    unit = BATCH_UNITS.decode(head)
    if unit is None or size_bytes % BATCH_UNITS.size or unit.physical_offset < 0 or unit.size <= 0:
        return False
    plausible = unit.msg_base_offset >= 0 and unit.batch_size > 0 and _is_time(unit.store_timestamp_ms)
    return plausible and unit.compacted_offset == BATCH_COMPACTED_OFFSET


def _is_ext_unit(head: bytes, _size_bytes: int) -> bool:
    unit = EXT_HEADS.decode(head)
    if unit is None or unit.bit_map_size < 0:
        return False
    return unit.size == EXT_HEADS.size + unit.bit_map_size and _is_time(unit.store_timestamp_ms)


KINDS: dict[PathKind, FileKind] = {
    one.kind: one
    for one in (
        FileKind(
            PathKind.COMMITLOG,
            directory="commitlog",
            schemas={
                "message": message.MESSAGE,
                "blank": message.BLANK,
                "inner-message": message.INNER_MESSAGE,
            },
            recognises=_is_commitlog,
            rank=1,
        ),
        FileKind(
            PathKind.CONSUMEQUEUE,
            directory="consumequeue",
            is_queue=True,
            schemas={"unit": consumequeue.UNIT},
            units=UNITS,
            recognises=_is_unit,
            rank=5,
        ),
        FileKind(
            PathKind.CONSUMEQUEUE_EXT,
            directory="consumequeue_ext",
            is_queue=True,
            schemas={"ext-unit": consumequeue.EXT_UNIT},
            recognises=_is_ext_unit,
            rank=6,
        ),
        FileKind(
            PathKind.BATCHCONSUMEQUEUE,
            directory="batchconsumequeue",
            is_queue=True,
            schemas={"batch-unit": consumequeue.BATCH_UNIT},
            units=BATCH_UNITS,
            recognises=_is_batch_unit,
            rank=4,
        ),
        FileKind(
            PathKind.INDEX,
            directory="index",
            schemas={"index-header": index.HEADER, "slot": index.SLOT, "item": index.ITEM},
            recognises=_is_index,
            rank=3,
        ),
        FileKind(
            PathKind.CHECKPOINT,
            schemas={"checkpoint": checkpoint.CHECKPOINT},
            recognises=_is_checkpoint,
            rank=2,
        ),
        FileKind(PathKind.CONFIG),
    )
}

QUEUE_KINDS = tuple(one.kind for one in KINDS.values() if one.is_queue)

UNIT_QUEUE_KINDS = tuple(kind for kind in QUEUE_KINDS if KINDS[kind].units is not None)
"""Queues that number messages; an ext queue only adds to a consume queue's units."""

DIRECTORY_NAMES: dict[PathKind, str] = {
    one.kind: one.directory for one in KINDS.values() if one.directory is not None
}
