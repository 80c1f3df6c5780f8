"""Files of another log: one was copied over a file of this log, or restored into the wrong store.

Their records lie where they say, and every checksum holds. But units lead to other places in such a file and
to none of its records, and the queue offsets of its records go on neither from the file before nor to the one
after. Units made of another log fail the first test in every file; a queue that is damaged fails the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s
    from rmqtool.genuine.evidence import QueueEvidence
    from rmqtool.genuine.records import LogCopy

_FEW = 16
"""Units that lead elsewhere for each that leads to a record, by chance: the first of a file lie alike."""


def foreign_files(copy: LogCopy, evidence: QueueEvidence, confirmed: Bools, *, from_zero: bool) -> Int64s:
    """Return which files of a log are those of another, ``(k,)`` numbers of its segments.

    Args:
        copy: the log's records.
        evidence: what its queues list.
        confirmed: which units of the copy a queue lists right there, ``(m,)``.
        from_zero: whether the log begins at 0, so every queue begins at 0, too.
    """
    segments, units = copy.log.segments, copy.units
    own = np.flatnonzero(~units["light"])
    file_of = copy.file_numbers(units["log_offset"][own])
    hits = np.bincount(file_of[confirmed[own]], minlength=len(segments))
    listed = np.zeros(len(segments), np.int64)
    for key, rows in evidence.units.items():
        if not key[0].startswith(LMQ_PREFIX):
            places = rows["log_offset"][rows["log_offset"] < copy.log.stop]
            numbers = copy.file_numbers(places)
            listed += np.bincount(numbers[numbers >= 0], minlength=len(segments))
    misses = listed - hits
    of_records = copy.file_numbers(copy.records["log_offset"])
    records = np.bincount(of_records, minlength=len(segments))
    damaged = np.bincount(of_records[copy.damaged], minlength=len(segments))
    suspects = (hits * _FEW < misses) & (2 * damaged < records)
    if not suspects.any() or hits[~suspects].sum() <= misses[~suspects].sum():
        return np.empty(0, np.int64)
    joins, breaks = _joints(copy, own, file_of, len(segments), from_zero=from_zero)
    return np.flatnonzero(suspects & (breaks > joins))


def _joints(
    copy: LogCopy, own: Int64s, file_of: Int64s, files: int, *, from_zero: bool
) -> tuple[Int64s, Int64s]:
    """Return of each file how many queues go on at its bounds, and how many break off at or over it."""
    units = copy.units[own]
    order = np.argsort(units["queue"], kind="stable")
    units, file_of = units[order], file_of[order]
    heads = np.concatenate([[True], units["queue"][1:] != units["queue"][:-1]])[: len(units)]
    before = np.concatenate([[-1], file_of])[: len(units)]
    due = np.concatenate([[0], units["queue_offset"] + units["count"]])[: len(units)]
    before[heads], due[heads] = -1, 0
    crosses = (before != file_of) & (from_zero | ~heads)
    before, after = before[crosses], file_of[crosses]
    goes_on = units["queue_offset"][crosses] == due[crosses]
    joins, breaks = np.zeros((2, files + 1), np.int64)
    for side in (before, after):
        np.add.at(joins, side[goes_on & (before >= 0)], 1)
    np.add.at(breaks, np.maximum(before[~goes_on], 0), 1)
    np.add.at(breaks, after[~goes_on] + 1, -1)
    return joins[:files], np.cumsum(breaks)[:files]
