"""Ext queue of a consume queue: units of varying length, found by address (``ConsumeQueueExt``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.check.queues.report import Detail, Problem
from rmqtool.derived.ext_files import ExtFile
from rmqtool.findings import Structure
from rmqtool.findings.consumequeue import CQ_EXT_DANGLING, CQ_EXT_ORPHAN, CQ_EXT_UNIT
from rmqtool.formats import consumequeue as formats
from rmqtool.store.unreadable import unreadable_findings

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s
    from rmqtool.check.queues.report import QueueReport
    from rmqtool.derived.ext_files import ExtColumns
    from rmqtool.derived.queue_files import Units
    from rmqtool.io.reading import UnreadableRange
    from rmqtool.store.segments import FileQueue, Segment


NO_EXT_TIME, LOST_EXT_TIME = -1, -2
"""In place of an ext unit's store time: the unit has no ext address; its address has no ext unit."""


class ExtQueue:
    """Ext units by their address; one file's units are kept at a time.

    ``expected`` is whether a tags code in the range of addresses is one; it is not if no queue of this store
    has ext units.
    """

    def __init__(self, files: FileQueue | None, report: QueueReport, *, expected: bool) -> None:
        self._files = files
        self._expected = expected or files is not None
        self._report = report
        self._loaded: tuple[Segment, ExtColumns] | None = None
        self._used: dict[int, Bools] = {}

    def resolve(self, units: Units, rows: Int64s) -> tuple[Int64s, Int64s, list[Problem]]:
        """Look up the tags codes of real units, ``rows`` ``(n,)`` of a chunk, that are addresses.

        Returns:
            Tags codes, ``(n,)``, with those of ext units in place of addresses; store times of the ext units,
            `NO_EXT_TIME` or `LOST_EXT_TIME` where there is none; and addresses without a unit.
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

    def _load(self, segment: Segment) -> ExtColumns:
        if self._loaded is None or self._loaded[0] is not segment:
            bad: list[UnreadableRange] = []
            file = ExtFile(segment).columns(bad)
            self._loaded = segment, file
            if segment.start not in self._used:
                self._used[segment.start] = np.zeros(len(file.positions), np.bool_)
                self._report.log.extend(unreadable_findings(segment, bad, Structure.CONSUMEQUEUE))
                self._check_end(segment, file.stop)
        return self._loaded[1]

    def _check_end(self, segment: Segment, stop: int) -> None:
        """Report a wrong end of a file's units; right are the end mark, or zeros in the last file."""
        size = ExtFile(segment).size_at(stop)
        is_last = self._files is None or segment is self._files.segments[-1]
        room = segment.size_bytes - stop
        if size == formats.EXT_END_SIZE or (size == 0 and is_last):
            return
        if size == 0:
            message = f"{segment.label} ends at {stop} without end mark, though another file follows"
        elif room < formats.EXT_END_ROOM:
            message = f"{segment.label} has no room for an end mark at {stop}"
        else:
            message = (
                f"ext unit at {stop} of {segment.label} has the size {size}, which contradicts its bit map"
            )
        self._report.add(CQ_EXT_UNIT, message, segment=segment, position=stop, length=room, observed=size)


def _tell_dangling(units: Units, row: int) -> Detail:
    address = int(units.rows["tagsCode"][row]) - formats.EXT_ADDRESS_BASE
    return Detail(f"refers to a missing ext unit at {address}", observed=address)
