"""The files of a store, for its manifest."""

from __future__ import annotations

import os
from dataclasses import dataclass
from posixpath import relpath
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding
from rmqtool.findings.places import IO_DENIED
from rmqtool.io import Kind
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from rmqtool.findings import FindingLog
    from rmqtool.io import Location
    from rmqtool.store import Store


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One regular file.

    Attributes:
        path: where it is.
        label: its path relative to the store.
        size_bytes: its size when it was listed.
    """

    path: Location
    label: str
    size_bytes: int


def store_files(store: Store, findings: FindingLog) -> list[ManifestFile]:
    """List the regular files of what PATH names, by label.

    Links are followed, each directory once. The file ``lock`` is left out: it is empty, and opening it could
    drop a lock. What is no regular file is left to the checks of level 0.

    Args:
        store: the store, or a part of it.
        findings: receives directories that may not be listed.
    """
    files: dict[Location, ManifestFile] = {}
    seen: set[Hashable] = set()
    for top in _tops(store):
        for file in _walk(top, store.base, seen, findings):
            if file.label != "lock":
                files.setdefault(file.path, file)
    return sorted(files.values(), key=lambda file: os.fsencode(file.label))


def _tops(store: Store) -> list[Location]:
    """Return PATH and, for a store, the directories of its log that lie elsewhere."""
    if store.kind is not PathKind.STORE:
        return [store.place.path]
    elsewhere = (path for root in store.roots.values() for path in root.paths)
    return [store.base, *(path for path in elsewhere if not path.is_relative_to(store.base))]


def _walk(top: Location, base: Location, seen: set[Hashable], findings: FindingLog) -> Iterator[ManifestFile]:
    """Yield the regular files from ``top`` down; a stack, because hostile trees are deep."""
    left = [(top, top.status())]
    while left:
        path, status = left.pop()
        if status is None or status.kind is Kind.LOST:
            continue  # gone meanwhile, or a link that leads nowhere, which level 0 reports
        label = label_in(path, base)
        place = path.text if status.identity is None else status.identity
        if status.kind is Kind.FILE:
            yield ManifestFile(path, label, status.size_bytes)
        elif status.kind is Kind.HIDDEN:
            sentence = f"{label}: cannot be examined: {status.reason}"
            findings.add(Finding(code=IO_DENIED, file=label, message=sentence))
        elif status.kind is Kind.DIRECTORY and place not in seen:
            seen.add(place)
            try:
                left += [(path / name, found) for name, found in path.entries()]
            except EnvironmentFailureError as failure:
                findings.add(Finding(code=IO_DENIED, file=label, message=str(failure)))


def label_in(path: Location, base: Location) -> str:
    """Return a path relative to the store; of one that lies elsewhere, with ``..`` in it."""
    return relpath(path.text, base.text)
