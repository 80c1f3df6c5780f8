"""Places of the files of each log, the size of these files, and the records that belong to none."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.carve.images import Image, merged
from rmqtool.carve.logs import FoundLog, find_logs, find_pieces
from rmqtool.carve.proving import LooseCause, prove
from rmqtool.formats.framing import END_MARK_BYTES
from rmqtool.kernels.loose import DLEDGER_BYTES, FOUND_ROW
from rmqtool.kernels.rows import frame_stops
from rmqtool.releases import NEWEST
from rmqtool.store import Origin
from rmqtool.store.broker_conf import DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Bools, Int64s, Rows


LARGEST_FILE = 2**31 - 1
_MOST_TRIED = 64


class LogGeometry(NamedTuple):
    """The size of a log's files, with the number of end marks that show it, and of those that contradict it.

    ``straddling`` is how many records would lie in two files.
    """

    file_size: int
    origin: Origin
    blanks: int
    contradicting: int
    straddling: int


def infer_geometry(rows: Rows, given: int | None, hints: Sequence[int] = ()) -> LogGeometry:
    """Infer the size of a log's files from its records, ``(n,)`` of ``FOUND_ROW`` by offset.

    Every file ends with a mark that states how far it is to its end, no record lies in two files, and all
    files have one size. Of the sizes that agree best with all that, the broker's own is taken, else one that
    several marks agree on, else the roundest. A ``given`` size decides; ``hints`` are likely sizes, such as
    those of images that begin where a file would.
    """
    before = rows[rows["blank"] != 0]
    if given is not None:
        return _geometry(rows, before, given, Origin.GIVEN)
    default = int(str(DEFINITIONS["mappedFileSizeCommitLog"].default(NEWEST)))
    best = None
    for size in dict.fromkeys([*hints, default, *_common(before)]):
        if 0 < size <= LARGEST_FILE:
            geometry = _geometry(rows, before, size, Origin.INFERRED)
            if best is None or _doubts(geometry) < _doubts(best):
                best = geometry
            if not any(_doubts(geometry)):
                break
    assert best is not None
    is_assumed = best.file_size == default and default not in hints and not len(before)
    return best._replace(origin=Origin.DEFAULT) if is_assumed else best


def _doubts(geometry: LogGeometry) -> tuple[int, int]:
    return geometry.straddling, geometry.contradicting


def straddling(rows: Rows, file_size: int) -> Bools:
    """Return which records, with the end mark after them, do not fit into one file, ``(n,)``."""
    last = frame_stops(rows) + END_MARK_BYTES - 1
    wrong: Bools = rows["log_offset"] // file_size != last // file_size
    return wrong


def _ends(before: Rows) -> Int64s:
    ends: Int64s = frame_stops(before) + before["blank"]
    return ends


def _geometry(rows: Rows, before: Rows, size: int, origin: Origin) -> LogGeometry:
    ends = _ends(before)
    wrong = (ends % size != 0) | (frame_stops(before) // size != (ends - 1) // size)
    return LogGeometry(size, origin, len(ends), int(wrong.sum()), int(straddling(rows, size).sum()))


def _common(before: Rows) -> list[int]:
    """Return sizes that end marks may mean, the likeliest first."""
    ends = np.unique(_ends(before))
    if not len(ends):
        return []
    steps = np.unique(np.diff(ends))
    common = gcd(*map(int, ends))
    sizes = [common, *(int(step) for step in steps[:_MOST_TRIED])] if len(ends) > 1 else []
    power = common & -common
    return [*sizes, power, *_divisors(common), int(ends[0])]


def _divisors(number: int) -> list[int]:
    least = -(-number // LARGEST_FILE)
    return [number // part for part in range(least, least + _MOST_TRIED) if number % part == 0]


LEAST_RECORDS = 16
"""Records that a log beside the largest must have; fewer are kept loose."""

_BLANK_BYTES = 8


class LogLayout(NamedTuple):
    """A log to be written: its records, ``(n,)`` of ``FOUND_ROW`` by offset, and the number of other copies.

    ``conflicts`` is the number of records that claim a place that another has.
    """

    rows: Rows
    geometry: LogGeometry
    duplicates: int
    conflicts: int

    def is_of_entries(self, start: int) -> bool:
        """Whether the records of the file that begins at an offset stood in entries of DLedger."""
        rows = self.records_of(start)
        gaps = rows["log_offset"] - np.concatenate([[start], frame_stops(rows)[:-1]])
        return bool((gaps == DLEDGER_BYTES).sum() > (gaps == 0).sum())

    @property
    def file_starts(self) -> list[int]:
        """Return the physical offset of each file that has records, ascending."""
        size = self.geometry.file_size
        return [int(number) * size for number in np.unique(self.rows["log_offset"] // size)]

    def records_of(self, start: int) -> Rows:
        """Return the records of the file that begins at an offset."""
        bounds = np.searchsorted(self.rows["log_offset"], [start, start + self.geometry.file_size])
        return self.rows[bounds[0] : bounds[1]]

    @property
    def holes(self) -> Int64s:
        """Return the missing ranges of the log, from its first file's start to its last record's end."""
        starts, stops = self.rows["log_offset"], frame_stops(self.rows)
        blanks = np.where(self._blank_fits, self.rows["blank"], 0)
        before = np.concatenate([[self.file_starts[0]], (stops + blanks)[:-1]])
        size, files = self.geometry.file_size, filter(self.is_of_entries, self.file_starts)
        has_lead = np.isin(starts // size, [start // size for start in files])
        starts = np.maximum(starts - DLEDGER_BYTES * has_lead, before)
        return merged(np.stack([before, starts], axis=1))

    @property
    def _blank_fits(self) -> Bools:
        """Return after which records an end mark closes their file, ``(n,)``."""
        size = self.geometry.file_size
        stops = frame_stops(self.rows)
        fits: Bools = (self.rows["blank"] != 0) & (self.rows["blank"] == size - stops % size)
        return fits


class Layout(NamedTuple):
    """Layout of everything that was found.

    Attributes:
        logs: those that are written, the one with most records first.
        loose: other records that are kept, ``(n,)`` of ``FOUND_ROW`` by image and position; ``total_size`` is
            the kept part of each, 0 where its bytes are kept with the record around it.
        causes: of each of these, why.
        used: of each image, the ranges in the result, ``(k, 2)``, merged.
    """

    logs: tuple[LogLayout, ...]
    loose: Rows
    causes: list[LooseCause]
    used: list[Int64s]


def lay_out(
    rows: Rows, images: Sequence[Image], file_size: int | None = None, *, one_log: bool = False
) -> Layout:
    """Divide found records, ``(n,)`` of ``FOUND_ROW`` by image and position, into logs, and the rest.

    With ``one_log`` all store hosts are those of one broker.
    """
    proven, kept, causes = prove(rows, [image.size_bytes for image in images])
    pieces = find_pieces(proven, one_log=one_log)
    loose, logs, copies = [kept], [], []
    for number, log in enumerate(find_logs(pieces)):
        layout, wrong = _laid_out(log, images, file_size)
        left = [(log.conflicts, LooseCause.CONFLICT), (wrong, LooseCause.STRADDLES)]
        if number and len(layout.rows) < LEAST_RECORDS:
            left.append((layout.rows, LooseCause.STRAY))
        elif len(layout.rows):
            logs.append(layout)
            copies.append(log.copies)
        for some, cause in left:
            loose.append(some)
            causes += [cause] * len(some)
    together = np.concatenate([np.empty(0, FOUND_ROW), *loose])
    order = np.lexsort((together["position"], together["image"]))
    together = together[order]
    return Layout(
        logs=tuple(logs),
        loose=together,
        causes=[causes[place] for place in order],
        used=[_used([together, *copies], image) for image in images],
    )


def _laid_out(log: FoundLog, images: Sequence[Image], given: int | None) -> tuple[LogLayout, Rows]:
    geometry = infer_geometry(log.rows, given, _hints(log.copies, images))
    wrong = straddling(log.rows, geometry.file_size)
    rows = log.rows[~wrong]
    return LogLayout(rows, geometry, log.duplicates, len(log.conflicts)), log.rows[wrong]


def _hints(rows: Rows, images: Sequence[Image]) -> list[int]:
    """Return sizes of images in which records lie as in a file of the log that is not its first."""
    hints = []
    for image in images:
        bases = np.unique((rows["log_offset"] - rows["position"])[rows["image"] == image.number])
        if len(bases) == 1 and bases[0] > 0 and 0 < image.size_bytes <= LARGEST_FILE:
            hints += [image.size_bytes] if bases[0] % image.size_bytes == 0 else []
    return hints


def _used(parts: Sequence[Rows], image: Image) -> Int64s:
    ranges = []
    for rows in parts:
        own = rows[rows["image"] == image.number]
        blanks = np.where(own["blank"] != 0, _BLANK_BYTES, 0)
        ranges.append(np.stack([own["position"], frame_stops(own, "position") + blanks], axis=1))
    return merged(np.concatenate([np.empty((0, 2), np.int64), *ranges]))
