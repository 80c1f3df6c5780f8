"""Lists of all files of a store, or below any other place, for digests of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from posixpath import relpath
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, FindingLog
from rmqtool.findings.places import IO_DENIED
from rmqtool.io import FileKind
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from rmqtool.io import Location
    from rmqtool.io.source import Status
    from rmqtool.store import Store


@dataclass(frozen=True, slots=True)
class ListedFile:
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
    files = files_below(_tops(store), store.base, findings)
    return [file for file in files if file.label != "lock"]


def files_below(tops: Iterable[Location], base: Location, findings: FindingLog) -> list[ListedFile]:
    """List the regular files below some places, by label relative to ``base``; each directory once.

    A missing place adds nothing; what may not be listed becomes a finding.
    """
    files: dict[Location, ListedFile] = {}
    seen: set[Hashable] = set()
    for path, status in chain.from_iterable(_walk(top, base, seen, findings) for top in tops):
        if status.kind is FileKind.FILE:
            listed = ListedFile(path, label_in(path, base), status.size_bytes, status.modified_ns)
            files.setdefault(path, listed)
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
            findings.add(Finding(code=IO_DENIED, file=label, message=sentence))
        elif status.kind is FileKind.DIRECTORY and place not in seen:
            seen.add(place)
            try:
                left += [(path / name, found) for name, found in path.entries()]
            except EnvironmentFailureError as failure:
                findings.add(Finding(code=IO_DENIED, file=label, message=str(failure)))


def label_in(path: Location, base: Location) -> str:
    """Return a path relative to the store, with ``..`` in it if it lies elsewhere."""
    return relpath(path.text, base.text)
