"""Links that lead out of a store: they are followed, as a broker does, and that is worth knowing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.store.listing import label_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.root import Store


def links_out(store: Store) -> Iterator[tuple[str, Path]]:
    """Yield links of a store and the places outside of it to which they lead, each with its label.

    Looked at are the parts of the store, files of log and index, and the directories of topics; the queues
    of a topic are not.

    Raises:
        EnvironmentFailureError: A directory may not be read.
    """
    base = _real(store.base)
    for path in _looked_at(store):
        if path.is_symlink() and not (target := _real(path)).is_relative_to(base):
            yield label_of(path, store.base), target


def _looked_at(store: Store) -> Iterator[Path]:
    parts = [path for root in store.roots.values() for path in root.paths]
    yield from dict.fromkeys(parts)
    yield from (file.path for file in (*store.commitlog, *store.index_files))
    for part in parts:
        if part.is_dir() and part.name not in {"commitlog", "index"}:
            yield from _links_in(part)


def _links_in(directory: Path) -> Iterator[Path]:
    try:
        with os.scandir(directory) as listing:
            found = sorted(entry.path for entry in listing if entry.is_symlink())
    except OSError:
        return  # who lists it for its contents says so
    yield from map(Path, found)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
