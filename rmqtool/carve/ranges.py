"""Sets of positions as ranges, and maps of ddrescue: which parts of an image are good, and which were of use.

The format is that of the manual of GNU ddrescue, "Mapfile structure": comments, a line with the current
position and status, then one line for each part, its position, its size and its status. Numbers are as C
writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    Ranges = npt.NDArray[np.int64]
    from collections.abc import Iterator


def ranges_of(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Return ranges as an array ``(n, 2)`` of start and stop, ascending, none touching another."""
    return merged(np.array([*pairs], np.int64).reshape(-1, 2))


def merged(ranges: Ranges) -> Ranges:
    """Return the union of ranges, ascending, none empty, none touching another."""
    ranges = ranges[ranges[:, 0] < ranges[:, 1]]
    if not len(ranges):
        return ranges
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    reached = np.maximum.accumulate(ranges[:, 1])
    first = np.concatenate([[True], ranges[1:, 0] > reached[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([ranges[first, 0], reached[last]], axis=1)


def outside(ranges: Ranges, start: int, stop: int) -> Ranges:
    """Return what of ``start`` to ``stop`` lies in none of some merged ranges."""
    bounds = np.concatenate([[start], np.clip(ranges, start, stop).reshape(-1), [stop]])
    return merged(bounds.reshape(-1, 2))


def length_of(ranges: Ranges) -> int:
    """Return how many positions lie in merged ranges."""
    return int((ranges[:, 1] - ranges[:, 0]).sum())


def overlaps(ranges: Ranges, start: int, stop: int) -> bool:
    """Whether merged ranges share a position with ``start`` to ``stop``."""
    after = int(np.searchsorted(ranges[:, 1], start, "right"))
    return after < len(ranges) and bool(ranges[after, 0] < stop)


def within(ranges: Ranges, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the parts of merged ranges that lie in ``start`` to ``stop``."""
    first = int(np.searchsorted(ranges[:, 1], start, "right"))
    last = int(np.searchsorted(ranges[:, 0], stop, "left"))
    return [(max(int(low), start), min(int(high), stop)) for low, high in ranges[first:last]]


USED, UNREADABLE, NOTHING, NOT_READ = "+", "-", "/", "?"
"""Statuses of the maps that we write: part of the result; bad sectors; read, nothing of it used; not read."""

_STATUSES = frozenset("?*/-+")
_FINISHED = "+"


def read_map(text: str, label: str) -> Ranges:
    """Return what a map calls finished (status ``+``).

    Raises:
        UsageError: it is no map; the message names the line.
    """
    lines = [
        (number, line.split())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise UsageError(f"{label}: is no map of ddrescue: it has no line")
    return ranges_of(_finished(lines[1:], label))


def _finished(lines: Iterable[tuple[int, list[str]]], label: str) -> Iterator[tuple[int, int]]:
    last = 0
    for number, fields in lines:
        try:
            position, size = (int(text, 0) for text in fields[:2])
            (status,) = fields[2:]
        except ValueError:
            raise UsageError(
                f"{label}: line {number} is no line of a map of ddrescue, position, size and status"
            ) from None
        if status not in _STATUSES or size <= 0 or position < last:
            raise UsageError(f"{label}: line {number} cannot be in a map of ddrescue: {' '.join(fields)}")
        last = position + size
        if status == _FINISHED:
            yield position, last


def map_lines(size_bytes: int, parts: Iterable[tuple[str, Ranges]]) -> Iterator[str]:
    """Yield the lines of a map.

    Args:
        size_bytes: of the image.
        parts: merged ranges by status, the strongest first; what lies in none is ``NOTHING``.
    """
    yield "# Map of what rmqtool carve used of an image, in the format of GNU ddrescue\n"
    yield f"# {USED} in the result  {UNREADABLE} could not be read  {NOTHING} nothing there"
    yield f"  {NOT_READ} not read, by --domain-map\n"
    yield "# current_pos  current_status  current_pass\n"
    yield f"0x{max(size_bytes, 0):08X}     +               1\n"
    yield "#      pos        size  status\n"
    found: list[tuple[int, int, str]] = []
    free = ranges_of([(0, size_bytes)])
    for status, ranges in parts:
        taken = [part for start, stop in free for part in within(ranges, int(start), int(stop))]
        found += [(start, stop, status) for start, stop in taken]
        free = ranges_of(
            part for start, stop in free for part in outside(ranges, int(start), int(stop)).tolist()
        )
    found += [(int(start), int(stop), NOTHING) for start, stop in free]
    for start, stop, status in sorted(found):
        yield f"0x{start:08X}  0x{stop - start:08X}  {status}\n"
