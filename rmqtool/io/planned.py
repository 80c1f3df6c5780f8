"""Proofs that a file planned on one machine is the one read on another.

A task that reads another file, or none, must not report on the store: its machine is wrong. So the planner
takes a `FileProof` of every file, with which `PlannedFiles` compares it before a byte is used. Under one
kernel, device and inode decide. Between machines neither number means anything, so size, time of change and
first page must be equal; a copy that keeps those, as a mirror on a local disk, is accepted.
"""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import (
    EnvironmentFailureError,
    ExecutorCannotReachError,
    FileNotSharedError,
    SourceUnreachableError,
)
from rmqtool.io.local import Descriptor, LocalFiles
from rmqtool.io.source import FileKind, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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
    return _proof(descriptor)._replace(first_page=_first_page(descriptor))


def difference(planned: FileProof, descriptor: Descriptor) -> str:
    """Return by what an open file differs from the planned one; empty if it does not."""
    found = _proof(descriptor)
    if planned.kernel and planned[:2] == found[:2]:
        return "" if planned.inode == found.inode else "it is another file"
    if planned.size_bytes not in {None, found.size_bytes}:
        return f"it has {found.size_bytes} bytes there, not {planned.size_bytes}"
    if planned.modified_us not in {None, found.modified_us}:
        return "it was changed at another time"
    if planned.first_page not in {None, _first_page(descriptor)}:
        return "it begins with other bytes"
    return ""


def _proof(descriptor: Descriptor) -> FileProof:
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
