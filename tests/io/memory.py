"""A second kind of source: files in a table of names, as an object store has them, and none on the disk."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool.errors import EnvironmentFailureError
from rmqtool.io import DirectoryEntry, FileKind, Location, Status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """One file, which is its own handle."""

    data: bytes
    modified_ns: int = 0

    def size_bytes(self) -> int:
        return len(self.data)

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        piece = self.data[position : position + len(view)]
        view[: len(piece)] = piece
        return len(piece)

    def next_written(self, position: int) -> int:
        return min(position, len(self.data))


@dataclass(frozen=True)
class MemorySource:
    """Files by their names, from the top; a directory is what has names below it."""

    name: str
    files: Mapping[str, MemoryFile] = field(compare=False, repr=False)

    def status(self, path: str) -> Status | None:
        file = self.files.get(path)
        if file is not None:
            return Status(FileKind.FILE, len(file.data), file.modified_ns, path)
        is_directory = any(name.startswith(f"{path}/") for name in self.files)
        return Status(FileKind.DIRECTORY, identity=path) if is_directory else None

    def entries(self, path: str) -> list[DirectoryEntry]:
        below = (name.removeprefix(f"{path}/") for name in self.files if name.startswith(f"{path}/"))
        found = {name.partition("/")[0]: None for name in below}
        return [
            DirectoryEntry(name, status)
            for name in sorted(found)
            if (status := self.status(f"{path}/{name}")) is not None
        ]

    def open(self, path: str) -> MemoryFile:
        if path not in self.files:
            raise EnvironmentFailureError(f"{path}: cannot be opened: No such file or directory")
        return self.files[path]

    def absolute(self, text: str) -> str:
        return posixpath.normpath(posixpath.join("/", text))

    def real(self, path: str) -> str:
        return path

    def local_path(self, path: str) -> Path | None:
        return None

    def lock_holder(self, path: str) -> int | None:
        return None


def in_memory(directory: Path, name: str) -> Location:
    """Return the place of a directory's copy in memory; an empty directory is lost, as in an object store."""
    files = {
        f"{name}/{path.relative_to(directory).as_posix()}": MemoryFile(
            path.read_bytes(), path.stat().st_mtime_ns
        )
        for path in directory.rglob("*")
        if path.is_file()
    }
    return Location(MemorySource(name, files), name)
