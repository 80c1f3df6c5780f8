"""Cut the commit log into splits that are read side by side, and put together what was found in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.store.segments import Segment

SPLIT_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Split:
    """A range of one segment.

    A split owns the records whose first byte lies in ``[start, stop)`` and may read on after ``stop`` to
    finish the last of them. Where its first record begins is a guess, unless the split begins with the
    segment: the first position whose bytes are a true record. The chain of the split before decides whether
    the guess was right (``stitch``); a wrong one costs a second walk, never a wrong result.

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


class SplitResult(Protocol):
    """What became of a split, as far as its neighbours are concerned; who reads decides what that is.

    A broker's reput ends at a gap. Who examines reads on at the next true record: where a gap reaches the
    split's end, that is what the next split guesses.
    """

    @property
    def split_stop(self) -> int:
        """Return the physical offset after the split."""
        ...

    @property
    def first_log_offset(self) -> int | None:
        """Return the physical offset of the first record; None if no record begins in the split."""
        ...

    @property
    def next_log_offset(self) -> int | None:
        """Return the physical offset at which the next record is due; None if a gap goes on there."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing of the file is read after this."""
        ...


_Result = TypeVar("_Result", bound=SplitResult)


def stitch(
    results: Iterable[_Result], log_offset: int, reread: Callable[[_Result, int], _Result]
) -> Iterator[_Result]:
    """Yield the results of one file's splits that count, each beginning where the one before it ended.

    A result is taken if its first record is the one that is due, or if everything up to it is a gap. Else
    its split is read again; splits that a long record or a BLANK jumped over are left out. So what comes out
    is the same however the log was cut.

    Args:
        results: of the file's splits, in log order.
        log_offset: physical offset at which the first record is due.
        reread: reads the split of a result again from a given physical offset on.
    """
    due: int | None = log_offset
    for result in results:
        if due is not None and due >= result.split_stop:
            continue
        taken = result if due is None or due == result.first_log_offset else reread(result, due)
        yield taken
        if taken.ended:
            return
        due = taken.next_log_offset
