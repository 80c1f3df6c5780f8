"""Directory listings: which entries are files of a queue or an index, and which are strays.

Nothing is opened here. Links are resolved, as operators do link segments to other disks, and only regular
files count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.io import FileKind
from rmqtool.store.segments import NAME_DIGITS, FileQueue, Segment, StoreFile, Stray

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.io import Location, Status

INDEX_NAME_DIGITS = 17
"""Index files are named ``yyyyMMddHHmmssSSS``."""

_LARGEST_LONG = (1 << 63) - 1


def digits_of(name: str, count: int) -> int | None:
    """Return the number in a name of exactly ``count`` ASCII digits, if a Java long holds it."""
    if len(name) != count or not (name.isascii() and name.isdigit()):
        return None
    number = int(name)
    return number if number <= _LARGEST_LONG else None


def list_file_queue(directories: Iterable[Location], base: Location) -> FileQueue:
    """List the segments of one file queue; a missing directory counts as empty.

    Java: ``MappedFileQueue#load``, ``MultiPathMappedFileQueue#load`` (4.9.8, 5.3.3): the union of all
    directories, sorted by file name only.
    """
    directories = tuple(directories)
    segments: list[Segment] = []
    strays: list[Stray] = []
    for place, label, status in _entries(directories, base):
        found = _examine(place, label, status, NAME_DIGITS)
        if isinstance(found, Stray):
            strays.append(found)
        else:
            segments.append(Segment(found.path, label, found.size_bytes, int(place.name)))
    segments.sort(key=lambda segment: (segment.start, segment.label))
    return FileQueue(directories, *_without_twins(segments, strays))


def list_index_files(directory: Location, base: Location) -> tuple[tuple[StoreFile, ...], tuple[Stray, ...]]:
    """List index files in the order of their names, and the strays beside them.

    Java: ``IndexService#load`` (4.9.8, 5.3.3).
    """
    found = [_examine(*entry, INDEX_NAME_DIGITS) for entry in _entries((directory,), base)]
    files = sorted((one for one in found if isinstance(one, StoreFile)), key=lambda file: file.path.name)
    return tuple(files), tuple(one for one in found if isinstance(one, Stray))


def list_directories(directory: Location, base: Location) -> tuple[list[Location], list[Stray]]:
    """List the sub-directories of a directory by name, and the other entries."""
    directories, strays = [], []
    for place, label, status in _entries((directory,), base):
        if status.kind is FileKind.DIRECTORY:
            directories.append(place)
        else:
            strays.append(Stray(label, f"is {status.kind}"))
    return directories, strays


def label_of(path: Location, base: Location) -> str:
    """Return a path relative to the store, or the whole path if it lies elsewhere."""
    return path.relative_to(base) if path.is_relative_to(base) else str(path)


def _entries(directories: Iterable[Location], base: Location) -> Iterator[tuple[Location, str, Status]]:
    for directory in directories:
        prefix = label_of(directory, base)
        for name, status in directory.entries():
            yield directory / name, name if prefix == "." else f"{prefix}/{name}", status


def _examine(place: Location, label: str, status: Status, digits: int) -> StoreFile | Stray:
    """Return an entry as a file if it is regular, not empty, and named by so many digits; else as a stray."""
    if status.kind is not FileKind.FILE:
        return Stray(label, f"is {status.kind}" + (f": {status.reason}" if status.reason else ""))
    if digits_of(place.name, digits) is None:
        return Stray(label, f"is not named by {digits} digits", status.size_bytes)
    if status.size_bytes == 0:
        return Stray(label, "is empty", 0)
    return StoreFile(place, label, status.size_bytes)


def _without_twins(
    segments: list[Segment], strays: list[Stray]
) -> tuple[tuple[Segment, ...], tuple[Stray, ...]]:
    """Make strays of segments whose start another directory's segment has already."""
    kept: list[Segment] = []
    for segment in segments:
        if kept and kept[-1].start == segment.start:
            strays.append(Stray(segment.label, f"has the name of {kept[-1].label}", segment.size_bytes))
        else:
            kept.append(segment)
    return tuple(kept), tuple(strays)
