"""Interface of a source: list, status, ranged read."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from rmqtool.io.object_pieces import ZeroTail


class FileKind(Enum):
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

    ``size_bytes`` is 0 for anything but a file, ``modified_ns`` counts from 1970. ``identity`` is equal for
    two names of one file, None where unknown. ``reason`` says why the kind is LOST or HIDDEN. ``is_link`` is
    known for entries of a directory.
    """

    kind: FileKind
    size_bytes: int = 0
    modified_ns: int = 0
    identity: Hashable = None
    reason: str = ""
    is_link: bool = False


class DirectoryEntry(NamedTuple):
    """One name in a directory, and its status."""

    name: str
    status: Status


class Handle(Protocol):
    """A file open for reading, by several threads at once; closed with its last reference.

    Every method may raise `OSError`. EIO means that these bytes cannot be delivered while others may, so that
    `rmqtool.io.location.ReadOnlyFile` looks for the smallest bad piece.
    """

    def size_bytes(self) -> int:
        """Return the current size."""
        ...

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Fill a part of a view from its start; return the number of bytes, 0 at the end of the file."""
        ...

    def next_written(self, position: int) -> int:
        """Return the first position from ``position`` on that may hold other bytes than zeros.

        The end of the file where there is none; ``position`` itself if the source knows no holes.
        """
        ...

    def next_data(self, position: int) -> int:
        """Return as `next_written`, or the end where samples after ``position`` are all zeros.

        That is for sources where every read costs; `Source.tails` has the unread ends.
        """
        ...

    def end_of_data(self) -> int:
        """Return a position after which `next_data` is the end; the end itself where that is unknown."""
        ...


class Source(Protocol):
    """Storage of stores: names with ``/`` between their components, absolute, without ``..``.

    It is a value: hashable, and picklable, as workers on other machines read, too. Reading must change
    nothing, not even the access time where that can be avoided.
    """

    def status(self, path: str) -> Status | None:
        """Return the status of a name, links followed; None if it does not exist."""
        ...

    def entries(self, path: str) -> list[DirectoryEntry]:
        """Return the entries of a directory by name; none if it is not one."""
        ...

    def open(self, path: str) -> Handle:
        """Open a regular file; anything else is refused without being opened or waited for.

        Raises `EnvironmentFailureError` if it is not a regular file, missing, or may not be read.
        """
        ...

    def absolute(self, text: str) -> str:
        """Return the name that a setting or a user means; links are kept."""
        ...

    def real(self, path: str) -> str:
        """Return the name without links, as far as it exists."""
        ...

    def local_path(self, path: str) -> Path | None:
        """Return the bytes' path on this machine, to protect it from writes; None if elsewhere."""
        ...

    def tails(self) -> tuple[ZeroTail, ...]:
        """Return the ends of files that samples showed as zeros."""
        ...

    def fetch_tails(self) -> None:
        """Read the ends of files in full from now on."""
        ...

    def lock_holder(self, path: str) -> int | None:
        """Return the process that holds a write lock on a file's first byte, as a running broker does.

        None if it is free; 0 or less for a process without a number here.
        """
        ...
