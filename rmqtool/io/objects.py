"""Stores in object stores and on HDFS, see `rmqtool.io.source.Source`.

Reads see one version of every object, the first. It is fetched when the object is opened, compared with the
listing, and fetched again after every range, before a byte of that is used. A changed version ends the
command. Names are listed once, as a request for each would cost a round trip.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from rmqtool.errors import (
    DeniedError,
    EnvironmentFailureError,
    SourceFailureError,
    SourceUnreachableError,
    UsageError,
)
from rmqtool.io.object_pieces import ObjectPieces, PieceCache, begin
from rmqtool.io.object_store import ObjectStore, OpenObject, Version
from rmqtool.io.source import DirectoryEntry, FileKind, Status, is_object_url, split_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future
    from pathlib import Path


_DIRECTORY = Status(FileKind.DIRECTORY)


class ObjectTree:
    """Names of a store, as first listed.

    A directory is listed for its entries, or for a name in it once it is known to be one; with everything
    below if the directory around it was listed before: a store's top alone, and then ``consumequeue`` with
    every queue in one request.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lists: dict[str, dict[str, Status]] = {}
        self._single: dict[str, Status | None] = {}
        self._rows: dict[str, tuple[list[str], int]] = {}
        self._requesting = threading.RLock()

    def status(self, path: str) -> Status | None:
        """Return the status of a name; None if it does not exist."""
        directory, _, name = path.rpartition("/")
        with self._requesting:
            if path in self._lists:
                return _DIRECTORY
            if directory not in self._lists and self._single.get(directory) == _DIRECTORY:
                with suppress(DeniedError):  # single names may be known nevertheless
                    self._list(directory)
            if directory in self._lists:
                return self._lists[directory].get(name)
            if path not in self._single:
                self._single[path] = self._requested(path)
            return self._single[path]

    def entries(self, path: str) -> dict[str, Status]:
        """Return the entries of a directory, by name; none if it is not one."""
        with self._requesting:
            if path not in self._lists:
                status = self.status(path)
                if status is None or status.kind is not FileKind.DIRECTORY:
                    return {}
                self._list(path)
            return self._lists[path]

    def neighbours(self, path: str, count: int) -> tuple[str | None, list[str]]:
        """Return the file before one in the order of queues and segments, and up to ``count`` after it."""
        row, number = self._rows.get(path, ([], 0))
        return row[number - 1] if number else None, row[number + 1 : number + 1 + count]

    def _requested(self, path: str) -> Status | None:
        try:
            return self._store.status(path)
        except DeniedError as failure:
            return Status(FileKind.HIDDEN, reason=failure.reason)

    def _list(self, top: str) -> None:
        recursive = top.rpartition("/")[0] in self._lists
        lists: dict[str, dict[str, Status]] = {top: {}}
        for below, status in self._store.listed(top, recursive=recursive).items():
            path = f"{top}/{below}"
            if recursive and status.kind is FileKind.DIRECTORY:
                lists.setdefault(path, {})
            _enter(lists, path, status, top)
        self._lists |= lists
        names = ((directory, name) for directory in lists for name in lists[directory])
        row = [f"{one}/{name}" for one, name in names if lists[one][name].kind is FileKind.FILE]
        row.sort(key=_in_order)
        self._rows |= {path: (row, number) for number, path in enumerate(row)}


def _in_order(path: str) -> list[str]:
    """Return the sort key of names in the order of reading: queues by number."""
    return [part.zfill(20) if part.isdecimal() else part for part in path.split("/")]


def _enter(lists: dict[str, dict[str, Status]], path: str, status: Status, top: str) -> None:
    """Enter a name, and the directories around it that only names imply."""
    directory, _, name = path.rpartition("/")
    lists.setdefault(directory, {})[name] = status
    while directory != top:
        directory, _, name = directory.rpartition("/")
        if name in lists.setdefault(directory, {}):
            return
        lists[directory][name] = _DIRECTORY


_NANOSECONDS = 1_000_000_000
_FILES_AHEAD = 16
"""Files that are opened ahead of one that is read after its neighbour."""


class ObjectFiles:
    """Files below a scheme and an authority, as ``s3://bucket``; names are whole URLs.

    Unpickling opens it again. ``planned`` are the versions by name that a task's objects must have.
    """

    def __init__(self, top: str, planned: Mapping[str, Version] | None = None) -> None:
        self.top = top
        self._planned = planned or {}
        self._store = ObjectStore(top)
        self._tree = ObjectTree(self._store)
        self._piece_cache = PieceCache()
        self._opened: dict[str, Future[ObjectVersion]] = {}
        self._wanted: set[str] = set()
        self._opening = threading.Lock()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectFiles) and self.top == other.top

    def __hash__(self) -> int:
        return hash(self.top)

    def __reduce__(self) -> tuple[Callable[[str], ObjectFiles], tuple[str]]:
        return ObjectFiles, (self.top,)

    def __repr__(self) -> str:
        return f"ObjectFiles({self.top!r})"

    def status(self, path: str) -> Status | None:
        """Return the status of a name, as first listed; None if it does not exist."""
        status = self._tree.status(path) if self._holds(path) else None
        return None if status is None else status._replace(identity=path)

    def entries(self, path: str) -> list[DirectoryEntry]:
        """Return the entries of a directory by name; none if it is not one."""
        entries = self._tree.entries(path) if self._holds(path) else {}
        return [
            DirectoryEntry(name, entries[name]._replace(identity=f"{path}/{name}"))
            for name in sorted(entries)
        ]

    def open(self, path: str) -> ObjectVersion:
        """Open an object, once, as it holds no connection."""
        with self._opening:
            opening = self._begun(path)
            if path not in self._wanted:
                self._wanted.add(path)
                self._look_ahead(path)
        try:
            return opening.result()
        except BaseException as failure:
            with self._opening:
                self._opened.pop(path, None)
            if isinstance(failure, DeniedError) and path in self._planned:  # the planner could read it
                raise SourceUnreachableError(path, failure.reason, str(failure)) from failure
            raise

    def version(self, path: str) -> Version | None:
        """Return an object's version; None if it cannot be opened, `SourceFailureError` if it has changed."""
        with suppress(EnvironmentFailureError):  # its reader reports that
            return self.open(path).version
        return None

    def absolute(self, text: str) -> str:
        """Return the URL that a setting or a user means; `UsageError` if it lies in another bucket."""
        if not is_object_url(text):
            return split_url(f"{self.top}/{text}")[1]
        top, path = split_url(text)
        if top != self.top:
            raise UsageError(f"{text}: is not in {self.top}; a store and its parts lie in one place")
        return path

    def real(self, path: str) -> str:
        """Return the same name: there are no links."""
        return path

    def local_path(self, path: str) -> Path | None:
        """Return None: the bytes are not on this machine."""
        return None

    def lock_holder(self, path: str) -> int | None:
        """Return None: objects cannot be locked, and no broker works on one."""
        return None

    def _holds(self, path: str) -> bool:
        return path == self.top or path.startswith(f"{self.top}/")

    def _begun(self, path: str) -> Future[ObjectVersion]:
        if path not in self._opened:
            self._opened[path] = begin(self._first_opened, path)
        return self._opened[path]

    def _look_ahead(self, path: str) -> None:
        """Open the files after one, and begin to fetch each, if the one before it was read, too."""
        before, after = self._tree.neighbours(path, _FILES_AHEAD)
        for following in after if before in self._wanted else ():
            if following not in self._opened:
                self._begun(following).add_done_callback(_begin_to_fetch)

    def _first_opened(self, path: str) -> ObjectVersion:
        status = self.status(path)
        if status is None and path in self._planned:  # no finding: the planner of the task has read it
            _changed(path, "it was deleted")
        if status is None:
            raise EnvironmentFailureError(f"{path}: cannot be opened: No such file or directory")
        if status.kind is FileKind.HIDDEN:
            raise DeniedError(path, status.reason)
        if status.kind is not FileKind.FILE:
            raise EnvironmentFailureError(f"{path}: is {status.kind}, not a regular file")
        try:
            opened = self._store.open(path)
        except FileNotFoundError:
            _changed(path, "it was deleted")
        seconds = opened.version.modified_s()
        if opened.version.size_bytes != status.size_bytes:
            _changed(path, f"size was {status.size_bytes}, is {opened.version.size_bytes}")
        if seconds is not None and seconds != status.modified_ns // _NANOSECONDS:
            _changed(path, "it was replaced")
        if difference := self._planned.get(path, opened.version).difference(opened.version):
            _changed(path, difference)
        return ObjectVersion(path, opened, self._store, self._piece_cache)


class ObjectVersion:
    """One version of an object, see `rmqtool.io.source.Handle`; reads fail once it has changed."""

    def __init__(self, path: str, opened: OpenObject, store: ObjectStore, cache: PieceCache) -> None:
        self._path = path
        self.version: Version = opened.version
        self._store = store
        self._idle = [opened]
        self._pieces = ObjectPieces(opened.version.size_bytes, self._fetch, cache)

    def size_bytes(self) -> int:
        """Return the size."""
        return self.version.size_bytes

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Fill a part of a view."""
        wanted = min(len(view), self.size_bytes() - position)
        if wanted <= 0:
            return 0
        data = self._pieces.bytes_from(position, wanted)
        view[: len(data)] = data
        return len(data)

    def begin(self) -> None:
        """Begin to fetch the start of the object."""
        self._pieces.begin()

    def next_written(self, position: int) -> int:
        """Return the position itself: objects have no holes."""
        return min(position, self.size_bytes())

    def _fetch(self, start: int, stop: int) -> bytearray:
        return self._store.read(self._path, lambda: self._fetched(start, stop))

    def _fetched(self, start: int, stop: int) -> bytearray:
        try:
            opened = self._idle.pop()
        except IndexError:
            opened = self._proven()
        try:
            data = opened.read(start, stop)
        except FileNotFoundError:
            _changed(self._path, "it was deleted")
        self._idle.append(self._proven())
        return data

    def _proven(self) -> OpenObject:
        """Open the object again, and compare its version."""
        try:
            opened = self._store.open(self._path)
        except FileNotFoundError:
            _changed(self._path, "it was deleted")
        if difference := self.version.difference(opened.version):
            _changed(self._path, difference)
        return opened


def _begin_to_fetch(opening: Future[ObjectVersion]) -> None:
    if opening.exception() is None:  # else its reader gets the error
        opening.result().begin()


def _changed(path: str, difference: str) -> NoReturn:
    raise SourceFailureError(
        path,
        (
            f"was changed while it was read ({difference}); no verdict on the store: stop the writer, or "
            "make a copy, and run this again"
        ),
    )
