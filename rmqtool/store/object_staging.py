"""Results in object storage: whole objects, and a manifest that is written last.

While a run is at work, ``OUT`` holds::

    .rmqtool/run.json    the run's process
    .rmqtool/blocks/     scratch of the pipeline, where tasks share no file system
    …                    files of the result, each whole, as tasks finish them

Objects cannot be renamed, so a result is complete when ``manifest.json`` exists: it has the size and the
SHA-256 of every file, and is written after all of them were found with their sizes. A failed run removes
what it wrote; a killed one leaves ``run.json``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rmqtool.errors import RefusedError, RmqtoolError, SourceFailureError, UsageError
from rmqtool.io.object_urls import split_url
from rmqtool.store.object_handle import AREA, ObjectHandle, take_written, writer_of
from rmqtool.store.owners import is_owner_alive, owner_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from rmqtool.io import Location
    from rmqtool.store.staged_file import StagedFile

MANIFEST_NAME, MANIFEST_SCHEMA = "manifest.json", "rmqtool.manifest/1"
_OWNER = f"{AREA}/run.json"


class ObjectStagingArea:
    """Staging area whose result lies in object storage; a context manager, as in `rmqtool.store.staging`.

    Files are made in ``here`` before they are sent; the caller removes it. With ``elsewhere``, tasks run on
    machines that do not see it.

    Raises:
        UsageError: ``out`` is a whole bucket.
        RefusedError: It is not empty, it lies inside the evidence or around it, or another run is at work.
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
        written = {name.removeprefix(below): one for name, one in take_written(below).items()}
        self._writer.remove(f"{self._url}/{AREA}/blocks")
        found = self._writer.sizes_below(self._url)
        found.pop(_OWNER, None)
        result = {name: one for name, one in sorted(written.items()) if not name.startswith(f"{AREA}/")}
        for name, one in result.items():
            if found.pop(name, None) != one.size_bytes:
                raise SourceFailureError(
                    f"{self._url}/{name}", "is missing or has changed since it was written; run this again"
                )
        if found:
            raise RefusedError(f"{self._url}: got {next(iter(found))} while the result was made")
        files = [{"path": name, **one._asdict()} for name, one in result.items()]
        manifest = {"schema": MANIFEST_SCHEMA, "files": files}
        self._put(MANIFEST_NAME, (json.dumps(manifest, indent=1) + "\n").encode())
        self._published = True
        self._writer.remove(f"{self._url}/{AREA}")

    def discard(self) -> None:
        """Remove everything that was written."""
        take_written(f"{self._url}/")
        self._writer.remove(self._url)

    def _put(self, name: str, data: bytes) -> None:
        self._writer.put(f"{self._url}/{name}", data)

    def _refuse_contents(self) -> None:
        found = self._writer.sizes_below(self._url)
        if not found:
            return
        if _OWNER not in found or MANIFEST_NAME in found:
            raise RefusedError(f"{self._url}: exists and is not empty; choose another output or remove it")
        owner = _owner(self._writer.text(f"{self._url}/{_OWNER}"))
        if is_owner_alive(owner):
            who = f"process {owner.get('pid')} on {owner.get('host')}"
            raise RefusedError(
                f"{self._url}: {who} is writing this output, or was killed and left {len(found)} objects"
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
