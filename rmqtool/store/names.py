"""Names: topics as directories, and the entries of directories that are files of a queue or an index."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.findings import Severity
from rmqtool.io import FileKind, Location, Status
from rmqtool.javacompat import decode_utf8
from rmqtool.store.ledger import framing_in
from rmqtool.store.segments import NAME_DIGITS, FileQueue, Segment, StoreFile, Stray, label_of
from rmqtool.topics import DEAD_LETTER_PREFIX, LMQ_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.io.source import DirectoryEntry


_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")

LONGEST_COMPONENT_BYTES = 255
"""Limit of file systems for one name (``NAME_MAX``)."""

_LEGAL = frozenset(b"%|-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""``TopicValidator#isTopicOrGroupIllegal`` (4.9.8, 5.3.3)."""

_LONGEST_TOPIC = 127
_LONGEST_RETRY_TOPIC = 255
_LONG_PREFIXES = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
HIGHEST_QUEUE_ID = 0xFFFF  # far more queues than any topic has


def component_problem(name: str) -> str | None:
    """Return why a topic, decoded as Java does, must not name a directory; None if it may.

    Control characters are allowed, as they are for a broker; printing escapes them.
    """
    if not name:
        return "it is empty"
    if name in {".", ".."}:
        return f"it is {name!r}"
    if "/" in name or "\x00" in name:
        return "it contains '/' or NUL"
    size_bytes = len(name.encode("utf-8", "surrogatepass"))
    if size_bytes > LONGEST_COMPONENT_BYTES:
        return f"it is {size_bytes} bytes long; {LONGEST_COMPONENT_BYTES} fit in a file name"
    return None


def topic_problem(raw_topic: bytes) -> tuple[str, Severity] | None:
    """Return the fault in the name of a topic, and its severity; None for a legal name."""
    topic = decode_utf8(raw_topic)
    unsafe = component_problem(topic)
    if unsafe is not None:
        return f"the topic's name cannot be a directory: {unsafe}", Severity.ERROR
    if topic.startswith(LMQ_PREFIX):
        return None
    if not _LEGAL.issuperset(raw_topic):
        return "no broker lets a client create a topic of that name", Severity.WARNING
    longest = _LONGEST_RETRY_TOPIC if topic.startswith(_LONG_PREFIXES) else _LONGEST_TOPIC
    if len(raw_topic) > longest:
        return f"the topic has {len(raw_topic)} bytes, more than a broker allows", Severity.WARNING
    return None


def is_illegal(raw_topic: bytes, queue_id: int) -> bool:
    """Whether no broker would make such a queue."""
    return topic_problem(raw_topic) is not None or not 0 <= queue_id <= HIGHEST_QUEUE_ID


def safe_component(name: str) -> bool:
    """Return whether a name may become one component of a path."""
    return component_problem(name) is None


def real_path(path: Path) -> Path:
    """Return a path without links, as far as it exists.

    A circle of links stays as it is, and opening it will fail; ``Path.resolve`` raises RuntimeError there
    (Python before 3.13).
    """
    return Path(os.path.realpath(path))


def directory_around(path: Path, directories: Iterable[Path]) -> Path | None:
    """Return the directory in which a path lies, or would lie if it existed; None if in none of them.

    Links are followed, and directories are recognised by device and inode as well: a bind mount shows one
    under another name, with other parents.
    """
    real = real_path(path)
    roots = {real_path(directory) for directory in directories}
    for place in (real, *real.parents):
        if place in roots:
            return place
    identities = {identity: root for root in roots if (identity := _identity(root)) is not None}
    paths = (identities[one] for one in map(_identity, (real, *real.parents)) if one in identities)
    return next(paths, None) or _mounted_from(real, roots)


def _mounted_from(path: Path, roots: Iterable[Path]) -> Path | None:
    """Return the directory of which a part is mounted where a path lies; None without one.

    Such a mount has neither the names nor the identity of the directory, but it is of the same file system,
    and below it there.
    """
    mounts = _mounts()
    device, place = _in_device(path, mounts)
    for root in roots:
        of_root, root_place = _in_device(root, mounts)
        if device is not None and device == of_root and place.is_relative_to(root_place):
            return root
    return None


def _in_device(path: Path, mounts: list[_Mount]) -> tuple[str | None, PurePath]:
    """Return the file system of a path, and the path in it; of mounts at one point the last one counts."""
    around = [mount for mount in mounts if path.is_relative_to(mount.point)]
    if not around:
        return None, path
    deepest = max(reversed(around), key=lambda mount: len(mount.point.parts))
    return deepest.device, deepest.root / path.relative_to(deepest.point)


class _Mount(NamedTuple):
    device: str
    root: PurePath
    point: PurePath


def _mounts() -> list[_Mount]:
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    fields = (line.split(" ") for line in lines)
    return [_Mount(field[2], *map(_unescaped, field[3:5])) for field in fields if len(field) > 4]


def _unescaped(text: str) -> PurePath:
    """Return a path of mountinfo, where space, tab, newline and backslash are octal numbers."""
    return PurePath(_OCTAL.sub(lambda match: chr(int(match[1], 8)), text))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


INDEX_NAME_DIGITS = 17
"""Index files are named ``yyyyMMddHHmmssSSS``."""

_LARGEST_LONG = (1 << 63) - 1


def digits_of(name: str, count: int) -> int | None:
    """Return the number in a name of exactly ``count`` ASCII digits, if a Java long holds it."""
    if len(name) != count or not (name.isascii() and name.isdigit()):
        return None
    number = int(name)
    return number if number <= _LARGEST_LONG else None


class Listing:
    """Entries of directories, of which each is listed once: a store can have tens of thousands."""

    def __init__(self) -> None:
        self._listed: dict[Location, list[DirectoryEntry]] = {}

    def __reduce__(self) -> tuple[type[Listing], tuple[()]]:
        """Pickle as a new one: where it arrives, directories are listed again."""
        return Listing, ()

    def entries(self, directory: Location) -> list[DirectoryEntry]:
        """Return the entries of a directory by name, as `Location.entries`."""
        if (listed := self._listed.get(directory)) is None:
            listed = self._listed[directory] = directory.entries()
        return listed

    def forget(self) -> None:
        """Have all listed again."""
        self._listed.clear()


def list_file_queue(
    directories: Iterable[Location], base: Location, listing: Listing | None = None
) -> FileQueue:
    """List the segments of one file queue; a missing directory counts as empty.

    Java: ``MappedFileQueue#load``, ``MultiPathMappedFileQueue#load`` (4.9.8, 5.3.3): the union of all
    directories, sorted by file name only.
    """
    directories = tuple(directories)
    segments: list[Segment] = []
    strays: list[Stray] = []
    for place, label, status in _entries(directories, base, listing):
        examined = _examine(place, label, status, NAME_DIGITS)
        if isinstance(examined, Stray):
            strays.append(examined)
        else:
            framing = framing_in(place.parent)
            segments.append(Segment(examined.path, label, examined.size_bytes, int(place.name), framing))
    segments.sort(key=lambda segment: segment.start)
    if len(directories) > 1:
        from rmqtool.store.twins import without_twins  # few logs have several directories

        segments, twins = without_twins(segments)
        strays += twins
    return FileQueue(directories, tuple(segments), tuple(strays))


def list_index_files(directory: Location, base: Location) -> tuple[tuple[StoreFile, ...], tuple[Stray, ...]]:
    """List index files in the order of their names, and the strays beside them.

    Java: ``IndexService#load`` (4.9.8, 5.3.3).
    """
    examined = [_examine(*entry, INDEX_NAME_DIGITS) for entry in _entries((directory,), base)]
    files = sorted((one for one in examined if isinstance(one, StoreFile)), key=lambda file: file.path.name)
    return tuple(files), tuple(one for one in examined if isinstance(one, Stray))


def list_directories(
    directory: Location, base: Location, listing: Listing | None = None
) -> tuple[list[Location], list[Stray]]:
    """List the sub-directories of a directory by name, and the other entries."""
    directories, strays = [], []
    for place, label, status in _entries((directory,), base, listing):
        if status.kind is FileKind.DIRECTORY:
            directories.append(place)
        else:
            strays.append(Stray(label, f"is {status.kind}"))
    return directories, strays


def _entries(
    directories: Iterable[Location], base: Location, listing: Listing | None = None
) -> Iterator[tuple[Location, str, Status]]:
    for directory in directories:
        prefix = label_of(directory, base)
        for name, status in directory.entries() if listing is None else listing.entries(directory):
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
