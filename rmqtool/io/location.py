"""Location of a store's file or directory, or of an image or block device, and the reading of a file."""

from __future__ import annotations

import errno
import os
import re
import threading
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self

from rmqtool.errors import EnvironmentFailureError, RefusedError, UsageError
from rmqtool.io.local import Descriptor, LinklessFiles, LocalFiles, LocalImages
from rmqtool.io.source import (
    SCHEMES,
    DirectoryEntry,
    FileKind,
    Handle,
    Source,
    Status,
    is_object_url,
    split_url,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableSequence


_WILD = re.compile(r"[*?\[]")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""With one slash, as `pathlib` leaves it; a directory whose name ends with a colon needs its whole path."""


@dataclass(frozen=True, slots=True)
class Location:
    """A name in a source, absolute, ``/`` between components; only its methods read anything.

    It is deliberately not an `os.PathLike`: functions for paths of this machine do not take it.
    """

    source: Source
    text: str

    def __str__(self) -> str:
        return self.text

    def __truediv__(self, relative: str) -> Location:
        return Location(self.source, f"{self._prefix}{relative}")

    @property
    def name(self) -> str:
        """The last component."""
        return self.text.rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The directory around it; of the top, itself."""
        return Location(self.source, self.text.rpartition("/")[0] or "/")

    def with_name(self, name: str) -> Location:
        """Return its neighbour of that name."""
        return self.parent / name

    def is_relative_to(self, base: Location) -> bool:
        """Return by the names whether it is ``base`` or lies below."""
        return self == base or (self.source == base.source and self.text.startswith(base._prefix))

    def relative_to(self, base: Location) -> str:
        """Return its name below ``base``, ``.`` for that itself; `ValueError` if it lies elsewhere."""
        if self == base:
            return "."
        below = base.text if base.text.endswith("/") else f"{base.text}/"
        if self.source != base.source or not self.text.startswith(below):
            raise ValueError(f"{self} does not lie below {base}")
        return self.text[len(below) :]

    def elsewhere(self, text: str) -> Location:
        """Return the location in the same source that a setting names."""
        return Location(self.source, self.source.absolute(text))

    def status(self) -> Status | None:
        """Return its status, links followed; None if it does not exist."""
        return self.source.status(self.text)

    def kind(self) -> FileKind | None:
        """Return its kind, links followed; None if it does not exist."""
        status = self.source.status(self.text)
        return None if status is None else status.kind

    def is_regular(self) -> bool:
        """Return whether it is a regular file."""
        return self.kind() is FileKind.FILE

    def is_directory(self) -> bool:
        """Return whether it is a directory."""
        return self.kind() is FileKind.DIRECTORY

    def is_there(self) -> bool:
        """Return whether it exists, even hidden; a dangling link does not count."""
        return self.kind() not in {None, FileKind.LOST}

    def is_open(self) -> bool:
        """Return whether it exists, and what it holds, if it is a directory, may be examined."""
        hidden = {FileKind.HIDDEN, FileKind.LINK}
        return self.is_there() and hidden.isdisjoint({self.kind(), (self / ".").kind()})

    def entries(self) -> list[DirectoryEntry]:
        """Return the entries of a directory by name; none if it is not one."""
        return self.source.entries(self.text)

    def matching(self, *patterns: str) -> Iterator[Location]:
        """Yield the existing locations that fit globs over names below, glob by glob, by name."""
        listed: list[str] | None = None
        for pattern in patterns:
            first, _, rest = pattern.partition("/")
            names = [first]
            if _WILD.search(first):
                listed = self._names() if listed is None else listed
                names = [name for name in listed if fnmatchcase(name, first)]
            for place in (self / name for name in names):
                if rest:
                    yield from place.matching(rest)
                elif place.kind() not in {None, FileKind.LOST, FileKind.HIDDEN}:
                    yield place

    def _names(self) -> list[str]:
        with suppress(EnvironmentFailureError):  # code that needs the directory lists it itself
            return [entry.name for entry in self.source.entries(self.text)]
        return []

    def reader(self) -> ReadOnlyFile:
        """Return the reader of a file, which opens it at the first read."""
        return ReadOnlyFile(self)

    def read_head(self, length: int, unreadable: MutableSequence[UnreadableRange] | None = None) -> bytes:
        """Return a file's first bytes, as `ReadOnlyFile.read_at`, and close it."""
        with self.reader() as file:
            return file.read_at(0, length, unreadable)

    def without_links(self) -> Location:
        """Return the same location, below which links of this machine are not followed."""
        is_local = isinstance(self.source, LocalFiles)
        return Location(LinklessFiles(self.text), self.text) if is_local else self

    def real(self) -> Location:
        """Return the location without links, as far as it exists."""
        return Location(self.source, self.source.real(self.text))

    def local_path(self) -> Path | None:
        """Return the bytes' path on this machine, to protect it from writes; None if elsewhere."""
        return self.source.local_path(self.text)

    @property
    def _prefix(self) -> str:
        return self.text if self.text.endswith("/") else f"{self.text}/"


_PIECE_BYTES = 1 << 20
_ZEROS = memoryview(bytes(_PIECE_BYTES))
_MOST_OPEN = 128
"""Files of this machine that stay open: a log can have thousands, and a process may have 256 or 1,024."""
RETRY_BYTES = 4096
"""Smallest piece that is read on its own after a failure: a page, and whole sectors of any disk."""


class UnreadableRange(NamedTuple):
    """Bytes of a file that the disk could not deliver; they were read as zeros."""

    position: int
    length: int

    @property
    def stop(self) -> int:
        """The position after the range."""
        return self.position + self.length


@dataclass(unsafe_hash=True)
class ReadOnlyFile:
    """One file, opened at the first read, shared by threads (no read moves a position), picklable by name.

    Never mmap: a mapped file that shrinks, or a sector that cannot be read, kills the process with SIGBUS.
    Only `rmqtool.store.lock` may open the file ``lock``: closing any descriptor of it drops a record lock
    that this process might hold.
    """

    path: Location
    _handle: Handle | None = field(default=None, init=False, repr=False, compare=False)
    _opening: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in {"_handle", "_opening"}}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _handle=None, _opening=threading.Lock())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, after reads of other threads; the next read opens it again."""
        self._handle = None

    def current_size(self) -> int:
        """Return the file's size in bytes now."""
        return self._open().size_bytes()

    def next_written(self, position: int) -> int:
        """Return the first position from ``position`` on where bytes were ever written; else the file's end.

        Holes of a sparse file in between are zeros. A source that does not know holes has none.
        """
        return self._open().next_written(position)

    def read_at(
        self, position: int, length: int, unreadable: MutableSequence[UnreadableRange] | None = None
    ) -> bytes:
        """Return up to ``length`` bytes from ``position`` on, fewer at the end of the file.

        Memory is taken for the file's bytes only, however large ``length`` is; a negative position reads
        nothing. ``unreadable`` receives the ranges that the disk could not deliver; without it, they raise
        `EnvironmentFailureError`, as do other failures.
        """
        available = min(length, (self._handle or self._open()).size_bytes() - position)
        if position < 0 or available <= 0:
            return b""
        buffer = bytearray(available)
        return bytes(memoryview(buffer)[: self.read_into(position, buffer, unreadable)])

    def read_into(
        self,
        position: int,
        buffer: bytearray | memoryview[Any],
        unreadable: MutableSequence[UnreadableRange] | None = None,
    ) -> int:
        """Fill a writable buffer from ``position`` on and return the number of bytes, fewer at the end.

        Where a read fails, the piece is halved until only the bad block is left, and doubled after it.
        Unreadable bytes become zeros; ``unreadable`` receives their ranges, ascending, 4 KiB exact. Raises
        `EnvironmentFailureError` as for `read_at`.
        """
        view = memoryview(buffer).cast("B")
        handle = self._handle or self._open()  # a reference keeps it open while it is read
        done, piece = 0, len(view)
        while done < len(view):
            at = position + done
            try:
                count = handle.read_into(at, view[done : done + piece])
            except OSError as failure:
                if failure.errno != errno.EIO or unreadable is None:
                    raise EnvironmentFailureError(
                        f"{self.path}: read at position {at} failed: {failure.strerror}"
                    ) from failure
                block = RETRY_BYTES - at % RETRY_BYTES
                piece = min(piece, len(view) - done)
                if piece > block:
                    piece = block + (piece - block) // 2 // RETRY_BYTES * RETRY_BYTES
                    continue
                view[done : done + piece] = bytes(piece)
                _note(unreadable, UnreadableRange(at, piece))
                count = piece
            if count == 0:
                break
            done, piece = done + count, 2 * piece
        return done

    def _open(self) -> Handle:
        handle = self._handle
        if handle is None:
            with self._opening:
                handle = self._handle
                if handle is None:
                    handle = self._handle = self.path.source.open(self.path.text)
                    if isinstance(handle, Descriptor):
                        _OPEN_FILES.append(weakref.ref(self))
                        if len(_OPEN_FILES) > _MOST_OPEN and (oldest := _OPEN_FILES.popleft()()) is not None:
                            oldest.close()
        return handle


_OPEN_FILES: deque[weakref.ref[ReadOnlyFile]] = deque()
"""In the order in which they were opened; some may be closed by now, or open once more."""
# its next read opens it again


def sha256_of(file: ReadOnlyFile, stop: int, unreadable: MutableSequence[UnreadableRange]) -> tuple[str, int]:
    """Return SHA-256 of a file's first ``stop`` bytes in hex, and how many of them it had.

    Holes are not read. A ``stop`` one byte beyond the file shows whether it grows. ``unreadable`` receives
    the ranges that the disk could not deliver, hashed as zeros.
    """
    import hashlib  # and OpenSSL, which look-ups do without

    hasher, position = hashlib.sha256(), 0
    view = memoryview(bytearray(min(_PIECE_BYTES, stop)))
    while position < stop:
        data = min(file.next_written(position), stop)
        for start in range(position, data, len(_ZEROS)):
            hasher.update(_ZEROS[: data - start])
        position = max(position, data)
        count = file.read_into(position, view[: stop - position], unreadable)
        hasher.update(view[:count])
        position += count
        if not count:
            break
    return hasher.hexdigest(), position


def _note(unreadable: MutableSequence[UnreadableRange], bad: UnreadableRange) -> None:
    if unreadable and unreadable[-1].stop == bad.position:
        bad = UnreadableRange(unreadable[-1].position, unreadable[-1].length + bad.length)
        unreadable.pop()
    unreadable.append(bad)


def location_of(path: str | os.PathLike[str] | Location) -> Location:
    """Return the location of a local path, or of an object store's URL; `UsageError` for any other URL."""
    if isinstance(path, Location):
        return path
    if isinstance(path, str) and is_object_url(path):
        from rmqtool.io.objects import ObjectFiles

        top, text = split_url(path)
        return Location(ObjectFiles(top), text)
    files = LocalFiles()
    return Location(files, files.absolute(local_name(path)))


def is_glob(path: str | os.PathLike[str] | Location) -> bool:
    """Return whether a path or URL is a glob: it has wildcards, and nothing has that very name."""
    text = path.text if isinstance(path, Location) else os.fspath(path)
    return _WILD.search(text) is not None and location_of(path).status() is None


def places_of(path: str | os.PathLike[str] | Location) -> list[Location]:
    """Return the locations of a path, a URL or a glob, in the order of names; none where nothing fits."""
    place = location_of(path)
    if not is_glob(path):
        return [place]
    if is_object_url(place.text):
        top = split_url(place.text)[0]
        return list(Location(place.source, top).matching(place.text[len(top) :].strip("/")))
    if isinstance(path, Location):
        return list(Location(place.source, "/").matching(place.text.strip("/")))
    text = local_name(path)
    base = location_of("/" if text.startswith("/") else ".")
    return [base.elsewhere(location.text) for location in base.matching(text.strip("/"))]


def nothing_fits(path: str | os.PathLike[str] | Location) -> NoReturn:
    """Raise the `EnvironmentFailureError` for a path or glob that `places_of` does not find."""
    raise EnvironmentFailureError(f"{path}: no match; give the paths of stores, or a glob")


def local_name(path: str | os.PathLike[str]) -> str:
    """Return a local path as text; `UsageError` for a URL, which would become an oddly named directory."""
    text = os.fspath(path)
    if _URL.match(text):
        raise UsageError(
            f"{text}: is a URL, but a path of this machine is needed here; commands that read a store take"
            f" {', '.join(f'{scheme}://' for scheme in SCHEMES)}, as text: rmqtool help objects"
        )
    return text


_DEVICES = Path("/sys/dev/block")


def image_at(path: str | os.PathLike[str]) -> Location:
    """Return the location of an image, absolute, links kept, which must be a file or a block device."""
    files = LocalImages()
    place = Location(files, files.absolute(os.fspath(path)))
    status = place.status()
    if status is None or status.kind not in LocalImages.OPENED:
        said = "No such file or directory" if status is None else status.reason or f"is {status.kind}"
        raise EnvironmentFailureError(f"{place}: {said}; give an image, a file or a block device")
    return place


def refuse_same_device(image: Location, out: Path) -> None:
    """Refuse an output on the block device that is carved, as it may overwrite messages (`RefusedError`)."""
    if image.kind() is not FileKind.BLOCK_DEVICE:
        return
    place = next(path for path in (out, *out.absolute().parents) if path.exists())
    if is_part_of(place.stat().st_dev, os.stat(image.text).st_rdev):  # noqa: PTH116 - as in `LocalFiles`
        raise RefusedError(
            f"{out}: lies on {image}, which is carved: the output may overwrite the messages; choose "
            "another device for it"
        )


def is_part_of(device: int, whole: int, devices: Path = _DEVICES) -> bool:
    """Return whether a device is another, a partition of it, or made of it, by their numbers."""
    return device == whole or _real(devices, whole) in _below(_real(devices, device))


def _real(devices: Path, number: int) -> Path:
    return (devices / f"{os.major(number)}:{os.minor(number)}").resolve()


def _below(device: Path) -> set[Path]:
    paths = {device}
    if (device / "partition").exists():
        paths |= _below(device.parent)
    slaves = device / "slaves"
    for slave in sorted(slaves.iterdir()) if slaves.is_dir() else ():
        paths |= _below(slave.resolve())
    return paths
