"""Interface of a source: list, status, ranged read."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path
    from typing import Any

    from rmqtool.io.zero_tails import ZeroTail


class Kind(Enum):
    """Kind of a file, links followed; the values end a sentence that begins with its name."""

    FILE = "a file"
    DIRECTORY = "a directory"
    FIFO = "a FIFO"
    CHARACTER_DEVICE = "a character device"
    BLOCK_DEVICE = "a block device"
    SOCKET = "a socket"
    OTHER = "not a regular file"
    LOST = "a dangling link"
    HIDDEN = "a file that cannot be examined"

    def __str__(self) -> str:
        return self.value


class Status(NamedTuple):
    """Status of a file.

    Attributes:
        kind: What it is.
        size_bytes: Of a file; of anything else it says nothing.
        modified_ns: When it was changed last, nanoseconds since 1970.
        identity: Equal for two names of one file; None where that is unknown.
        reason: Why nobody knows what it is: of LOST and HIDDEN.
        is_link: Whether the name is a link to it; known for entries of a directory.
    """

    kind: Kind
    size_bytes: int = 0
    modified_ns: int = 0
    identity: Hashable = None
    reason: str = ""
    is_link: bool = False


class Entry(NamedTuple):
    """One name in a directory, and its status."""

    name: str
    status: Status


class Handle(Protocol):
    """A file open for reading, by several threads at once; closed when its last reference goes.

    Every method may raise `OSError`. EIO says that these bytes cannot be delivered while others may, so that
    `rmqtool.io.reading.ReadOnlyFile` looks for the smallest piece that is bad.
    """

    def size_bytes(self) -> int:
        """Return the size as it is now."""
        ...

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Fill a part of a view of bytes, from its start; return how many came, 0 at the end of the file."""
        ...

    def next_written(self, position: int) -> int:
        """Return the first position from ``position`` on that may hold other bytes than zeros.

        The end of the file where there is none; ``position`` itself of a source that knows no holes.
        """
        ...

    def next_data(self, position: int) -> int:
        """Return as `next_written`, or the end where the examined part after ``position`` is all zeros.

        That is for a source where it costs to look at all; `Source.tails` has what was not looked at.
        """
        ...

    def end_of_data(self) -> int:
        """Return a position after which `next_data` is the end; the end itself where nobody knows one."""
        ...


class Source(Protocol):
    """Something that holds stores: names with ``/`` between their components, absolute, without ``..``.

    It is a value: hashable, and picklable, as workers on other machines read, too. Nothing that it does may
    change what it holds, not even the time of the last access where that can be helped.
    """

    def status(self, path: str) -> Status | None:
        """Return what a name stands for, links followed; None if nothing has that name."""
        ...

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory by name; none where no directory is.

        Raises:
            EnvironmentFailureError: It may not be listed.
        """
        ...

    def open(self, path: str) -> Handle:
        """Open a regular file; anything else is refused without being opened, and nobody waits for it.

        Raises:
            EnvironmentFailureError: It is not a regular file, is gone, or may not be read.
        """
        ...

    def absolute(self, text: str) -> str:
        """Return the name that a setting or a user means; links are kept."""
        ...

    def real(self, path: str) -> str:
        """Return the same place without links, as far as it exists."""
        ...

    def local_path(self, path: str) -> Path | None:
        """Return where on this machine the bytes lie, so that nothing is written there; None if elsewhere."""
        ...

    def tails(self) -> tuple[ZeroTail, ...]:
        """Return the ends of files that were taken for zeros though not all of them was looked at."""
        ...

    def fetch_tails(self) -> None:
        """Take nothing for zeros any more that was not looked at."""
        ...

    def lock_holder(self, path: str) -> int | None:
        """Return the process that holds a write lock on a file's first byte, as a broker at work does.

        Returns:
            None if nobody holds one; 0 or less for a process that has no number here.

        Raises:
            EnvironmentFailureError: The file may not be opened, or the file system has no answer.
        """
        ...
