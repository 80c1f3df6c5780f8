"""SHA-256 of the files of a store, several at a time, and the format of ``sha256sum``."""

from __future__ import annotations

import re
from functools import partial
from itertools import chain
from posixpath import relpath
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.engine import LocalEngine
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, FindingLog, codes
from rmqtool.io import FileKind, Location, UnreadableRange, sha256_of
from rmqtool.store import PathKind, Store

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from rmqtool.io.source import Status
    from rmqtool.progress import Progress


class Hashed(NamedTuple):
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
        return Hashed(None, (Finding(code=codes.IO_DENIED, file=file.label, message=str(failure)),))
    done.add(file.size_bytes)
    if unreadable:
        return Hashed(None, tuple(_unreadable(file, bad) for bad in unreadable))
    changed = () if size_bytes == file.size_bytes else (_changed(file, size_bytes),)
    return Hashed(digest, changed)


def _unreadable(file: ListedFile, bad: UnreadableRange) -> Finding:
    return Finding(
        code=codes.IO_UNREADABLE,
        file=file.label,
        position=bad.position,
        length=bad.length,
        message=f"{file.label}: {bad.length} bytes at position {bad.position} cannot be read; no SHA-256",
    )


def _changed(file: ListedFile, size_bytes: int) -> Finding:
    return Finding(
        code=codes.IO_CHANGED,
        file=file.label,
        expected=file.size_bytes,
        observed=size_bytes,
        message=f"{file.label}: its size changed while it was hashed",
    )


class ListedFile(NamedTuple):
    """One regular file as it was listed; ``modified_ns`` is nanoseconds since 1970."""

    path: Location
    label: str
    size_bytes: int
    modified_ns: int


def store_files(store: Store, findings: FindingLog) -> list[ListedFile]:
    """List the regular files of PATH, by label; directories that may not be listed become findings.

    Links are followed, each directory once. The file ``lock`` is left out: it is empty, and opening it could
    drop a lock. Other kinds of files are left to the checks of level 0.
    """
    files: dict[Location, ListedFile] = {}
    seen: set[Hashable] = set()
    for path, status in chain.from_iterable(_walk(top, store.base, seen, findings) for top in _tops(store)):
        label = label_in(path, store.base)
        if status.kind is FileKind.FILE and label != "lock":
            files.setdefault(path, ListedFile(path, label, status.size_bytes, status.modified_ns))
    return sorted(files.values(), key=lambda file: file.label.encode("utf-8", "surrogateescape"))


def _tops(store: Store) -> list[Location]:
    """Return PATH and, for a store, the directories of its log that lie elsewhere."""
    if store.kind is not PathKind.STORE:
        return [store.place.path]
    elsewhere = (path for root in store.roots.values() for path in root.paths)
    return [store.base, *(path for path in elsewhere if not path.is_relative_to(store.base))]


def _walk(
    top: Location, base: Location, seen: set[Hashable], findings: FindingLog
) -> Iterator[tuple[Location, Status]]:
    """Yield the present files and directories from ``top`` down; a stack, because hostile trees are deep."""
    left = [(top, top.status())]
    while left:
        path, status = left.pop()
        if status is None:
            continue  # deleted meanwhile
        yield path, status
        label = label_in(path, base)
        place = path.text if status.identity is None else status.identity
        if status.kind is FileKind.HIDDEN:
            sentence = f"{label}: cannot be examined: {status.reason}"
            findings.add(Finding(code=codes.IO_DENIED, file=label, message=sentence))
        elif status.kind is FileKind.DIRECTORY and place not in seen:
            seen.add(place)
            try:
                left += [(path / name, found) for name, found in path.entries()]
            except EnvironmentFailureError as failure:
                findings.add(Finding(code=codes.IO_DENIED, file=label, message=str(failure)))


def label_in(path: Location, base: Location) -> str:
    """Return a path relative to the store, with ``..`` in it if it lies elsewhere."""
    return relpath(path.text, base.text)


_LINE = re.compile(rb"(\\?)([0-9a-fA-F]{64}) [ *](.+)", re.DOTALL)
_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r"}
_MEANINGS = {escape: meant for meant, escape in _ESCAPES.items()}
_HARMFUL = re.compile(rb"[\\\n\r]")
_ESCAPE = re.compile(rb"\\[\\nr]")


class ManifestLine(NamedTuple):
    """One file of a manifest.

    ``name`` is the path relative to the store, as the file system has it; ``digest`` is SHA-256 in lower-case
    hexadecimal digits.
    """

    name: bytes
    digest: str

    def to_bytes(self) -> bytes:
        """Return the line as ``sha256sum`` writes it, with its line end."""
        name = _HARMFUL.sub(lambda match: _ESCAPES[match[0]], self.name)
        mark = b"\\" if name != self.name else b""
        return mark + self.digest.encode() + b"  " + name + b"\n"


def parse_line(line: bytes) -> ManifestLine | None:
    """Return a line's content (without its line end), or None if it is not a line of ``sha256sum``."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    name = match[3]
    if match[1]:
        name = _ESCAPE.sub(lambda escape: _MEANINGS[escape[0]], name)
    return ManifestLine(name.removeprefix(b"./"), match[2].decode().lower())


def manifest_lines(files: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield lines that ``sha256sum -c`` checks, by name, from names and digests.

    Bytes of names that are not UTF-8 are surrogates.
    """
    for name, digest in sorted(files):
        line = ManifestLine(name.encode("utf-8", "surrogateescape"), digest)
        yield line.to_bytes().decode("utf-8", "surrogateescape")
