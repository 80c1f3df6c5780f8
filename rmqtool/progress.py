"""What a command may say while it works."""

from __future__ import annotations

from typing import Protocol


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


class NullProgress:
    """A progress that says nothing."""

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
