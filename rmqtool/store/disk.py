"""The only module that changes a store: names, times and new files below one root. `repair` alone uses it.

It offers few primitives, each of which the kernel does whole or not at all, and knows nothing of stores.
What is done with them, and how it is undone, stands in `rmqtool.store.journal`.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rmqtool.store.syncing import sync_directory

if TYPE_CHECKING:
    from pathlib import Path

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Node(NamedTuple):
    """What a name stands for, links not followed.

    Attributes:
        is_directory: Whether it is a directory.
        mode: Permissions.
        modified_ns: When it was changed last.
        device: Of its file system.
    """

    is_directory: bool
    mode: int
    modified_ns: int
    device: int = 0


class Disk(Protocol):
    """Names below a root, ``/`` between components; ``""`` is the root. Every method may raise `OSError`."""

    def node(self, path: str) -> Node | None:
        """Return what a name stands for; None if there is nothing."""
        ...

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory in one that is there."""
        ...

    def write_new(self, path: str, data: bytes, mode: int) -> None:
        """Write a file that is not there yet."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give something another name, which nothing has."""
        ...

    def set_modified(self, path: str, modified_ns: int) -> None:
        """Set when something was changed last."""
        ...

    def sync(self, path: str) -> None:
        """Flush a file's bytes, or a directory's entries and times."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or an empty directory."""
        ...


@dataclass(frozen=True, slots=True)
class LocalDisk:
    """A directory of this machine; see `Disk`.

    Attributes:
        root: Its path, without links.
    """

    root: Path

    def node(self, path: str) -> Node | None:
        """Return what a name stands for; None if there is nothing."""
        try:
            found = (self.root / path).lstat()
        except FileNotFoundError:
            return None
        mode = found.st_mode
        return Node(stat.S_ISDIR(mode), stat.S_IMODE(mode), found.st_mtime_ns, found.st_dev)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(self.root / path))  # noqa: PTH208 - names are wanted, not paths

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return (self.root / path).read_bytes()

    def make_directory(self, path: str) -> None:
        """Make a directory that belongs to whom the root belongs to."""
        (self.root / path).mkdir()
        self._adopt(path)

    def write_new(self, path: str, data: bytes, mode: int) -> None:
        """Write a file that is not there yet, and that belongs to whom the root belongs to."""
        descriptor = os.open(self.root / path, _NEW_FILE, mode)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)
        self._adopt(path)

    def adopt_all(self, path: str) -> None:
        """Let a whole tree belong to whom the root belongs to: a broker has to write there.

        Raises:
            OSError: This user may not give it away.
        """
        self._adopt(path)
        for folder, directories, files in os.walk(self.root / path):
            for name in (*directories, *files):
                self._adopt(os.path.join(folder, name))  # noqa: PTH118 - as many as there are files

    def rename(self, source: str, target: str) -> None:
        """Give something another name, which nothing has.

        Raises:
            FileExistsError: Something has it.
        """
        if self.node(target) is not None:
            raise FileExistsError(17, "File exists", str(self.root / target))
        (self.root / source).rename(self.root / target)

    def set_modified(self, path: str, modified_ns: int) -> None:
        """Set when something was changed last; the time of the last access stays."""
        place = self.root / path
        accessed_ns = place.lstat().st_atime_ns
        os.utime(place, ns=(accessed_ns, modified_ns), follow_symlinks=False)

    def sync(self, path: str) -> None:
        """Flush a file's bytes, or a directory's entries and times."""
        sync_directory(self.root / path)

    def remove(self, path: str) -> None:
        """Remove a file, or an empty directory."""
        node = self.node(path)
        if node is not None and node.is_directory:
            (self.root / path).rmdir()
        else:
            (self.root / path).unlink()

    def _adopt(self, path: str) -> None:
        owner, place = self.root.stat(), self.root / path
        found = place.lstat()
        if (found.st_uid, found.st_gid) != (owner.st_uid, owner.st_gid):
            os.chown(place, owner.st_uid, owner.st_gid, follow_symlinks=False)
