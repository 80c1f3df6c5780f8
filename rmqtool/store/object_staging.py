"""Results in object storage: objects that tasks write, and a manifest that is written last."""

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
from rmqtool.io.object_store import ObjectWriter, WrittenObject
from rmqtool.io.objects import ObjectFiles
from rmqtool.io.source import split_url
from rmqtool.store.lock import is_owner_alive, owner_of
from rmqtool.store.segments import StoreFile
from rmqtool.store.staging import StagedFile, StagingHandle, checked_relative

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
            return {name: written for name, written in self._written.items() if name.startswith(below)}

    def take(self, below: str = "") -> Written:
        with self._changing:
            taken = {name: written for name, written in self._written.items() if name.startswith(below)}
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
    return ObjectFiles(top)


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
        return Location(ObjectFiles(split_url(self.url)[0]), self.url)

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

    def digests(self, files: Sequence[StoreFile], run: Hashing) -> dict[StoreFile, str]:
        """Return the SHA-256 with which files were sent, see `StagingHandle.digests`; nothing is read."""
        sent = _NOTES.of(f"{self.url}/")
        return {file: sent[str(file.path)].sha256 for file in files}

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


MANIFEST_NAME, MANIFEST_SCHEMA = "manifest.json", "rmqtool.manifest/1"
_RUN_SCHEMA = "rmqtool.run/1"


class ObjectStagingArea:
    """Staging area whose result lies in object storage; a context manager, as in `rmqtool.store.staging`.

    Files are made in ``here`` before they are sent; the caller removes it. With ``elsewhere``, tasks run on
    machines that do not see it. Until the object ``report`` of the result is written, its name holds a note
    of machine and process: to delete a note would leave an empty object ``out/`` on S3.

    Raises:
        UsageError: ``out`` is a whole bucket.
        RefusedError: It is not empty, it lies inside the evidence or around it, or another run is at work.
        DeniedError: It may not be listed or written.
        SourceFailureError: The store does not answer.
    """

    def __init__(
        self, out: Location, evidence: Iterable[Location], here: Path, report: str, *, elsewhere: bool
    ) -> None:
        if out.text == split_url(out.text)[0]:
            raise UsageError(f"{out}: give a path in it, as in {out}/rebuilt")
        self.out = out
        self._url, self._writer = out.text, writer_of(out.text)
        _refuse_evidence(out, evidence)
        self._report = report
        self._refuse_contents()
        self.handle = ObjectHandle(here, self._url, elsewhere)
        self._published = False
        self._put(report, json.dumps({"schema": _RUN_SCHEMA, **owner_of(self._url)}).encode())

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
                self._url, f"{failure}; and the written objects could not be removed: {second}"
            ) from failure

    def create_file(self, relative: str, size_bytes: int | None = None) -> StagedFile:
        """Begin a file of the result; see `StagingHandle.create_file`."""
        return self.handle.create_file(relative, size_bytes)

    def publish(self) -> None:
        """Compare the objects with what was written, and write the manifest.

        Raises `RefusedError` if somebody else has written there meanwhile; `SourceFailureError` if an object
        is missing or has changed, or the store does not answer.
        """
        below = f"{self._url}/"
        written = {name.removeprefix(below): facts for name, facts in take_written(below).items()}
        self._writer.remove(f"{self._url}/{AREA}")
        sizes = self._writer.sizes_below(self._url)
        result = {name: facts for name, facts in sorted(written.items()) if not name.startswith(f"{AREA}/")}
        for name, facts in result.items():
            if sizes.pop(name, None) != facts.size_bytes:
                raise SourceFailureError(
                    f"{self._url}/{name}", "is missing or has changed since it was written; run this again"
                )
        if sizes:
            raise RefusedError(f"{self._url}: got {next(iter(sizes))} while the result was made")
        files = [{"path": name, **facts._asdict()} for name, facts in result.items()]
        manifest = {"schema": MANIFEST_SCHEMA, "files": files}
        self._put(MANIFEST_NAME, (json.dumps(manifest, indent=1) + "\n").encode())
        self._published = True

    def discard(self) -> None:
        """Remove everything that was written."""
        take_written(f"{self._url}/")
        self._writer.remove(self._url)

    def _put(self, name: str, data: bytes) -> None:
        self._writer.put(f"{self._url}/{name}", data)

    def _refuse_contents(self) -> None:
        sizes = self._writer.sizes_below(self._url)
        if not sizes:
            return
        note = self._report in sizes and MANIFEST_NAME not in sizes
        owner = _owner(self._writer.text(f"{self._url}/{self._report}")) if note else {}
        if owner.get("schema") != _RUN_SCHEMA:
            raise RefusedError(f"{self._url}: exists and is not empty; choose another output or remove it")
        if is_owner_alive(owner):
            who = f"process {owner.get('pid')} on {owner.get('host')}"
            raise RefusedError(
                f"{self._url}: {who} is writing this output, or was killed and left {len(sizes)} objects"
                f" without {MANIFEST_NAME}; wait, or remove them, or choose another output"
            )
        self._writer.remove(self._url)


def _owner(text: bytes) -> Mapping[str, object]:
    try:
        owner = json.loads(text)
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def refuse_below(out: Location, evidence: Location) -> None:
    """Refuse an output in object storage inside the evidence; see `rmqtool.store.staging.refuse_inside`."""
    if out.is_relative_to(evidence):
        raise RefusedError(f"{out}: lies inside the evidence {evidence}; nothing is written there")


def _refuse_evidence(out: Location, evidence: Iterable[Location]) -> None:
    for place in evidence:
        refuse_below(out, place)
        if place.is_relative_to(out):
            raise RefusedError(f"{out}: the evidence {place} lies inside of it; choose another output")
