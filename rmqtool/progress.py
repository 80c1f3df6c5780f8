"""What a command may say while it works."""

from __future__ import annotations

from typing import Protocol

_MOST_WARNINGS = 20


class Progress(Protocol):
    """Where a command reports its stages and remarks; they go to standard error, never to the data."""

    def stage(self, name: str, total_bytes: int | None) -> None:
        """Begin a stage; ``total_bytes`` is the work it expects, None when that is not known."""
        ...

    def advance(self, done_bytes: int) -> None:
        """Say how many bytes of the stage are done so far."""
        ...

    def note(self, sentence: str) -> None:
        """Say something worth knowing."""
        ...

    def warn(self, sentence: str) -> None:
        """Say something that the user should not miss."""
        ...


class LimitedProgress:
    """Says each warning once, and no more of them than a person reads; a damaged queue has one at every unit.

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


class NullProgress:
    """A progress that says nothing, for questions that a user did not ask."""

    def stage(self, name: str, total_bytes: int | None) -> None:
        """Say nothing."""

    def advance(self, done_bytes: int) -> None:
        """Say nothing."""

    def note(self, sentence: str) -> None:
        """Say nothing."""

    def warn(self, sentence: str) -> None:
        """Say nothing."""


class KeptRemarks:
    """A progress that keeps what is said besides passing it on.

    Args:
        heard_by: Who is told as well.

    Attributes:
        notes: What was worth knowing.
        warnings: What nobody should miss.
    """

    def __init__(self, heard_by: Progress | None = None) -> None:
        self._heard_by: Progress = NullProgress() if heard_by is None else heard_by
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def stage(self, name: str, total_bytes: int | None) -> None:
        """Pass it on."""
        self._heard_by.stage(name, total_bytes)

    def advance(self, done_bytes: int) -> None:
        """Pass it on."""
        self._heard_by.advance(done_bytes)

    def note(self, sentence: str) -> None:
        """Keep it."""
        self.notes.append(sentence)
        self._heard_by.note(sentence)

    def warn(self, sentence: str) -> None:
        """Keep it."""
        self.warnings.append(sentence)
        self._heard_by.warn(sentence)
