"""Tasks for other machines, each with proofs of the files that it reads.

A task of a cluster is a pickle in which placeholders stand for the files of this machine, and the proofs of
the files that it names. The executor puts its own files there (`PlannedFiles`), which compare themselves with
the proofs before a byte is used: a task that reads another file, or none, must not report on the store. Under
one kernel, device and inode decide. Between machines neither number means anything, so size, time of change
and first page must be equal; a copy that keeps those, as a mirror on a local disk, is accepted.

Spark in this machine's own processes does without, unless the files are objects: every task opens those
itself, and receives the version of each object.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.errors import (
    EnvironmentFailureError,
    ExecutorCannotReachError,
    FileNotSharedError,
    SourceUnreachableError,
)
from rmqtool.io import Location, Source
from rmqtool.io.local import Descriptor, LocalFiles
from rmqtool.io.object_store import Version
from rmqtool.io.objects import ObjectFiles
from rmqtool.io.source import FileKind, Status
from rmqtool.store.object_staging import ObjectHandle, Written, add_written, take_written
from rmqtool.store.staging import StagingHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


FIRST_PAGE = 4096
"""Bytes at a file's start that are compared: a log's first record, or what fits of it."""

NEXT_STEP = (
    "every executor must see it under this name and with the same bytes, as on a shared file system; or use"
    " --engine local"
)

_VARIABLES = {
    "s3": "AWS_ENDPOINT_URL",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "abfss": "AZURE_CLIENT_ID",
    "hdfs": "CLASSPATH",
}
"""Variables that name a service or its user, by the scheme of its URLs; none is a secret."""


class FileProof(NamedTuple):
    """Identity of a file.

    ``kernel`` counted device and inode, empty where it has no name. ``size_bytes`` and ``modified_us``
    (microseconds since 1970, which every network file system keeps) are None where they may change.
    ``first_page`` is a digest, None where the disk cannot deliver it.
    """

    kernel: str
    device: int
    inode: int
    size_bytes: int | None
    modified_us: int | None
    first_page: bytes | None

    def loosened(self) -> FileProof:
        """Return the part that stays the same while the file is written."""
        return self._replace(size_bytes=None, modified_us=None)


def proof_of(path: str) -> FileProof | None:
    """Return the proof of a file as this machine sees it; None if it cannot be opened."""
    try:
        descriptor = LocalFiles().open(path)
    except EnvironmentFailureError:
        return None
    return _open_proof(descriptor)._replace(first_page=_first_page(descriptor))


def difference(planned: FileProof, descriptor: Descriptor) -> str:
    """Return by what an open file differs from the planned one; empty if it does not."""
    proof = _open_proof(descriptor)
    if planned.kernel and planned[:2] == proof[:2]:
        return "" if planned.inode == proof.inode else "it is another file"
    if planned.size_bytes not in {None, proof.size_bytes}:
        return f"it has {proof.size_bytes} bytes there, not {planned.size_bytes}"
    if planned.modified_us not in {None, proof.modified_us}:
        return "it was changed at another time"
    if planned.first_page not in {None, _first_page(descriptor)}:
        return "it begins with other bytes"
    return ""


def _open_proof(descriptor: Descriptor) -> FileProof:
    status = os.fstat(descriptor.number)
    place = _kernel(), status.st_dev, status.st_ino
    return FileProof(*place, status.st_size, status.st_mtime_ns // 1000, None)


def _first_page(descriptor: Descriptor) -> bytes | None:
    page = bytearray(FIRST_PAGE)
    with suppress(OSError):  # the reader of that part reports it
        length = descriptor.read_into(0, memoryview(page))
        return hashlib.sha256(page[:length]).digest()
    return None


@cache
def _kernel() -> str:
    """Return the identity of the running kernel, containers or not; empty where it has none."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as name:  # noqa: PTH123
        return name.read().strip()
    return ""


@dataclass(frozen=True, slots=True)
class PlannedFiles(LocalFiles):
    """File systems of a machine that runs a task for another, see `rmqtool.io.source.Source`.

    Results name files of the machine that planned the task: pickled, this is `LocalFiles`. ``proofs`` are of
    the planned files, by name; other files are as in `LocalFiles`.
    """

    proofs: Mapping[str, FileProof]

    def __hash__(self) -> int:
        return hash(PlannedFiles)

    def __reduce__(self) -> tuple[Callable[[], LocalFiles], tuple[()]]:
        return LocalFiles, ()

    def status(self, path: str) -> Status | None:
        """Return the status of a name; `FileNotSharedError` if a planned file cannot be examined."""
        status = LocalFiles.status(self, path)
        if path in self.proofs and (status is None or status.kind in {FileKind.LOST, FileKind.HIDDEN}):
            raise unseen(path, "it does not exist" if status is None else status.reason)
        return status

    def open(self, path: str) -> Descriptor:
        """Open a regular file; `FileNotSharedError` if a planned one is missing or another here."""
        planned = self.proofs.get(path)
        if planned is None:
            return LocalFiles.open(self, path)
        try:
            descriptor = LocalFiles.open(self, path)
        except EnvironmentFailureError as failure:
            raise unseen(path, str(failure).removeprefix(f"{path}: ")) from failure
        if reason := difference(planned, descriptor):
            host = socket.gethostname()
            raise FileNotSharedError(
                path, f"executor {host} sees another {path} than this command does ({reason}): {NEXT_STEP}"
            )
        return descriptor


def unseen(path: str, reason: str) -> FileNotSharedError:
    """Return the error of an executor that does not see a file or a directory."""
    return FileNotSharedError(
        path, f"executor {socket.gethostname()} does not see {path} ({reason}): {NEXT_STEP}"
    )


def unreached(failure: SourceUnreachableError) -> ExecutorCannotReachError:
    """Return the error of an executor that cannot reach an object store."""
    scheme, _, rest = failure.path.partition("://")
    service = f"{scheme}://{rest.partition('/')[0]}"
    return ExecutorCannotReachError(
        service,
        f"executor {socket.gethostname()} cannot reach {service} ({failure.cause}): it needs a route to "
        "it, and endpoint and credentials from the environment of executors, as by --spark-conf "
        f"spark.executorEnv.{_VARIABLES[scheme]}=…: rmqtool help objects",
    )


_FILES = "files"
"""Placeholder of this machine's files; a URL's beginning is that of an object store's."""

_Proof = FileProof | Version
_THREADS = 16
"""Threads that prove files: on a network file system each takes a round trip or two."""


class PlannedTask(NamedTuple):
    """The pickle of a function's argument, with proofs of its files and versions of its objects by name.

    ``areas`` are staging areas that it writes into.
    """

    item: bytes
    proofs: dict[str, FileProof]
    areas: tuple[str, ...]
    versions: dict[str, Version]

    def unpacked(self) -> Any:  # noqa: ANN401 - whatever was packed
        """Return the argument, whose sources compare files; `FileNotSharedError` without an area."""
        for area in self.areas:
            if not Path(area).is_dir():
                raise unseen(area, "no such directory")
        return _Unpacker(self).load()


class PlannedResult(NamedTuple):
    """Result of a task, with its effects."""

    value: Any
    written: Written


def run_planned(
    function: Callable[[Any], Any], task: PlannedTask, *, elsewhere: bool = True
) -> PlannedResult:
    """Run a function on an executor; ``elsewhere`` if that may be another machine or environment."""
    try:
        return PlannedResult(function(task.unpacked()), take_written())
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

    def tasks(self, items: Sequence[Any]) -> list[PlannedTask]:
        """Pack items; files that could be opened are proven."""
        packed = [_Packer(item) for item in items]
        sources = {name: source for packer in packed for name, source in packer.names.items()}
        new = sources.keys() - self._proofs.keys()
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="rmqtool-plan") as threads:
            versions = threads.map(_proof, new, (sources[name] for name in new))
            self._proofs.update(zip(new, versions, strict=True))
        return list(map(self._planned, packed))

    def values(self, results: Iterable[PlannedResult]) -> list[Any]:
        """Return what functions returned, and note written objects."""
        done = list(results)
        for result in done:
            add_written(result.written)
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

    def _planned(self, packer: _Packer) -> PlannedTask:
        known = [(name, self._proofs[name]) for name in packer.names]
        proofs = {name: proof for name, proof in known if isinstance(proof, FileProof)}
        versions = {name: proof for name, proof in known if isinstance(proof, Version)}
        return PlannedTask(packer.item, proofs, tuple(packer.areas), versions)


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
        return ObjectFiles(pid, task.versions)


def _proof(name: str, source: Source) -> _Proof | None:
    return source.version(name) if isinstance(source, ObjectFiles) else proof_of(name)


def names_objects(items: Sequence[object]) -> bool:
    """Return whether items name objects to read or to write, by the first: those of one map are alike."""
    if not items:
        return False
    packed = _Packer(items[0])
    return packed.sends or any(isinstance(name, ObjectFiles) for name in packed.names.values())
