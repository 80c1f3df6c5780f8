"""How long the files of a log were: mappedFileSizeCommitLog, from what is left of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.formats.message import END_FILE_MIN_BLANK_LENGTH
from rmqtool.releases import NEWEST
from rmqtool.store import Origin
from rmqtool.store.setting import DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rmqtool.arrays import Bools, Int64s

    Rows = npt.NDArray[Any]


LARGEST_FILE = 2**31 - 1
_MOST_TRIED = 64


@dataclass(frozen=True)
class LogGeometry:
    """The size of a log's files.

    Attributes:
        file_size: bytes.
        origin: whether it was given, inferred or assumed.
        blanks: how many BLANKs there are that say where a file ends.
        contradicting: how many of them say otherwise.
        straddling: how many records would lie in two files.
    """

    file_size: int
    origin: Origin
    blanks: int
    contradicting: int
    straddling: int


def default_file_size() -> int:
    """Return what a broker takes."""
    return int(str(DEFINITIONS["mappedFileSizeCommitLog"].default(NEWEST)))


def infer_geometry(rows: Rows, given: int | None, hints: Sequence[int] = ()) -> LogGeometry:
    """Infer the size of a log's files.

    Every file ends with a BLANK that says how far it is to its end, no record lies in two files, and all
    files have one size. Of the sizes that agree best with all that, the broker's own is taken, else one that
    several BLANKs agree on, else the roundest.

    Args:
        rows: its records, ``(n,)`` of ``FOUND_ROW`` by offset.
        given: the user's word, which counts.
        hints: sizes that are likely, as those of images that begin where a file would.
    """
    before = rows[rows["blank"] != 0]
    if given is not None:
        return _geometry(rows, before, given, Origin.GIVEN)
    default = default_file_size()
    best = None
    for size in dict.fromkeys([*hints, default, *_common(before)]):
        if 0 < size <= LARGEST_FILE:
            told = _geometry(rows, before, size, Origin.INFERRED)
            if best is None or _doubts(told) < _doubts(best):
                best = told
            if not any(_doubts(told)):
                break
    assert best is not None
    is_assumed = best.file_size == default and default not in hints and not len(before)
    return replace(best, origin=Origin.DEFAULT) if is_assumed else best


def _doubts(one: LogGeometry) -> tuple[int, int]:
    return one.straddling, one.contradicting


def straddling(rows: Rows, file_size: int) -> Bools:
    """Return which records do not fit into one file, the BLANK after them counted, ``(n,)``."""
    last = rows["log_offset"] + rows["total_size"] + END_FILE_MIN_BLANK_LENGTH - 1
    wrong: Bools = rows["log_offset"] // file_size != last // file_size
    return wrong


def _ends(before: Rows) -> Int64s:
    ends: Int64s = before["log_offset"] + before["total_size"] + before["blank"]
    return ends


def _geometry(rows: Rows, before: Rows, size: int, origin: Origin) -> LogGeometry:
    ends = _ends(before)
    wrong = (ends % size != 0) | ((before["log_offset"] + before["total_size"]) // size != (ends - 1) // size)
    return LogGeometry(size, origin, len(ends), int(wrong.sum()), int(straddling(rows, size).sum()))


def _common(before: Rows) -> list[int]:
    """Return sizes that BLANKs may mean, the likeliest first."""
    ends = np.unique(_ends(before))
    if not len(ends):
        return []
    steps = np.unique(np.diff(ends))
    common = gcd(*map(int, ends))
    found = [common, *(int(step) for step in steps[:_MOST_TRIED])] if len(ends) > 1 else []
    power = common & -common
    return [*found, power, *_divisors(common), int(ends[0])]


def _divisors(number: int) -> list[int]:
    """Return a number's largest divisors that can be sizes, the largest first."""
    least = -(-number // LARGEST_FILE)
    return [number // part for part in range(least, least + _MOST_TRIED) if number % part == 0]
