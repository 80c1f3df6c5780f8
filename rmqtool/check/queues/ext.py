"""The ext queue of a consume queue: units of varying length, found by address (``ConsumeQueueExt``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.check.queues.report import Problem, Telling
from rmqtool.findings import Structure
from rmqtool.findings.consumequeue import CQ_EXT_DANGLING, CQ_EXT_ORPHAN, CQ_EXT_UNIT
from rmqtool.formats import consumequeue as formats
from rmqtool.formats import struct_of
from rmqtool.store.unreadable import unreadable_findings

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.check.queues.reader import Units
    from rmqtool.check.queues.report import QueueReport
    from rmqtool.store.reading import UnreadableRange
    from rmqtool.store.segments import FileQueue, Segment

    Int64s = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

_HEAD = struct_of(formats.EXT_HEAD)
_HEAD_DTYPE = np.dtype([("size", ">i2"), ("tags", ">i8"), ("time", ">i8"), ("bits", ">i2")])
_END_SIZE = -1
_FIRST_READ_BYTES = 1 << 16
_LARGEST_UNIT = 1 << 15

NO_EXT_TIME, LOST_EXT_TIME = -1, -2
"""In place of an ext unit's store time: the unit has no ext address; there is nothing at its address."""


@dataclass
class _ExtFile:
    """The units of one ext file; ``(n,)`` each.

    Attributes:
        positions: in the file, ascending.
        tags_codes: of the messages.
        times_ms: store times.
    """

    positions: Int64s
    tags_codes: Int64s
    times_ms: Int64s


class ExtQueue:
    """Ext units by their address; one file's units are kept at a time.

    Args:
        files: in ``consumequeue_ext``; None if there are none.
        report: of the queue.
        expected: a tags code that is an address is one; otherwise it is a tags code as any other, as no
            queue of this store has ext units.
    """

    def __init__(self, files: FileQueue | None, report: QueueReport, *, expected: bool) -> None:
        self._files = files
        self._expected = expected or files is not None
        self._report = report
        self._loaded: tuple[Segment, _ExtFile] | None = None
        self._used: dict[int, Bools] = {}

    def resolve(self, units: Units, rows: Int64s) -> tuple[Int64s, Int64s, list[Problem]]:
        """Look up the tags codes of units that are addresses.

        Args:
            units: a chunk of the consume queue.
            rows: ``(n,)``, its real units.

        Returns:
            Tags codes, ``(n,)``, with those of ext units in place of addresses; store times of the ext units,
            `NO_EXT_TIME` or `LOST_EXT_TIME` where there is none; and addresses where no unit is.
        """
        tags = units.column("tagsCode")[rows]
        times = np.full(len(rows), NO_EXT_TIME, np.int64)
        is_address = tags <= formats.EXT_ADDRESS_MAX
        if not (self._expected and is_address.any()):
            return tags, times, []
        missing = is_address.copy()
        addresses = tags - formats.EXT_ADDRESS_BASE
        for segment in self._files or ():
            inside = np.flatnonzero(is_address & (addresses >= segment.start) & (addresses < segment.stop))
            if not len(inside):
                continue
            file = self._load(segment)
            wanted = addresses[inside] - segment.start
            at = np.minimum(np.searchsorted(file.positions, wanted), max(len(file.positions) - 1, 0))
            hit = file.positions[at] == wanted if len(file.positions) else np.zeros(len(wanted), np.bool_)
            tags[inside[hit]] = file.tags_codes[at[hit]]
            times[inside[hit]] = np.maximum(file.times_ms[at[hit]], 0)  # -1 is for units without
            missing[inside[hit]] = False
            self._used[segment.start][at[hit]] = True
        times[missing] = LOST_EXT_TIME
        problem = Problem(CQ_EXT_DANGLING, units, rows[missing], lambda row: _tell_dangling(units, row))
        return tags, times, [problem]

    def finish(self) -> None:
        """Check the files that nothing pointed into, and count the units that nobody refers to."""
        for segment in self._files or ():
            if segment.start not in self._used:
                self._load(segment)
            orphans = np.flatnonzero(~self._used[segment.start])
            if len(orphans):
                self._report.add(
                    CQ_EXT_ORPHAN, f"ext units in {segment.label}", segment=segment, count=len(orphans)
                )
            segment.close()

    def _load(self, segment: Segment) -> _ExtFile:
        if self._loaded is None or self._loaded[0] is not segment:
            bad: list[UnreadableRange] = []
            file, stop = _load_units(segment, bad)
            self._loaded = segment, file
            if segment.start not in self._used:
                self._used[segment.start] = np.zeros(len(file.positions), np.bool_)
                self._report.log.extend(unreadable_findings(segment, bad, Structure.CONSUMEQUEUE))
                self._check_end(segment, stop)
        return self._loaded[1]

    def _check_end(self, segment: Segment, stop: int) -> None:
        """Report what ends the units of a file, unless it is the end mark, or zeros in the last file."""
        head = segment.read_at(stop, 2, []).ljust(2, b"\0")
        size = int.from_bytes(head, "big", signed=True)
        is_last = self._files is None or segment is self._files.segments[-1]
        room = segment.size_bytes - stop
        if size == _END_SIZE or (size == 0 and is_last):
            return
        if size == 0:
            message = f"{segment.label} ends at {stop} without end mark, though another file follows"
        elif room < formats.EXT_END_ROOM:
            message = f"{segment.label} has no room for an end mark at {stop}"
        else:
            message = f"ext unit at {stop} of {segment.label} has the size {size}, which its bit map denies"
        self._report.add(CQ_EXT_UNIT, message, segment=segment, position=stop, length=room, observed=size)


def _load_units(segment: Segment, bad: list[UnreadableRange]) -> tuple[_ExtFile, int]:
    """Return the units of an ext file and the position behind the last good one; zeros behind stay unread."""
    length = _FIRST_READ_BYTES
    while True:
        bad.clear()
        data = segment.read_at(0, min(length, segment.size_bytes), bad)
        file, stop = _parse(data)
        if len(data) < length or stop + _LARGEST_UNIT <= len(data):
            return file, stop
        length *= 8


def _parse(data: bytes) -> tuple[_ExtFile, int]:
    """Return the units at the start of some bytes, and where they end.

    Units without bit maps have one size, so they are taken many at a time; others one by one.
    """
    pieces: list[tuple[Int64s, npt.NDArray[Any]]] = []
    position = 0
    while position + _HEAD.size <= len(data):
        plain = _plain_units(data, position)
        if len(plain):
            pieces.append((position + np.arange(len(plain)) * _HEAD.size, plain))
            position += plain.nbytes
            continue
        size, _, _, bits = _HEAD.unpack_from(data, position)
        if bits < 0 or size != _HEAD.size + bits or position + size > len(data):
            break
        pieces.append((np.array([position]), np.frombuffer(data, _HEAD_DTYPE, 1, position)))
        position += size
    positions = np.concatenate([np.zeros(0, np.int64), *(at for at, _ in pieces)])
    heads = np.concatenate([np.zeros(0, _HEAD_DTYPE), *(rows for _, rows in pieces)])
    return _ExtFile(positions, heads["tags"].astype(np.int64), heads["time"].astype(np.int64)), position


def _plain_units(data: bytes, position: int) -> npt.NDArray[Any]:
    """Return the units without bit map that lie one behind the other from ``position`` on."""
    count = (len(data) - position) // _HEAD.size
    rows = np.frombuffer(data, _HEAD_DTYPE, min(count, 1 << 12), position)
    other = np.flatnonzero((rows["size"] != _HEAD.size) | (rows["bits"] != 0))
    return rows[: int(other[0])] if len(other) else rows


def _tell_dangling(units: Units, row: int) -> Telling:
    address = int(units.rows["tagsCode"][row]) - formats.EXT_ADDRESS_BASE
    return Telling(f"refers to an ext unit at {address}, and there is none", observed=address)
