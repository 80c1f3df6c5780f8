"""Location of a store's file or directory, or of an image or block device: a name in a source."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rmqtool.errors import EnvironmentFailureError, RefusedError, UsageError
from rmqtool.io.local import Descriptor, LocalFiles, open_only
from rmqtool.io.object_urls import SCHEMES, is_object_url, split_url
from rmqtool.io.reading import ReadOnlyFile, UnreadableRange
from rmqtool.io.source import DirectoryEntry, FileKind, Source, Status

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
        if not self.is_relative_to(base):
            raise ValueError(f"{self} does not lie below {base}")
        return self.text[len(base._prefix) :] or "."

    def elsewhere(self, text: str) -> Location:
        """Return the location in the same source that a setting names."""
        return Location(self.source, self.source.absolute(text))

    def status(self) -> Status | None:
        """Return its status, links followed; None if it does not exist."""
        return self.source.status(self.text)

    def kind(self) -> FileKind | None:
        """Return its kind, links followed; None if it does not exist."""
        status = self.status()
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

    def entries(self) -> list[DirectoryEntry]:
        """Return the entries of a directory by name; none if it is not one."""
        return self.source.entries(self.text)

    def matching(self, pattern: str) -> Iterator[Location]:
        """Yield the existing locations that fit a glob over names below, by name."""
        first, _, rest = pattern.partition("/")
        names = [first]
        if _WILD.search(first):
            with suppress(
                EnvironmentFailureError
            ):  # as documented; code that needs the directory lists it itself
                names = [entry.name for entry in self.entries() if fnmatchcase(entry.name, first)]
        for place in (self / name for name in names):
            if rest:
                yield from place.matching(rest)
            elif place.kind() not in {None, FileKind.LOST, FileKind.HIDDEN}:
                yield place

    def reader(self) -> ReadOnlyFile:
        """Return the reader of a file, which opens it at the first read."""
        return ReadOnlyFile(self.source, self.text)

    def read_head(self, length: int, unreadable: MutableSequence[UnreadableRange] | None = None) -> bytes:
        """Return a file's first bytes, as `ReadOnlyFile.read_at`, and close it."""
        with self.reader() as file:
            return file.read_at(0, length, unreadable)

    def real(self) -> Location:
        """Return the location without links, as far as it exists."""
        return Location(self.source, self.source.real(self.text))

    def local_path(self) -> Path | None:
        """Return the bytes' path on this machine, to protect it from writes; None if elsewhere."""
        return self.source.local_path(self.text)

    @property
    def _prefix(self) -> str:
        return self.text if self.text.endswith("/") else f"{self.text}/"


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
    return [base.elsewhere(found.text) for found in base.matching(text.strip("/"))]


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


_OPENED = frozenset({FileKind.FILE, FileKind.BLOCK_DEVICE})
_DEVICES = Path("/sys/dev/block")


@dataclass(frozen=True, slots=True)
class LocalImages(LocalFiles):
    """File systems of this machine, with block devices that the user named readable, too.

    FIFOs and character devices stay refused: they have no positions to read at.
    """

    def open(self, path: str) -> Descriptor:
        """Open a regular file or a block device, see `rmqtool.io.local.open_only`."""
        return Descriptor(open_only(path, _OPENED))


def image_at(path: str | os.PathLike[str]) -> Location:
    """Return the location of an image, absolute, links kept, which must be a file or a block device."""
    files = LocalImages()
    place = Location(files, files.absolute(os.fspath(path)))
    status = place.status()
    if status is None or status.kind not in _OPENED:
        found = "No such file or directory" if status is None else status.reason or f"is {status.kind}"
        raise EnvironmentFailureError(f"{place}: {found}; give an image, a file or a block device")
    return place


def refuse_same_device(image: Location, out: Path) -> None:
    """Refuse an output on the block device that is carved, as it may overwrite messages (`RefusedError`)."""
    if image.kind() is not FileKind.BLOCK_DEVICE:
        return
    place = next(one for one in (out, *out.absolute().parents) if one.exists())
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
    found = {device}
    if (device / "partition").exists():
        found |= _below(device.parent)
    slaves = device / "slaves"
    for slave in sorted(slaves.iterdir()) if slaves.is_dir() else ():
        found |= _below(slave.resolve())
    return found
