"""Interface of a source: list, status, ranged read; and URLs of those that are not this machine's files."""

from __future__ import annotations

import posixpath
import re
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path


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
    LINK = "a link, or is reached by one"  # where links are not followed

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

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Fill a part of a view from its start; return the number of bytes, 0 at the end of the file."""

    def next_written(self, position: int) -> int:
        """Return the first position from ``position`` on that may hold other bytes than zeros.

        The end of the file where there is none; ``position`` itself if the source knows no holes.
        """


class Source(Protocol):
    """Storage of stores: names with ``/`` between their components, absolute, without ``..``.

    It is a value: hashable, and picklable, as workers on other machines read, too. Reading must change
    nothing, not even the access time where that can be avoided.
    """

    def status(self, path: str) -> Status | None:
        """Return the status of a name, links followed; None if it does not exist."""

    def entries(self, path: str) -> list[DirectoryEntry]:
        """Return the entries of a directory by name; none if it is not one."""

    def open(self, path: str) -> Handle:
        """Open a regular file; anything else is refused without being opened or waited for.

        Raises `EnvironmentFailureError` if it is not a regular file, missing, or may not be read.
        """

    def absolute(self, text: str) -> str:
        """Return the name that a setting or a user means; links are kept."""

    def real(self, path: str) -> str:
        """Return the name without links, as far as it exists."""

    def local_path(self, path: str) -> Path | None:
        """Return the bytes' path on this machine, to protect it from writes; None if elsewhere."""

    def lock_holder(self, path: str) -> int | None:
        """Return the process that holds a write lock on a file's first byte, as a running broker does.

        None if it is free; 0 or less for a process without a number here.
        """


SCHEMES = ("s3", "s3a", "gs", "abfss", "hdfs")

_URL = rf"(?P<scheme>{'|'.join(SCHEMES)})://(?P<authority>[^/]+)(?P<path>[^\0\ud800-\udfff]*)"
_AZURE_PLACE = "abfss://container@account.dfs.core.windows.net/path"


def is_object_url(text: str) -> bool:
    """Return whether a text is meant as the URL of an object store or of HDFS."""
    scheme, stroke, _ = text.partition("://")
    return bool(stroke) and scheme in SCHEMES


def split_url(text: str) -> tuple[str, str]:
    """Return the scheme and authority of a URL, and all of it without ``..`` and the like.

    Nothing in the path is decoded: names of topics have percent signs. Raises `UsageError` if it names no
    bucket, holds credentials, or has a query.
    """
    match = re.fullmatch(_URL, text)
    if match is None:
        raise UsageError(f"{text}: give a bucket and a path, as in s3://bucket/store")
    scheme, authority, path = match["scheme"].replace("s3a", "s3"), match["authority"], match["path"]
    user = authority.rpartition("@")[0]
    if scheme == "abfss" and not user:
        raise UsageError(f"{text}: give a container and its account, as in {_AZURE_PLACE}")
    if ":" in user or (user and scheme == "s3"):
        raise UsageError(
            f"{scheme}://…@{authority.rpartition('@')[2]}{path}: a URL goes into reports and holds no"
            " credentials; give them in the environment: rmqtool help objects"
        )
    if "?" in path or "#" in path:
        raise UsageError(
            f"{text}: a store's URL ends with its path; endpoint and options come from the environment:"
            " rmqtool help objects"
        )
    top = f"{scheme}://{authority}"
    return top, (top + posixpath.normpath(f"/{path.lstrip('/')}")).rstrip("/")
