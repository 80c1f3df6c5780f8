"""The configured file size of a file queue, inferred from the names and sizes of its files."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGEST_SIZE = (1 << 31) - 1  # the settings are Java ints
_CANDIDATES = 16


def infer_file_size(queues: Sequence[Sequence[tuple[int, int]]], unit_size: int = 1) -> int | None:
    """Return the size that fits most files, a multiple of ``unit_size``; None without files.

    Files are created at full size and named by multiples of it, so sizes, names and distances of names all
    count; a cut or stray file is outvoted. Of equally good sizes the larger wins: copies lose bytes more
    often than they gain some.

    Args:
        queues: ``(start, size in bytes)`` of the files of each queue, by start.
        unit_size: Bytes of a unit.
    """
    sizes: dict[int, int] = {}
    distances: dict[int, int] = {}
    for files in queues:
        for _, size in files:
            sizes[size] = sizes.get(size, 0) + 1
        for (one, _), (two, _) in pairwise(files):
            distances[two - one] = distances.get(two - one, 0) + 1
    candidates = {*_most_frequent(sizes), *_most_frequent(distances)}
    fitting = [size for size in candidates if 0 < size <= _LARGEST_SIZE and size % unit_size == 0]

    def votes(size: int) -> tuple[int, int]:
        named = sum(start % size == 0 for files in queues for start, _ in files)
        return sizes.get(size, 0) + distances.get(size, 0) + named, size

    return max(fitting, key=votes, default=None)


def _most_frequent(counts: dict[int, int]) -> list[int]:
    """Return the most frequent values; hostile directories may hold a file of every size."""
    return sorted(counts, key=lambda value: (counts[value], value), reverse=True)[:_CANDIDATES]
