"""SHA-256 of files, several at a time, and the obstacles to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rmqtool.engine import LocalEngine
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding
from rmqtool.findings.places import IO_CHANGED, IO_DENIED, IO_UNREADABLE
from rmqtool.io import sha256_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.check.store_files import ListedFile
    from rmqtool.io import UnreadableRange
    from rmqtool.progress import Progress


@dataclass(frozen=True, slots=True)
class Hashed:
    """A file's digest in hex, or None with the findings that explain why."""

    digest: str | None
    findings: tuple[Finding, ...] = ()


def hash_all(
    files: Sequence[ListedFile], jobs: int | None, progress: Progress, stage: str = "manifest"
) -> list[Hashed]:
    """Hash files in threads, as hashing releases the GIL; ``jobs`` None is one for each CPU."""
    progress.stage(stage, sum(file.size_bytes for file in files))
    done = _Done(progress)
    with LocalEngine(jobs) as engine:
        return engine.map(partial(_hash, done=done), files, progress=lambda _: done.show())


class _Done:
    """Bytes hashed so far; threads add to it, the main thread shows it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._sizes: list[int] = []

    def add(self, size_bytes: int) -> None:
        self._sizes.append(size_bytes)

    def show(self) -> None:
        self._progress.advance(sum(self._sizes))


def _hash(file: ListedFile, done: _Done) -> Hashed:
    unreadable: list[UnreadableRange] = []
    try:
        with file.path.reader() as source:
            digest, size_bytes = sha256_of(source, file.size_bytes + 1, unreadable)
    except EnvironmentFailureError as failure:
        return Hashed(None, (Finding(code=IO_DENIED, file=file.label, message=str(failure)),))
    done.add(file.size_bytes)
    if unreadable:
        return Hashed(None, tuple(_unreadable(file, bad) for bad in unreadable))
    changed = () if size_bytes == file.size_bytes else (_changed(file, size_bytes),)
    return Hashed(digest, changed)


def _unreadable(file: ListedFile, bad: UnreadableRange) -> Finding:
    return Finding(
        code=IO_UNREADABLE,
        file=file.label,
        position=bad.position,
        length=bad.length,
        message=f"{file.label}: {bad.length} bytes at position {bad.position} cannot be read; no SHA-256",
    )


def _changed(file: ListedFile, size_bytes: int) -> Finding:
    return Finding(
        code=IO_CHANGED,
        file=file.label,
        expected=file.size_bytes,
        observed=size_bytes,
        message=f"{file.label}: its size changed while it was hashed",
    )
