"""Tasks for other machines, each with proofs of the files that it reads.

A task of a cluster is a pickle in which placeholders stand for the files of this machine, and the proofs of
the files that it names (`rmqtool.io.planned`). The executor puts its own files there and compares them with
the proofs. Spark in this machine's own processes does without, unless the files are objects: every task opens
those itself, and receives the version of each object.
"""

from __future__ import annotations

import io
import pickle
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.errors import EnvironmentFailureError, SourceUnreachableError
from rmqtool.io import LocalFiles, Location, Source
from rmqtool.io.object_store import Version
from rmqtool.io.objects import ObjectFiles
from rmqtool.io.planned import FileProof, PlannedFiles, proof_of, unreached, unseen
from rmqtool.store.object_staging import ObjectHandle, Written, add_written, take_written
from rmqtool.store.staging import StagingHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rmqtool.io.object_pieces import ZeroTail

_FILES = "files"
"""Placeholder of this machine's files; a URL's beginning is that of an object store's."""

_Proof = FileProof | Version
_THREADS = 16
"""Threads that prove files: on a network file system each takes a round trip or two."""


class PlannedTask(NamedTuple):
    """The pickle of a function's argument, with proofs of its files and versions of its objects by name.

    ``areas`` are staging areas that it writes into; ``samples`` says whether ends of objects may be taken for
    zeros.
    """

    item: bytes
    proofs: dict[str, FileProof]
    areas: tuple[str, ...]
    versions: dict[str, Version]
    samples: bool = True

    def unpacked(self) -> tuple[Any, Iterable[Source]]:
        """Return the argument and its source, which compares files; `FileNotSharedError` without an area."""
        for area in self.areas:
            if not Path(area).is_dir():
                raise unseen(area, "no such directory")
        unpacker = _Unpacker(self)
        return unpacker.load(), unpacker.sources.values()


class PlannedResult(NamedTuple):
    """Result of a task, with its effects."""

    value: Any
    tails: tuple[ZeroTail, ...]
    written: Written


def run_planned(
    function: Callable[[Any], Any], task: PlannedTask, *, elsewhere: bool = True
) -> PlannedResult:
    """Run a function on an executor; ``elsewhere`` if that may be another machine or environment.

    Raises:
        FileNotSharedError: This machine does not see a file of the task.
        ExecutorCannotReachError: It cannot reach an object store, and may be another than the command's.
        EnvironmentFailureError: As of the function, with the machine's name.
    """
    try:
        item, sources = task.unpacked()
        value = function(item)
        return PlannedResult(value, tuple(tail for one in sources for tail in one.tails()), take_written())
    except EnvironmentFailureError as failure:
        raise EnvironmentFailureError(f"executor {socket.gethostname()}: {failure}") from failure
    except SourceUnreachableError as failure:
        if not elsewhere:
            raise
        raise unreached(failure) from failure


class TaskPacker:
    """Packer of one map's items, for each run of the map."""

    def __init__(self) -> None:
        self._proofs: dict[str, _Proof | None] = {}
        self._moving: set[str] = set()
        self._objects: list[ObjectFiles] = []

    def tasks(self, items: Sequence[Any]) -> list[PlannedTask]:
        """Pack items; files that could be opened are proven."""
        packed = [_Packer(item) for item in items]
        sources = {name: source for one in packed for name, source in one.names.items()}
        self._objects = [one for one in _distinct(sources.values()) if isinstance(one, ObjectFiles)]
        new = sources.keys() - self._proofs.keys()
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="rmqtool-plan") as threads:
            found = threads.map(_proof, new, (sources[name] for name in new))
            self._proofs.update(zip(new, found, strict=True))
        return list(map(self._planned, packed))

    def values(self, results: Iterable[PlannedResult]) -> list[Any]:
        """Return what functions returned, and note written objects and unfetched ends."""
        done = list(results)
        for one in done:
            add_written(one.written)
        tails = {tail for one in done for tail in one.tails}
        for source in self._objects:
            source.add_tails(tail for tail in tails if tail.path.startswith(f"{source.top}/"))
        return [one.value for one in done]

    def is_outdated(self, path: str) -> bool:
        """Return whether a file has changed here, too, and note that: a broker writes, or retention deletes.

        Always False for an object: no broker writes those.
        """
        before = self._proofs.get(path)
        if isinstance(before, Version) or path in self._moving:
            return False
        now = proof_of(path)
        if before == now:
            return False
        self._moving.add(path)
        self._proofs[path] = None if now is None else now.loosened()
        return True

    def _planned(self, one: _Packer) -> PlannedTask:
        known = [(name, self._proofs[name]) for name in one.names]
        proofs = {name: proof for name, proof in known if isinstance(proof, FileProof)}
        versions = {name: proof for name, proof in known if isinstance(proof, Version)}
        return PlannedTask(
            one.item, proofs, tuple(one.areas), versions, all(one.samples for one in self._objects)
        )


class _Packer(pickle.Pickler):
    """Pickle of an item that leaves this machine's files out, and their names."""

    def __init__(self, item: object) -> None:
        stream = io.BytesIO()
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self.names: dict[str, Source] = {}
        self.areas: dict[str, None] = {}
        self.sends = False
        self.dump(item)
        self.item = stream.getvalue()

    def persistent_id(self, item: object) -> str | None:
        """Return a placeholder for files of this machine; everything else is pickled as usual."""
        if isinstance(item, LocalFiles):
            return _FILES
        if isinstance(item, ObjectFiles):
            return item.top
        if isinstance(item, Location):
            self.names[item.text] = item.source
        elif isinstance(item, ObjectHandle):
            self.sends = True
        elif isinstance(item, StagingHandle):
            self.areas[str(item.blocks)] = None
        return None


class _Unpacker(pickle.Unpickler):
    """Unpickler that puts an executor's files in place of the placeholders."""

    def __init__(self, task: PlannedTask) -> None:
        super().__init__(io.BytesIO(task.item))
        self._task = task
        self.sources: dict[str, Source] = {}

    def persistent_load(self, pid: str) -> Source:
        """Return the files for a placeholder: one source for all of them."""
        if pid not in self.sources:
            self.sources[pid] = self._source(pid)
        return self.sources[pid]

    def _source(self, pid: str) -> Source:
        task = self._task
        if pid == _FILES:
            return PlannedFiles(task.proofs)
        return ObjectFiles(pid, task.versions, samples=task.samples)


def _distinct(sources: Iterable[Source]) -> Iterable[Source]:
    """Return sources, each once; equal ones may be two."""
    return {id(one): one for one in sources}.values()


def _proof(name: str, source: Source) -> _Proof | None:
    return source.version(name) if isinstance(source, ObjectFiles) else proof_of(name)


def names_objects(items: Sequence[object]) -> bool:
    """Return whether items name objects to read or to write, by the first: those of one map are alike."""
    if not items:
        return False
    packed = _Packer(items[0])
    return packed.sends or any(isinstance(one, ObjectFiles) for one in packed.names.values())
