"""Cut the commit log into splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.store.segments import Segment

SPLIT_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Split:
    """A range of one segment.

    A split owns the records whose first byte lies in ``[start, stop)`` and may read on behind ``stop`` to
    finish the last of them. Where its first record begins is a guess, unless the split begins with the
    segment: the first position whose bytes are a true record. The chain of the split before decides whether
    the guess was right (``rmqtool.reput.chain``); a wrong one costs a second walk, never a wrong result.

    Attributes:
        segment: the file.
        start: physical offset.
        stop: physical offset.
    """

    segment: Segment
    start: int
    stop: int


def plan_splits(segments: Iterable[Segment], until: int, split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """Cut segments into splits of at most ``split_bytes``, up to the physical offset ``until``."""
    splits: list[Split] = []
    for segment in segments:
        stop = min(segment.stop, until)
        splits.extend(
            Split(segment, start, min(start + split_bytes, stop))
            for start in range(segment.start, stop, split_bytes)
        )
    return splits
