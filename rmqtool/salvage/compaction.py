"""Logs of compacted topics: they are copied where the new log agrees with them.

A broker serves a topic whose ``cleanup.policy`` is COMPACTION from ``compaction/`` alone
(``DefaultMessageStore#getMessage``), and puts there what it dispatches, which is nothing that its queues have
already: without a copy the topic is empty (5.3.3, 5.5.1). These logs hold whole records and name no place of
the commit log. But new messages at queue offsets that they have had are refused
(``CompactionLog#asyncPutMessage``), so they may not reach beyond the new queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.consumequeue import BATCH_UNITS
from rmqtool.io import FileKind
from rmqtool.salvage.companions import ConfigFile
from rmqtool.salvage.writing import FileCopier
from rmqtool.store.broker_json import ConfigFileError, compaction_topics, load_broker_json
from rmqtool.store.segments import StoreFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.io import Location
    from rmqtool.salvage.accounts import QueueAccount
    from rmqtool.salvage.model import SalvagePlan
    from rmqtool.salvage.writing import WrittenFile
    from rmqtool.store import Store
    from rmqtool.store.staging import StagingHandle

_PLACE = "compaction"
_LOGS, _QUEUES = f"{_PLACE}/compactionLog", f"{_PLACE}/compactionCq"
_POSITIONS = f"{_PLACE}/position-checkpoint"
_ANEW = "the topic is empty until a broker rebuilds queues and this: rmqtool help salvage"


def copy_compaction(
    store: Store, plan: SalvagePlan, staging: StagingHandle
) -> tuple[list[ConfigFile], list[WrittenFile]]:
    """Copy the logs of compacted topics, as they are.

    Args:
        store: the copy that leads.
        plan: of the new log.
        staging: where to write.

    Returns:
        What is not copied, and why; and the copies.
    """
    told: list[ConfigFile] = []
    written: list[WrittenFile] = []
    topics = frozenset[str]() if store.root is None else _compacted(store.root)
    mine = (queue for queue in plan.queues if queue.topic in topics)
    queues = sorted(mine, key=lambda queue: (queue.topic, queue.queue_id))
    if store.root is None or not queues:
        return told, written
    copier = FileCopier(staging)
    for queue in queues:
        name = f"{queue.topic}/{queue.queue_id}"
        problem = _problem(store.root, name, queue)
        if problem is None:
            for directory in (_LOGS, _QUEUES):
                written += [copier(file) for file in _files(store.root, f"{directory}/{name}")]
        else:
            told.append(ConfigFile(f"{_LOGS}/{name}", f"{problem}; {_ANEW}"))
    written += [copier(file) for file in _files(store.root, _PLACE) if file.label == _POSITIONS]
    return told, written


def _compacted(root: Location) -> frozenset[str]:
    try:
        return compaction_topics(load_broker_json(root / "config" / "topics.json"))
    except ConfigFileError:  # told with the settings
        return frozenset()


def _problem(root: Location, name: str, queue: QueueAccount) -> str | None:
    """Return why a queue's log is of no use; None if it is."""
    files = list(_files(root, f"{_QUEUES}/{name}"))
    if not files or not any(_files(root, f"{_LOGS}/{name}")):
        return "is not there"
    end = max(_end(file) for file in files)
    if end > queue.end_queue_offset:
        return f"goes on up to queue offset {end}, the new queue ends at {queue.end_queue_offset}"
    return (
        "queue offsets are others than before"
        if queue.unknown or queue.placed < queue.not_given_back
        else None
    )


def _end(file: StoreFile) -> int:
    """Return the queue offset after the last that a file of units has; 0 without any."""
    data = file.read_at(0, file.size_bytes)
    rows = np.frombuffer(data, BATCH_UNITS.dtype, len(data) // BATCH_UNITS.size)
    rows = rows[rows["size"] > 0]
    return int((rows["msgBaseOffset"].astype(np.int64) + rows["batchSize"]).max(initial=0))


def _files(root: Location, directory: str) -> Iterator[StoreFile]:
    for entry in (root / directory).entries():
        if entry.status.kind is FileKind.FILE:
            label = f"{directory}/{entry.name}"
            yield StoreFile(root / label, label, entry.status.size_bytes)
