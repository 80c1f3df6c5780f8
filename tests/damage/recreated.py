"""A store whose topic was deleted and created again: the log holds both, the queues hold the new messages."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from rmqtool.formats.consumequeue import UNIT_SIZE
from tests.damage.places import Places
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.scan.records import Record

QUEUE_FILE = 200
"""``mappedFileSizeConsumeQueue`` of the fixtures: ten units."""


def recreated(folder: Path, live: int, *, topic: str = "TopicTest", queues: tuple[int, ...] = (0,)) -> Path:
    """Copy plain-5.3.3 as if a topic had been created again before the last messages of some of its queues.

    Args:
        folder: where to put the copy.
        live: messages of each queue that came after that.
        topic: the topic.
        queues: those that were written to since; the others of the topic are gone.
    """
    root = folder / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    places = Places(root)
    by_queue: dict[int, list[Record]] = {}
    for record in places.records:
        if record.topic_bytes.decode() == topic:
            by_queue.setdefault(record.head.queue_id, []).append(record)
    start_of_new = min(by_queue[queue][-live].physical_offset for queue in queues)
    for queue in by_queue.keys() - set(queues):  # whatever came later went to the first queue that lives
        by_queue[queues[0]] += [one for one in by_queue.pop(queue) if one.physical_offset >= start_of_new]
        shutil.rmtree(root / "consumequeue" / topic / str(queue))
    units = _units_of(fixture("plain-5.3.3") / "consumequeue")
    for queue, records in by_queue.items():
        since = sorted(
            (one for one in records if one.physical_offset >= start_of_new),
            key=lambda one: one.physical_offset,
        )
        for number, record in enumerate(since):
            _set(root, places, record, "queueId", queue)
            _set(root, places, record, "queueOffset", number)
        _write_queue(
            root / "consumequeue" / topic / str(queue), [units[one.physical_offset] for one in since]
        )
    return root


def _set(root: Path, places: Places, record: Record, field: str, value: int) -> None:
    place = places.of_record(record, field)
    data = bytearray((root / place.file).read_bytes())
    data[place.position : place.position + place.length] = value.to_bytes(place.length, "big")
    (root / place.file).write_bytes(data)


def _units_of(consumequeue: Path) -> dict[int, bytes]:
    """Return all units of a store by the physical offset that they point at."""
    found = {}
    for path in consumequeue.rglob("0*"):
        data = path.read_bytes() if path.is_file() else b""
        for at in range(0, len(data), UNIT_SIZE):
            unit = data[at : at + UNIT_SIZE]
            if any(unit):
                found[int.from_bytes(unit[:8], "big")] = unit
    return found


def _write_queue(directory: Path, units: list[bytes]) -> None:
    """Write the units of the messages that live, in the order of their new numbers."""
    shutil.rmtree(directory)
    directory.mkdir()
    data = b"".join(units)
    for start in range(0, len(data), QUEUE_FILE):
        part = data[start : start + QUEUE_FILE]
        (directory / f"{start:020d}").write_bytes(part.ljust(QUEUE_FILE, b"\0"))
