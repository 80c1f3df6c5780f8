"""The files of a store, for its manifest."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.findings import Finding
from rmqtool.findings.places import IO_DENIED
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.findings import FindingLog
    from rmqtool.store import Store


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One regular file.

    Attributes:
        path: where it is.
        label: its path relative to the store.
        size_bytes: its size when it was listed.
    """

    path: Path
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
    files: dict[Path, ManifestFile] = {}
    seen: set[tuple[int, int]] = set()
    for top in _tops(store):
        for file in _walk(top, store.base, seen, findings):
            if file.label != "lock":
                files.setdefault(file.path, file)
    return sorted(files.values(), key=lambda file: os.fsencode(file.label))


def _tops(store: Store) -> list[Path]:
    """Return PATH and, for a store, the directories of its log that lie elsewhere."""
    if store.kind is not PathKind.STORE:
        return [store.place.path]
    elsewhere = (path for root in store.roots.values() for path in root.paths)
    return [store.base, *(path for path in elsewhere if not path.is_relative_to(store.base))]


def _walk(top: Path, base: Path, seen: set[tuple[int, int]], findings: FindingLog) -> Iterator[ManifestFile]:
    """Yield the regular files from ``top`` down; a stack, because hostile trees are deep."""
    left = [top]
    while left:
        path = left.pop()
        label = label_in(path, base)
        try:
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                yield ManifestFile(path, label, status.st_size)
            place = (status.st_dev, status.st_ino)
            if stat.S_ISDIR(status.st_mode) and place not in seen:
                seen.add(place)
                left += path.iterdir()
        except FileNotFoundError:
            continue  # gone meanwhile, or a link that leads nowhere, which level 0 reports
        except OSError as failure:
            sentence = f"{label}: cannot be listed: {failure.strerror}"
            findings.add(Finding(code=IO_DENIED, file=label, message=sentence))


def label_in(path: Path, base: Path) -> str:
    """Return a path relative to the store; of one that lies elsewhere, with ``..`` in it."""
    return os.path.relpath(path, base)
