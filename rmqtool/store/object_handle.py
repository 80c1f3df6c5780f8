"""Handle for tasks that write into object storage, and this process's notes of written objects."""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.io.location import Location
from rmqtool.io.object_store import ObjectWriter, WrittenObject
from rmqtool.io.object_urls import split_url
from rmqtool.io.objects import ObjectFiles
from rmqtool.store.segments import StoreFile
from rmqtool.store.staged_file import StagedFile, checked_relative
from rmqtool.store.staging import StagingHandle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqtool.store.staging import Hashing

AREA = ".rmqtool"
"""Directory of an output in object storage that is not part of the result."""

Written = dict[str, WrittenObject]
"""Objects by their names."""


class _Notes:
    """Objects that this process has written and that no staging area has taken over yet."""

    def __init__(self) -> None:
        self._written: Written = {}
        self._changing = threading.Lock()

    def add(self, written: Mapping[str, WrittenObject]) -> None:
        with self._changing:
            self._written.update(written)

    def of(self, below: str) -> Written:
        with self._changing:
            return {name: one for name, one in self._written.items() if name.startswith(below)}

    def take(self, below: str = "") -> Written:
        with self._changing:
            taken = {name: one for name, one in self._written.items() if name.startswith(below)}
            for name in taken:
                del self._written[name]
        return taken


_NOTES = _Notes()
add_written, take_written = _NOTES.add, _NOTES.take


@cache
def _writer(top: str) -> ObjectWriter:
    return ObjectWriter(top)


def writer_of(url: str) -> ObjectWriter:
    """Return the writer of a URL's bucket."""
    return _writer(split_url(url)[0])


@cache
def _reader(top: str) -> ObjectFiles:
    return ObjectFiles(top, samples=False)


def staged_object(url: str) -> Location:
    """Return the location of an object that one task writes once and others read."""
    return Location(_reader(split_url(url)[0]), url)


@dataclass(frozen=True, slots=True)
class ObjectHandle(StagingHandle):
    """Handle for tasks that write into object storage, see `StagingHandle`.

    Files are made in ``path``, a directory of this machine, and then sent to ``url``. With ``elsewhere``,
    tasks run on machines that do not see ``path``: those use directories of their own, and send blocks as
    objects.
    """

    url: str
    elsewhere: bool

    @property
    def results(self) -> Location:
        """Location of the files of the result that are written so far."""
        return Location(ObjectFiles(split_url(self.url)[0], samples=False), self.url)

    def create_file(self, relative: str, size_bytes: int | None = None) -> StagedFile:
        """Begin a file of the result, see `StagingHandle.create_file`."""
        return UploadedFile(self._here(), f"{self.url}/{checked_relative(relative)}", size_bytes)

    def create_block(self, name: str) -> StagedFile:
        """Begin a scratch file, see `StagingHandle.create_block`."""
        if not self.elsewhere:
            return StagedFile(self.path, self.path, name, None)
        return UploadedFile(self._here(), f"{self.url}/{AREA}/blocks/{name}", None)

    def finished(self, directory: str) -> list[StoreFile]:
        """Return the sent files of the result, see `StagingHandle.finished`."""
        place, below = self.results, f"{self.url}/"
        sent = _NOTES.of(f"{below}{directory}/")
        sizes = {name.removeprefix(below): sent[name].size_bytes for name in sorted(sent)}
        return [StoreFile(place / label, label, size) for label, size in sizes.items()]

    def digests(self, files: Sequence[StoreFile], run: Hashing) -> list[str]:
        """Return the SHA-256 with which files were sent, see `StagingHandle.digests`; nothing is read."""
        sent = _NOTES.of(f"{self.url}/")
        return [sent[str(file.path)].sha256 for file in files]

    def remove(self, relative: str) -> None:
        """Remove a file of the result that does not count."""
        name = f"{self.url}/{checked_relative(relative)}"
        take_written(name)
        writer_of(name).remove(name)

    def _here(self) -> Path:
        """Return a directory for new files; Spark removes its own with the application."""
        if not self.elsewhere:
            return self.path
        return Path(os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or tempfile.gettempdir())


class UploadedFile(StagedFile):
    """A file that is written in ``scratch`` and becomes the object ``url`` when it is finished."""

    def __init__(self, scratch: Path, url: str, size_bytes: int | None) -> None:
        self._url = url
        super().__init__(scratch, scratch, f"{secrets.token_hex(8)}.upload", size_bytes)

    @property
    def name(self) -> str:
        """URL by which it is read when it is finished."""
        return self._url

    def finish(self) -> Path:
        """Close the file, send it, and remove it here.

        Raises `DeniedError` if the object may not be written, `SourceFailureError` if it could not be sent.
        """
        path = super().finish()
        try:
            add_written({self._url: writer_of(self._url).put(self._url, path)})
        finally:
            path.unlink()
        return path
