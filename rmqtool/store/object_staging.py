"""Results that are made in object storage: whole objects, and a manifest that is written last.

Below ``OUT`` there are while a run is at work::

    .rmqtool/run.json    who is at work
    .rmqtool/blocks/     scratch of the pipeline, where tasks share no file system
    …                    files of the result, each whole, as tasks finish them

Nothing can be renamed there, so a result is whole when ``manifest.json`` is there: it has the size and the
SHA-256 of every file, and is written after all of them were found with their sizes. What a failed run has
written is removed; of one that was killed, ``run.json`` tells.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.errors import RefusedError, RmqtoolError, SourceFailureError, UsageError
from rmqtool.io.location import Location
from rmqtool.io.object_urls import split_url
from rmqtool.io.object_writes import ObjectWriter, WrittenObject
from rmqtool.io.objects import ObjectFiles
from rmqtool.store.staged_file import StagedFile, checked_relative
from rmqtool.store.staging import StagingHandle, is_owner_alive, owner_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MANIFEST_NAME = "manifest.json"
_AREA, _OWNER = ".rmqtool", ".rmqtool/run.json"
_SCHEMA = "rmqtool.manifest/1"

Written = dict[str, WrittenObject]
"""Objects by their names."""


class _Notes:
    """What this process has written and nobody has taken note of."""

    def __init__(self) -> None:
        self._written: Written = {}
        self._changing = threading.Lock()

    def add(self, written: Mapping[str, WrittenObject]) -> None:
        with self._changing:
            self._written.update(written)

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
    """Return what writes where a URL leads."""
    return _writer(split_url(url)[0])


@cache
def _reader(top: str) -> ObjectFiles:
    return ObjectFiles(top, samples=False)


def staged_object(url: str) -> Location:
    """Return the place of an object that tasks hand over: it is written once, and read when it is there."""
    return Location(_reader(split_url(url)[0]), url)


@dataclass(frozen=True, slots=True)
class ObjectHandle(StagingHandle):
    """What a task needs to write into object storage, see `StagingHandle`.

    Attributes:
        path: A directory of this machine's, where files are made before they are sent.
        url: The output.
        elsewhere: Whether tasks run on machines that do not see ``path``: those have directories of their
            own, and hand over blocks as objects.
    """

    url: str
    elsewhere: bool

    @property
    def results(self) -> Location:
        """Return the place of what has been written of the result so far."""
        return Location(ObjectFiles(split_url(self.url)[0], samples=False), self.url)

    def create_file(self, relative: str, size_bytes: int | None = None) -> StagedFile:
        """Begin a file of the result, see `StagingHandle.create_file`."""
        return UploadedFile(self._here(), f"{self.url}/{checked_relative(relative)}", size_bytes)

    def create_block(self, name: str) -> StagedFile:
        """Begin a scratch file, see `StagingHandle.create_block`."""
        if not self.elsewhere:
            return StagedFile(self.path, self.path, name, None)
        return UploadedFile(self._here(), f"{self.url}/{_AREA}/blocks/{name}", None)

    def remove(self, relative: str) -> None:
        """Remove a file of the result that does not count."""
        name = f"{self.url}/{checked_relative(relative)}"
        take_written(name)
        writer_of(name).remove(name)

    def _here(self) -> Path:
        """Return where this machine makes files; Spark removes its own directories with the application."""
        if not self.elsewhere:
            return self.path
        return Path(os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or tempfile.gettempdir())


class UploadedFile(StagedFile):
    """A file that becomes an object when it is finished.

    Args:
        scratch: Directory for the file while it is written.
        url: Name of the object.
        size_bytes: As of `StagedFile`.

    Raises:
        EnvironmentFailureError: It cannot be created.
    """

    def __init__(self, scratch: Path, url: str, size_bytes: int | None) -> None:
        self._url = url
        super().__init__(scratch, scratch, f"{secrets.token_hex(8)}.upload", size_bytes)

    @property
    def name(self) -> str:
        """Return what it is read by when it is finished."""
        return self._url

    def finish(self) -> Path:
        """Close the file, send it, and remove it here.

        Raises:
            DeniedError: The object may not be written.
            EnvironmentFailureError: As of `StagedFile.finish`.
            SourceFailureError: It could not be sent.
        """
        path = super().finish()
        try:
            add_written({self._url: writer_of(self._url).put(self._url, path)})
        finally:
            path.unlink()
        return path


class ObjectStagingArea:
    """A staging area whose result lies in object storage; a context manager, as `rmqtool.store.staging` has.

    Args:
        out: Where the result goes; nothing may be there.
        evidence: Places that nothing is written into.
        here: A directory of this machine's for what is not sent yet, which the caller removes.
        elsewhere: Whether tasks run on machines that do not see that.

    Raises:
        UsageError: It is all of a bucket.
        RefusedError: Something is there, it lies inside the evidence or around it, or another run is at work.
        DeniedError: It may not be listed or written.
        SourceFailureError: The store does not answer.
    """

    def __init__(self, out: Location, evidence: Iterable[Location], here: Path, *, elsewhere: bool) -> None:
        if out.text == split_url(out.text)[0]:
            raise UsageError(f"{out}: give a path in it, as in {out}/rebuilt")
        self.out = out
        self._url, self._writer = out.text, writer_of(out.text)
        _refuse_evidence(out, evidence)
        self._refuse_contents()
        self.handle = ObjectHandle(here, self._url, elsewhere)
        self._published = False
        self._put(_OWNER, json.dumps(owner_of(self._url)).encode())

    def __enter__(self) -> ObjectStagingArea:
        return self

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        if self._published:
            return
        try:
            self.discard()
        except RmqtoolError as second:
            if not isinstance(failure, RmqtoolError):
                raise
            raise SourceFailureError(
                self._url, f"{failure}; and what was written there could not be removed: {second}"
            ) from failure

    def create_file(self, relative: str, size_bytes: int | None = None) -> StagedFile:
        """Begin a file of the result; see `StagingHandle.create_file`."""
        return self.handle.create_file(relative, size_bytes)

    def publish(self) -> None:
        """Hold what is there against what was written, and write the manifest.

        Raises:
            RefusedError: Somebody else has written there meanwhile.
            SourceFailureError: An object is not there as it was written, or the store does not answer.
        """
        below = f"{self._url}/"
        written = {name.removeprefix(below): one for name, one in take_written(below).items()}
        self._writer.remove(f"{self._url}/{_AREA}/blocks")
        found = self._writer.sizes_below(self._url)
        found.pop(_OWNER, None)
        result = {name: one for name, one in sorted(written.items()) if not name.startswith(f"{_AREA}/")}
        for name, one in result.items():
            if found.pop(name, None) != one.size_bytes:
                raise SourceFailureError(
                    f"{self._url}/{name}", "is not there as it was written; run this again"
                )
        if found:
            raise RefusedError(f"{self._url}: got {next(iter(found))} while the result was made")
        files = [{"path": name, **one._asdict()} for name, one in result.items()]
        self._put(MANIFEST_NAME, (json.dumps({"schema": _SCHEMA, "files": files}, indent=1) + "\n").encode())
        self._published = True
        self._writer.remove(f"{self._url}/{_AREA}")

    def discard(self) -> None:
        """Remove all that was written.

        Raises:
            DeniedError: It may not be removed.
            SourceFailureError: The store does not answer.
        """
        take_written(f"{self._url}/")
        self._writer.remove(self._url)

    def _put(self, name: str, data: bytes) -> None:
        self._writer.put(f"{self._url}/{name}", data)

    def _refuse_contents(self) -> None:
        """Refuse an output that has contents; remove those of a run that died on this machine."""
        found = self._writer.sizes_below(self._url)
        if not found:
            return
        if _OWNER not in found or MANIFEST_NAME in found:
            raise RefusedError(f"{self._url}: exists and is not empty; choose another output or remove it")
        owner = _owner(self._writer.text(f"{self._url}/{_OWNER}"))
        if is_owner_alive(owner):
            who = f"process {owner.get('pid')} on {owner.get('host')}"
            raise RefusedError(
                f"{self._url}: {who} is at work on this output, or was killed and left {len(found)} objects"
                f" without {MANIFEST_NAME}; wait, or remove them, or choose another output"
            )
        self._writer.remove(self._url)


def _owner(text: bytes) -> Mapping[str, object]:
    try:
        owner = json.loads(text)
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _refuse_evidence(out: Location, evidence: Iterable[Location]) -> None:
    for place in evidence:
        if out.is_relative_to(place):
            raise RefusedError(f"{out}: lies inside the evidence {place}; nothing is written there")
        if place.is_relative_to(out):
            raise RefusedError(f"{out}: the evidence {place} lies inside of it; choose another output")
