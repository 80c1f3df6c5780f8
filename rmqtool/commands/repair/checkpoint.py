"""Checkpoint with the times of the log's end, for a store whose queues and index are complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.derived.checkpoint import loaded_checkpoint
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.checkpoint import CHECKPOINT, CHECKPOINT_FILE_SIZE
from rmqtool.releases import UncleanStart
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.scan.log_end import find_log_end

if TYPE_CHECKING:
    from rmqtool.formats.checkpoint import CheckpointFields
    from rmqtool.store import Store


def checkpoint_bytes(store: Store) -> bytes | None:
    """Return a checkpoint with the times of the last record; None for a log without any.

    The index's time is the last record's, too: all its files are complete, so a start after a crash need not
    delete any (``IndexService#load``). The fields of a controller or a replica stay; the place of the last
    record is for brokers that use it (5.5.0+, ``StoreCheckpoint``).
    """
    end = find_log_end(FoundEdge.of(store))
    last = end.last
    if last is None:
        return None
    time_ms = last.head.store_timestamp_ms
    old = _present(store)
    knows_place = store.settings.release.unclean_start is UncleanStart.BY_OFFSET
    fields = {
        "physicMsgTimestamp": time_ms,
        "logicsMsgTimestamp": time_ms,
        "indexMsgTimestamp": time_ms,
        "masterFlushedOffset": min(old.master_flushed_offset, end.end),
        "confirmPhyOffset": min(old.confirm_phy_offset, end.end),
        "logicsPhysicalOffset": last.physical_offset if knows_place else 0,
    }
    return bytes(CHECKPOINT.build(fields)).ljust(CHECKPOINT_FILE_SIZE, b"\0")


def _present(store: Store) -> CheckpointFields:
    file = store.checkpoint
    if file is None or file.size_bytes != CHECKPOINT_FILE_SIZE:
        return loaded_checkpoint(None)
    try:
        return loaded_checkpoint(file)
    except EnvironmentFailureError:
        return loaded_checkpoint(None)
