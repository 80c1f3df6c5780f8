"""What a PATH on the command line is: a store root, one of its directories, or one file."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.store.kinds import DIRECTORY_NAMES, QUEUE_KINDS, PathKind, kind_of_bytes
from rmqtool.store.listing import INDEX_NAME_DIGITS, digits_of
from rmqtool.store.reading import ReadOnlyFile, denied, kind_of_non_file
from rmqtool.store.segments import NAME_DIGITS

CONFIG_DIRECTORY, BACKUP = "config", ".bak"

KIND_OF_DIRECTORY = {name: kind for kind, name in DIRECTORY_NAMES.items()}


@dataclass(frozen=True, slots=True)
class Place:
    """What a PATH turned out to be.

    Attributes:
        path: The PATH, absolute, links kept.
        kind: What is there.
        is_file: Whether it is one file.
        root: The store root around it, when its place tells; the path itself for a store.
        depth: For queues: directory levels from the path down to queue directories (2 for ``consumequeue/``,
            1 for a topic, 0 for a queue or one file of it).
    """

    path: Path
    kind: PathKind
    is_file: bool
    root: Path | None
    depth: int = 0


def find_place(path: Path, kind: PathKind | None = None, *, has_log: bool = False) -> Place:
    """Find out what a PATH is, from its place and its bytes.

    Args:
        path: What the user named.
        kind: The user's ``--type``, which overrides what was found.
        has_log: Whether the user names a commit log elsewhere, so that an empty directory can be a root.

    Raises:
        EnvironmentFailureError: Nothing is there, it may not be read, or it is nothing of a store.
        UsageError: ``kind`` cannot be, as the path is a directory or a file.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve would follow links and change names
    try:
        mode = path.stat().st_mode
    except OSError as failure:
        raise EnvironmentFailureError(
            f"{path}: {failure.strerror}; give a store root or a part of one"
        ) from failure
    if stat.S_ISREG(mode):
        return _place_of_file(path, kind)
    if stat.S_ISDIR(mode):
        return _place_of_directory(path, PathKind.STORE if has_log and kind is None else kind)
    raise EnvironmentFailureError(f"{path}: is {kind_of_non_file(mode)}; give a store root or a part of one")


def is_config_name(name: str) -> bool:
    """Tell whether a file is called like one of the broker's JSON files, or the ``.bak`` of one."""
    return name.removesuffix(BACKUP).endswith(".json")


def looks_like_store(path: Path) -> bool:
    """Tell whether a directory is a store root, by the names in it."""
    if (path / "commitlog").is_dir():
        return path.name not in KIND_OF_DIRECTORY or (path / "checkpoint").is_file()
    if path.name in KIND_OF_DIRECTORY:
        return False
    derived = any((path / name).is_dir() for name in DIRECTORY_NAMES.values())
    return derived or (path / "checkpoint").is_file() or any(path.glob("dledger-*/data"))


def _place_of_file(path: Path, kind: PathKind | None) -> Place:
    if kind is PathKind.STORE:
        raise UsageError(f"{path}: is a file, not a store root")
    placed = _kind_from_ancestors(path)
    if placed is None:
        with ReadOnlyFile(path) as file:
            found = kind_of_bytes(file)
        placed = (found, None) if found else None
    if kind is not None:
        return Place(path, kind, True, placed[1] if placed and placed[0] is kind else None)
    if placed is None:
        raise EnvironmentFailureError(
            f"{path}: is no file of a store that is recognised; name its kind with --type"
        )
    return Place(path, placed[0], True, placed[1])


def _kind_from_ancestors(path: Path) -> tuple[PathKind, Path | None] | None:
    """Return the kind and store root of a file that lies where a broker puts it."""
    if path.name == "checkpoint":
        return PathKind.CHECKPOINT, path.parent
    parent = path.parent
    if is_config_name(path.name):
        return PathKind.CONFIG, _root_of_config(parent)
    if parent.name == "index" and digits_of(path.name, INDEX_NAME_DIGITS) is not None:
        return PathKind.INDEX, parent.parent
    if digits_of(path.name, NAME_DIGITS) is None:
        return None
    if parent.name == "commitlog":
        return PathKind.COMMITLOG, parent.parent
    kind = KIND_OF_DIRECTORY.get(parent.parent.parent.name)
    return (kind, parent.parents[2]) if kind in QUEUE_KINDS and parent.name.isdecimal() else None


def _root_of_config(directory: Path) -> Path | None:
    is_inside = directory.name == CONFIG_DIRECTORY and looks_like_store(directory.parent)
    return directory.parent if is_inside else None


def _place_of_directory(path: Path, kind: PathKind | None) -> Place:
    is_config = kind is None and path.name == CONFIG_DIRECTORY and any(path.glob("*.json*"))
    if is_config or kind is PathKind.CONFIG:
        return Place(path, PathKind.CONFIG, False, _root_of_config(path))
    if kind is PathKind.CHECKPOINT:
        raise UsageError(f"{path}: is a directory, a checkpoint is a file")
    if kind is PathKind.STORE or (kind is None and looks_like_store(path)):
        return Place(path, PathKind.STORE, False, path)
    for depth, ancestor in ((2, path), (1, path.parent), (0, path.parent.parent)):
        named = KIND_OF_DIRECTORY.get(ancestor.name)
        if (
            named is None
            or (depth < 2 and named not in QUEUE_KINDS)
            or (kind is not None and named is not kind)
        ):
            continue
        return Place(path, named, False, ancestor.parent, depth if named in QUEUE_KINDS else 0)
    found = kind or _kind_from_contents(path)
    if found is None:
        raise EnvironmentFailureError(
            f"{path}: is no store (no commitlog/ in it) and no part of one; a part elsewhere needs --type"
        )
    return Place(path, found, False, None, _queue_depth(path) if found in QUEUE_KINDS else 0)


def _kind_from_contents(path: Path) -> PathKind | None:
    """Recognise a directory of files by the name and the bytes of the first one."""
    names = sorted(entry.name for entry in _scan(path) if entry.is_file())
    if any(digits_of(name, INDEX_NAME_DIGITS) is not None for name in names):
        return PathKind.INDEX
    for name in names:
        if digits_of(name, NAME_DIGITS) is not None:
            with ReadOnlyFile(path / name) as file:
                return kind_of_bytes(file)
    return None


def _queue_depth(path: Path) -> int:
    """Return how many levels of directories lie above the queue directories of a tree."""
    names = [entry.name for entry in _scan(path) if entry.is_dir()]
    if not names:
        return 0
    return 1 if all(name.isdecimal() for name in names) else 2


def _scan(path: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as listing:
            return list(listing)
    except PermissionError as failure:
        raise denied(path, "listed", failure) from failure
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be listed: {failure.strerror}") from failure
