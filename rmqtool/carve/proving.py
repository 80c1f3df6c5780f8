"""Proof of records that were found, and causes why others are kept loose."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.kernels.loose import DLEDGER_BYTES, SECTOR_BYTES, FoundMark
from rmqtool.kernels.rows import frame_stops
from rmqtool.scan.record_checks import most_have_none

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Array, Bools, Int64s, Rows


_FEW = 20
"""Records without text are damage while they are fewer than one in so many."""


class LooseCause(StrEnum):
    """Cause that keeps a record out of every log."""

    FRAME = "frame"  # its lengths do not add up, or the image ends before it does
    BODY = "body"  # BODYCRC fails
    SIGNATURE = "signature"  # its property __CRC32# fails
    TAIL = "tail"  # topic and properties may be another's: not text, or in a sector without proof
    INNER = "inner"  # it lies inside another record
    CONFLICT = "conflict"  # another record, proven as well, has its place
    STRADDLES = "straddles"  # it would lie in two files of its log
    OFFSET = "offset"  # the records before and after it contradict the place that it names
    STRAY = "stray"  # too few of its log


def prove(rows: Rows, sizes: Sequence[int]) -> tuple[Rows, Rows, list[LooseCause]]:
    """Divide records, ``(n,)`` of ``FOUND_ROW`` by image and position, into proven and loose ones.

    Returns:
        Proven ones, none inside another; loose ones that are kept, ``total_size`` the kept part of each, 0
        where its bytes are kept with those of the record around it; and the cause of each of these.
    """
    marks = rows["marks"]
    wrong = marks & (FoundMark.FRAME | FoundMark.BODY)
    signature = (marks & FoundMark.SIGNATURE != 0) & ~_forgiven(rows, wrong == 0)
    misplaced = _is_contradicted(rows, wrong == 0)
    joined = np.append(misplaced[1:], False)  # the next one begins where they end, whatever place it names
    doubtful = _has_doubtful_tail(rows, wrong == 0, marks | np.where(joined, FoundMark.CHAINED, 0))
    sound = (wrong == 0) & ~signature & ~doubtful & ~misplaced
    inner = _begins_inside(rows, sound)
    top = sound & ~inner
    cargo = _inside_damage(rows, top, (wrong != 0) & ~inner)
    damaged = (wrong != 0) | signature | doubtful | misplaced
    causes = np.select(
        [
            sound & (inner | cargo),
            marks & FoundMark.FRAME != 0,
            marks & FoundMark.BODY != 0,
            signature,
            misplaced,
            doubtful,
        ],
        [
            LooseCause.INNER,
            LooseCause.FRAME,
            LooseCause.BODY,
            LooseCause.SIGNATURE,
            LooseCause.OFFSET,
            LooseCause.TAIL,
        ],
        "",
    )
    kept = (sound & inner) | cargo | (damaged & ~inner)
    kept &= ~(damaged & _begins_inside(rows, damaged & (marks & FoundMark.FRAME == 0)))
    loose = rows[kept].copy()
    loose["total_size"] = _kept_bytes(rows, top | kept, sizes)[kept]
    loose["total_size"][inner[kept]] = 0
    return rows[top & ~cargo], loose, [LooseCause(str(cause)) for cause in causes[kept]]


def _forgiven(rows: Rows, framed: Bools) -> Bools:
    """Return where a wrong ``__CRC32#`` is another log's, which a message brought along, ``(n,)``."""
    hosts, number = np.unique(rows["host"], return_inverse=True)
    signed, wrong = (rows["marks"] & mark != 0 for mark in (FoundMark.SIGNED, FoundMark.SIGNATURE))
    counts = [np.bincount(number[framed & kept], minlength=len(hosts)) for kept in (framed, signed, wrong)]
    of_host = np.array([most_have_none(*map(int, figures)) for figures in zip(*counts, strict=True)], bool)
    return of_host[number]


def _has_doubtful_tail(rows: Rows, framed: Bools, marks: Array) -> Bools:
    """Return where topic and properties may be another's, though all lengths add up and the body is proven.

    No checksum protects them. They count where the record carries ``__CRC32#``; else as text, if the next
    record confirms it, or in one piece with the body's last sector. If clients do send other bytes than text,
    more records than the damaged ones show it.
    """
    chained, signed = marks & FoundMark.CHAINED != 0, marks & FoundMark.SIGNED != 0
    hosts, number = np.unique(rows["host"], return_inverse=True)
    odd = framed & chained & (marks & FoundMark.TEXT != 0)
    counts = [np.bincount(number[chosen], minlength=len(hosts)) for chosen in (odd, framed & chained)]
    usual = (counts[0] * _FEW > counts[1])[number]
    torn = (marks & FoundMark.CROSSES != 0) & (marks & FoundMark.ENDS == 0)
    doubtful: Bools = ~signed & np.where(chained, odd & ~usual, torn | (marks & FoundMark.TEXT != 0))
    return doubtful


def _is_contradicted(rows: Rows, framed: Bools) -> Bools:
    """Return where adjacent records belong together, and the one between them names another place.

    An offset that ``__CRC32#`` confirms is the record's own, wherever it was found.
    """
    contradicted = np.zeros(len(rows), bool)
    places = np.flatnonzero(framed)
    position, shift = rows["position"][places], (rows["log_offset"] - rows["position"])[places]
    stop = frame_stops(rows[places], "position")
    apart = position[1:] - stop[:-1]
    joined = ((apart == 0) | (apart == DLEDGER_BYTES)) & (
        np.diff(rows["image"][places].astype(np.int64)) == 0
    )
    signed = rows["marks"][places[1:-1]] & FoundMark.SIGNED != 0
    between = joined[:-1] & joined[1:] & (shift[:-2] == shift[2:]) & (shift[1:-1] != shift[:-2]) & ~signed
    contradicted[places[1:-1][between]] = True
    return contradicted


def _begins_inside(rows: Rows, outer: Bools) -> Bools:
    """Return which records begin inside one of some that begin before them, ``(n,)``."""
    inside = np.zeros(len(rows), bool)
    for part in _of_images(rows):
        starts = rows["position"][part]
        stops = np.where(outer[part], frame_stops(rows[part], "position"), 0)
        inside[part][1:] = starts[1:] < np.maximum.accumulate(stops)[:-1]
    return inside


def _inside_damage(rows: Rows, top: Bools, damaged: Bools) -> Bools:
    """Return which proven records were carried in the body of a damaged one, ``(n,)``.

    All that was written side by side with them lies in the damaged one then, and names another place in the
    log. Records that reach beyond it have overwritten it; so have those whose places differ from their
    offsets as those of proven ones elsewhere in the image do, or by whole sectors, as files lie on disks.
    """
    inside = np.zeros(len(rows), bool)
    proven, heads = np.flatnonzero(top), np.flatnonzero(damaged)
    if not len(proven) or not len(heads):
        return inside
    first, last = run_bounds(rows[proven])
    starts, shifts = rows["position"][proven[first]], (rows["log_offset"] - rows["position"])[proven[first]]
    stops = frame_stops(rows[proven[last]], "position")
    images = rows["image"][proven[first]]
    reach: dict[tuple[int, int], tuple[int, int]] = {}  # of the runs that lie alike: where they begin
    for start, image, shift in zip(starts.tolist(), images.tolist(), shifts.tolist(), strict=True):
        lowest, highest = reach.get((image, shift), (start, start))
        reach[image, shift] = min(lowest, start), max(highest, start)
    order = np.searchsorted(heads, proven[first]) - 1  # the last damaged head before each run
    for number in np.flatnonzero(order >= 0):
        head, image, shift = rows[heads[order[number]]], int(images[number]), int(shifts[number])
        start, stop = int(head["position"]), int(frame_stops(head, "position"))
        if head["image"] != image or stops[number] > stop:
            continue
        lowest, highest = reach[image, shift]
        is_alike = shift == head["log_offset"] - head["position"] or lowest < start or highest >= stop
        if not is_alike and shift % SECTOR_BYTES:
            inside[proven[first[number] : last[number] + 1]] = True
    return inside


def run_bounds(rows: Rows) -> tuple[Int64s, Int64s]:
    """Return the first and the last row of each run: records side by side in the image and in the log."""
    if not len(rows):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    stops = frame_stops(rows, "position")
    moved = np.diff(rows["log_offset"] - rows["position"]) != 0
    breaks = (stops[:-1] != rows["position"][1:]) | moved | (np.diff(rows["image"].astype(np.int64)) != 0)
    first = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    return first, np.concatenate([first[1:] - 1, [len(rows) - 1]])


def _kept_bytes(rows: Rows, begins: Bools, sizes: Sequence[int]) -> Int64s:
    """Return how much is kept of each record: one without a frame ends where the next one begins."""
    lengths = rows["total_size"].astype(np.int64)
    for part in _of_images(rows):
        starts = rows["position"][part]
        stop = sizes[int(rows["image"][part.start])]
        ahead = np.append(np.where(begins[part], starts, stop)[1:], stop)
        following = np.minimum.accumulate(ahead[::-1])[::-1]
        cut = rows["marks"][part] & FoundMark.FRAME != 0
        lengths[part] = np.where(cut, np.minimum(lengths[part], following - starts), lengths[part])
    return lengths


def _of_images(rows: Rows) -> list[slice]:
    bounds = [0, *(np.flatnonzero(np.diff(rows["image"].astype(np.int64))) + 1).tolist(), len(rows)]
    return [slice(start, stop) for start, stop in pairwise(bounds) if start < stop]
