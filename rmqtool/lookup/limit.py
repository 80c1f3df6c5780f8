"""How many messages a question wants: one more is looked for, so that none is held back in silence."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_Found = TypeVar("_Found")


class Limit:
    """The ``--max`` of a question.

    Args:
        wanted: At most so many, of each key; None is all.
        of_place: Whether so many from one place on are asked for: then what follows is nothing held back.

    Attributes:
        wanted: As given.
        words: Which of the messages are shown, once it is known that there are more; else None.
    """

    def __init__(self, wanted: int | None, *, of_place: bool = False) -> None:
        self.wanted = wanted
        self._of_place = of_place
        self.words: str | None = None

    @property
    def sought(self) -> int | None:
        """Return how many are looked for; None is all."""
        return None if self.wanted is None else self.wanted + 1

    def newest(self, found: Sequence[_Found]) -> Sequence[_Found]:
        """Return the last of those that were sought."""
        if self.wanted is None or len(found) <= self.wanted:
            return found
        self.words = "newest"
        return found[len(found) - self.wanted :]

    def first(self, found: Iterable[_Found]) -> Iterator[_Found]:
        """Yield the first; look whether one more follows."""
        if self.wanted is None:
            yield from found
            return
        rest = iter(found)
        yield from islice(rest, self.wanted)
        if not self._of_place and next(rest, None) is not None:
            self.words = "first"
