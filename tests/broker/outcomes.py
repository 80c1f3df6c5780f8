"""A prediction against what the broker did."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rmqtool.recovery import Prediction
    from tests.broker.jvm import Row

_DIRECTORIES = ("commitlog", "consumequeue", "consumequeue_ext", "batchconsumequeue", "index")
_COMMITTING = "Committing"  # of the message that commits what a member of DLedger has
_UNIT = struct.Struct(">qiq")
_TRANSACTION = 0xC

Queues = dict[tuple[str, int], tuple[int, int]]


def store_files(root: Path) -> set[str]:
    """Return the files of log, queues and index, relative to the store."""
    return {
        path.relative_to(root).as_posix()
        for name in _DIRECTORIES
        for path in (root / name).rglob("*")
        if path.is_file()
    }


def differences(prediction: Prediction, row: Row, before: set[str]) -> list[str]:
    """Compare; one sentence a difference."""
    facts: dict[str, tuple[Any, Any]] = {"loads": (prediction.loads, row["loaded"])}
    if prediction.loads and row["loaded"]:
        end = prediction.cut.physical_offset if prediction.cut else 0
        index = _index(row, before, prediction.ignored_index_files)
        made = [] if not index else index[-1:]
        if "committed" in row and index[:-1] == _predicted_index(prediction) and made[0][:2] == (None, 0):
            index.pop()  # made for the message without keys that commits the others
        facts |= {
            "committed": (True, row.get("committed", True)),
            "starts": (prediction.starts, row["started"]),
            "log end": (end, row["maxPhy"]),
            "queues": _unlike(_predicted_queues(prediction), _queues(row["queues"])),
            "deleted": (_of_the_row(prediction.deleted_files), before - set(row["afterStart"])),
            "index": (_predicted_index(prediction), index),
        }
    return [f"{what}: predicted {ours}, was {was}" for what, (ours, was) in facts.items() if ours != was]


def _of_the_row(labels: Iterable[str]) -> set[str]:
    return {label for label in labels if label.partition("/")[0] in _DIRECTORIES}


def _unlike(ours: Queues, was: Queues) -> tuple[Queues, Queues]:
    """Keep the queues that differ."""
    keys = {key for key in ours.keys() | was.keys() if ours.get(key) != was.get(key)}
    return {key: ours[key] for key in keys & ours.keys()}, {key: was[key] for key in keys & was.keys()}


def _predicted_queues(prediction: Prediction) -> Queues:
    return {
        (one.topic, one.queue_id): (one.min_offset, one.max_offset)
        for one in prediction.queues
        if one.max_offset or one.min_offset > 0
    }


def _queues(rows: list[Row]) -> Queues:
    """Return bounds by queue; queues that exist in memory only, without a message, say nothing."""
    return {
        (row["topic"], row["queueId"]): (row["min"], row["max"])
        for row in rows
        if (row["max"] or row["min"] > 0) and row["topic"] != _COMMITTING
    }


def _predicted_index(prediction: Prediction) -> list[tuple[str | None, int, int]]:
    return [(one.file, one.items, one.end_phy_offset) for one in prediction.index]


def _index(row: Row, before: set[str], ignored: tuple[str, ...]) -> list[tuple[str | None, int, int]]:
    """Return the index files after the start, at the end those that it made, whose names are the clock's."""
    known, made = [], []
    for header in row["index"]:
        label, items = f"index/{header['name']}", max(header["indexCount"] - 1, 0)
        if label not in before:
            made.append((None, items, header["endPhyOffset"]))
        elif label not in ignored:
            known.append((label, items, header["endPhyOffset"]))
    return [*known, *made]


def missing_units(root: Path, conf: Path, row: Row, cut: int) -> int:
    """Count the records below the cut that no unit of their own queue points to, after a start."""
    store = open_store(root, broker_conf=conf)
    wanted: dict[tuple[str, int], set[int]] = defaultdict(set)
    for event in walk(store.commitlog.segments):
        if isinstance(event, Record) and event.physical_offset < cut and not event.head.sys_flag & 0x4:
            wanted[event.topic, event.head.queue_id].add(event.head.physical_offset)
    store.commitlog.close()
    bounds = {(one["topic"], one["queueId"]): one["max"] for one in row["queues"]}
    return sum(
        len(
            offsets - _served(root / "consumequeue" / topic / str(queue_id), bounds.get((topic, queue_id), 0))
        )
        for (topic, queue_id), offsets in wanted.items()
    )


def _served(queue: Path, maximum: int) -> set[int]:
    """Return the physical offsets in the units that count: those below the max offset."""
    found = set()
    for file in sorted(queue.iterdir()) if queue.is_dir() else ():
        first, data = int(file.name) // _UNIT.size, file.read_bytes()
        for number in range(len(data) // _UNIT.size):
            offset, size, _ = _UNIT.unpack_from(data, number * _UNIT.size)
            if first + number < maximum and size not in {0, 0x7FFFFFFF}:
                found.add(offset)
    return found
