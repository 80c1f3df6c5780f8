"""Location: the name of a file or directory of a store, in a source."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NoReturn

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.io.local import LocalFiles
from rmqtool.io.object_urls import SCHEMES, is_object_url, split_url
from rmqtool.io.reading import ReadOnlyFile
from rmqtool.io.source import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableSequence
    from pathlib import Path

    from rmqtool.io.reading import UnreadableRange
    from rmqtool.io.source import Entry, Source, Status

_WILD = re.compile(r"[*?\[]")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""With one stroke, as `pathlib` leaves it; a directory whose name ends with a colon needs its whole path."""


@dataclass(frozen=True, slots=True)
class Location:
    """A name in a source; a value that looks at nothing until a method is called.

    It is deliberately no `os.PathLike`: what takes a path of this machine's does not take it.

    Attributes:
        source: What holds it.
        text: Its absolute name there, ``/`` between components.
    """

    source: Source
    text: str

    def __str__(self) -> str:
        return self.text

    def __truediv__(self, relative: str) -> Location:
        return Location(self.source, f"{self._prefix}{relative}")

    @property
    def name(self) -> str:
        """Return the last component."""
        return self.text.rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """Return the directory around it; of the top, itself."""
        return Location(self.source, self.text.rpartition("/")[0] or "/")

    def with_name(self, name: str) -> Location:
        """Return its neighbour of that name."""
        return self.parent / name

    def is_relative_to(self, base: Location) -> bool:
        """Tell by the names whether it is ``base`` or lies below."""
        return self == base or (self.source == base.source and self.text.startswith(base._prefix))

    def relative_to(self, base: Location) -> str:
        """Return its name below ``base``, ``.`` for that itself.

        Raises:
            ValueError: It does not lie there.
        """
        if not self.is_relative_to(base):
            raise ValueError(f"{self} does not lie below {base}")
        return self.text[len(base._prefix) :] or "."

    def elsewhere(self, text: str) -> Location:
        """Return the place of the same source that a setting names."""
        return Location(self.source, self.source.absolute(text))

    def status(self) -> Status | None:
        """Return what is there, links followed; None if nothing has that name."""
        return self.source.status(self.text)

    def kind(self) -> Kind | None:
        """Return the kind of what is there, links followed; None if nothing has that name."""
        status = self.status()
        return None if status is None else status.kind

    def is_regular(self) -> bool:
        """Return whether a regular file is there."""
        return self.kind() is Kind.FILE

    def is_directory(self) -> bool:
        """Return whether a directory is there."""
        return self.kind() is Kind.DIRECTORY

    def is_there(self) -> bool:
        """Return whether anything is there, and be it hidden; a dangling link does not count."""
        return self.kind() not in {None, Kind.LOST}

    def entries(self) -> list[Entry]:
        """Return the entries of a directory by name; none where no directory is.

        Raises:
            EnvironmentFailureError: It may not be listed.
        """
        return self.source.entries(self.text)

    def matching(self, pattern: str) -> Iterator[Location]:
        """Yield what is there by a glob over names below, by name; where nobody may look, nothing is."""
        first, _, rest = pattern.partition("/")
        names = [first]
        if _WILD.search(first):
            with suppress(EnvironmentFailureError):  # as documented; who needs the directory lists it itself
                names = [entry.name for entry in self.entries() if fnmatchcase(entry.name, first)]
        for place in (self / name for name in names):
            if rest:
                yield from place.matching(rest)
            elif place.kind() not in {None, Kind.LOST, Kind.HIDDEN}:
                yield place

    def reader(self) -> ReadOnlyFile:
        """Return the reader of a file, which opens it at the first read."""
        return ReadOnlyFile(self.source, self.text)

    def read_head(self, length: int, unreadable: MutableSequence[UnreadableRange] | None = None) -> bytes:
        """Return the first ``length`` bytes of a file, or what it has, and close it.

        Args:
            length: Bytes wanted at most.
            unreadable: As for `ReadOnlyFile.read_at`.

        Raises:
            EnvironmentFailureError: As for `ReadOnlyFile.read_at`.
        """
        with self.reader() as file:
            return file.read_at(0, length, unreadable)

    def real(self) -> Location:
        """Return the same place without links, as far as it exists."""
        return Location(self.source, self.source.real(self.text))

    def local_path(self) -> Path | None:
        """Return where on this machine the bytes lie, so that nothing is written there; None if elsewhere."""
        return self.source.local_path(self.text)

    @property
    def _prefix(self) -> str:
        return self.text if self.text.endswith("/") else f"{self.text}/"


def location_of(path: str | os.PathLike[str] | Location) -> Location:
    """Return the place that a path of this machine's, or a URL of an object store's names.

    Raises:
        UsageError: It is another URL, or one that makes no sense.
    """
    if isinstance(path, Location):
        return path
    if isinstance(path, str) and is_object_url(path):
        from rmqtool.io.objects import ObjectFiles

        top, text = split_url(path)
        return Location(ObjectFiles(top), text)
    files = LocalFiles()
    return Location(files, files.absolute(local_name(path)))


def is_glob(path: str | os.PathLike[str] | Location) -> bool:
    """Return whether a path, or a URL, is a glob: it has wildcards, and nothing has that very name."""
    text = path.text if isinstance(path, Location) else os.fspath(path)
    return _WILD.search(text) is not None and location_of(path).status() is None


def places_of(path: str | os.PathLike[str] | Location) -> list[Location]:
    """Return the places that a path, a URL or a glob names, a glob's by name; none where nothing fits."""
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
    """Say that `places_of` finds nothing.

    Raises:
        EnvironmentFailureError: Always.
    """
    raise EnvironmentFailureError(f"{path}: no match; give the paths of stores, or a glob")


def local_name(path: str | os.PathLike[str]) -> str:
    """Return a path of this machine's as text.

    Raises:
        UsageError: It is a URL, which would be taken for a directory of that odd name.
    """
    text = os.fspath(path)
    if _URL.match(text):
        raise UsageError(
            f"{text}: is a URL, but a path of this machine is needed here; commands that read a store take"
            f" {', '.join(f'{scheme}://' for scheme in SCHEMES)}, as text: rmqtool help objects"
        )
    return text
