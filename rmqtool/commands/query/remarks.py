"""What is said on the way to an answer: each warning once, and no more of them than a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.progress import Progress

_MOST_WARNINGS = 20


class Remarks:
    """Passes remarks on; a damaged queue may give cause for the same warning at every unit.

    Args:
        progress: Who is told.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._warned: set[str] = set()
        self._left_out = 0

    def stage(self, name: str, total_bytes: int | None) -> None:
        """Begin a stage."""
        self._progress.stage(name, total_bytes)

    def advance(self, done_bytes: int) -> None:
        """Say how far the stage is."""
        self._progress.advance(done_bytes)

    def note(self, sentence: str) -> None:
        """Say something worth knowing."""
        self._progress.note(sentence)

    def warn(self, sentence: str) -> None:
        """Say something that the user should not miss, unless it was said, or too much was."""
        if sentence in self._warned:
            return
        if len(self._warned) < _MOST_WARNINGS:
            self._warned.add(sentence)
            self._progress.warn(sentence)
        else:
            self._left_out += 1

    def finish(self) -> None:
        """Say how many warnings were left out."""
        if self._left_out:
            self._progress.warn(f"{self._left_out} more warnings like these were left out")
            self._left_out = 0
