"""What is lost, worked out the plain way: every record walked, every unit read, sets compared."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

_UNIT = struct.Struct(">qiq")
_PREBLANK = 0x7FFFFFFF


class PlainUnit(NamedTuple):
    """A unit of a consume queue."""

    topic: str
    queue_id: int
    number: int
    physical_offset: int


def units_of(root: Path) -> set[PlainUnit]:
    """Return all units of a directory's consume queues that can lead to a record."""
    found = set()
    for file in (root / "consumequeue").glob("*/*/[0-9]*"):
        data, first = file.read_bytes(), int(file.name) // _UNIT.size
        for number in range(len(data) // _UNIT.size):
            offset, size, _ = _UNIT.unpack_from(data, number * _UNIT.size)
            if size > 0 and offset >= 0 and (offset, size) != (0, _PREBLANK):
                topic, queue_id = file.parent.parent.name, int(file.parent.name)
                found.add(PlainUnit(topic, queue_id, first + number, offset))
    return found


@dataclass(frozen=True)
class PlainLog:
    """The true records of a log, by place."""

    start: int
    records: dict[int, Record]

    @classmethod
    def of(cls, root: Path) -> PlainLog:
        """Walk a store's log."""
        log = open_store(root).commitlog
        records = {
            one.physical_offset: one
            for one in walk(log.segments)
            if isinstance(one, Record) and one.head.physical_offset == one.physical_offset
        }
        return cls(log.start, records)

    @property
    def end(self) -> int:
        """Return the physical offset after the last record; 0 of a log without any."""
        return max((at + len(one.raw) for at, one in self.records.items()), default=0)

    def holds(self, physical_offset: int) -> bool:
        """Whether a place lies in a true record."""
        return any(at <= physical_offset < at + len(one.raw) for at, one in self.records.items())
