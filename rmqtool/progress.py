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
