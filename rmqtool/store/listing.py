"""Directory listings: which entries are files of a queue or an index, and what else lies there.

Nothing is opened here. Links are resolved (operators do link segments to other disks), and only what turns
out to be a regular file counts.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.store.reading import denied, kind_of_non_file
from rmqtool.store.segments import NAME_DIGITS, FileQueue, Segment, StoreFile, Stray

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

INDEX_NAME_DIGITS = 17
"""Index files are named ``yyyyMMddHHmmssSSS``."""

_LARGEST_LONG = (1 << 63) - 1


def digits_of(name: str, count: int) -> int | None:
    """Return the number that a name of exactly ``count`` ASCII digits stands for, if a Java long holds it."""
    if len(name) != count or not (name.isascii() and name.isdigit()):
        return None
    number = int(name)
    return number if number <= _LARGEST_LONG else None


def list_file_queue(directories: Iterable[Path], base: Path) -> FileQueue:
    """List the segments of one file queue; a directory that is missing or none is an empty one.

    Java: ``MappedFileQueue#load``, ``MultiPathMappedFileQueue#load`` (4.9.8, 5.3.3): the union of all
    directories, sorted by file name only.

    Args:
        directories: One, or several for a commit log on several paths.
        base: What labels are relative to.

    Raises:
        EnvironmentFailureError: A directory may not be read.
    """
    directories = tuple(directories)
    segments: list[Segment] = []
    strays: list[Stray] = []
    for entry, label in _entries(directories, base):
        found = _examine(entry, label, NAME_DIGITS)
        if isinstance(found, Stray):
            strays.append(found)
        else:
            segments.append(Segment(found.path, label, found.size_bytes, int(entry.name)))
    segments.sort(key=lambda segment: (segment.start, segment.label))
    return FileQueue(directories, *_without_twins(segments, strays))


def list_index_files(directory: Path, base: Path) -> tuple[tuple[StoreFile, ...], tuple[Stray, ...]]:
    """List index files in the order of their names, and the strays beside them.

    Java: ``IndexService#load`` (4.9.8, 5.3.3).

    Raises:
        EnvironmentFailureError: The directory may not be read.
    """
    found = [_examine(entry, label, INDEX_NAME_DIGITS) for entry, label in _entries((directory,), base)]
    files = sorted((one for one in found if isinstance(one, StoreFile)), key=lambda file: file.path.name)
    return tuple(files), tuple(one for one in found if isinstance(one, Stray))


def list_directories(directory: Path, base: Path) -> tuple[list[os.DirEntry[str]], list[Stray]]:
    """List the sub-directories of a directory by name, and the entries that are none."""
    directories, strays = [], []
    for entry, label in _entries((directory,), base):
        mode = _mode_of(entry)
        if mode is not None and stat.S_ISDIR(mode):
            directories.append(entry)
        else:
            strays.append(Stray(label, _non_directory(mode)))
    return directories, strays


def label_of(path: Path, base: Path) -> str:
    """Return a path relative to the store, or as it is when it lies elsewhere."""
    return str(path.relative_to(base)) if path.is_relative_to(base) else str(path)


def _entries(directories: Iterable[Path], base: Path) -> Iterator[tuple[os.DirEntry[str], str]]:
    for directory in directories:
        try:
            with os.scandir(directory) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError, UnicodeEncodeError):
            continue  # the last: no file has such a name in this locale
        except PermissionError as failure:
            raise denied(directory, "listed", failure) from failure
        except OSError as failure:
            raise EnvironmentFailureError(f"{directory}: cannot be listed: {failure.strerror}") from failure
        prefix = label_of(directory, base)
        for entry in entries:
            yield entry, entry.name if prefix == "." else f"{prefix}/{entry.name}"


def _mode_of(entry: os.DirEntry[str]) -> int | None:
    """Return the mode after an entry, links resolved; None where a link leads nowhere or in a circle."""
    try:
        return entry.stat().st_mode
    except OSError:
        return None


def _non_directory(mode: int | None) -> str:
    if mode is None:
        return "is a link that leads nowhere"
    return "is a file" if stat.S_ISREG(mode) else f"is {kind_of_non_file(mode)}"


def _examine(entry: os.DirEntry[str], label: str, digits: int) -> StoreFile | Stray:
    """Return an entry as a file if it is a regular one, not empty, named by so many digits."""
    from pathlib import Path

    try:
        status = entry.stat()
    except OSError as failure:
        return Stray(label, f"is a link that leads nowhere, or cannot be examined: {failure.strerror}")
    if not stat.S_ISREG(status.st_mode):
        return Stray(label, f"is {kind_of_non_file(status.st_mode)}")
    if digits_of(entry.name, digits) is None:
        return Stray(label, f"is not named by {digits} digits", status.st_size)
    if status.st_size == 0:
        return Stray(label, "is empty", 0)
    return StoreFile(Path(entry.path), label, status.st_size)


def _without_twins(
    segments: list[Segment], strays: list[Stray]
) -> tuple[tuple[Segment, ...], tuple[Stray, ...]]:
    """Set aside segments whose start another directory's segment has already."""
    kept: list[Segment] = []
    for segment in segments:
        if kept and kept[-1].start == segment.start:
            strays.append(Stray(segment.label, f"has the name of {kept[-1].label}", segment.size_bytes))
        else:
            kept.append(segment)
    return tuple(kept), tuple(strays)
