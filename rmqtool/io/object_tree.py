"""The names in an object store, listed once: a request for each would cost a round trip each."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from rmqtool.errors import DeniedError
from rmqtool.io.source import Kind, Status

if TYPE_CHECKING:
    from rmqtool.io.object_store import ObjectStore

_DIRECTORY = Status(Kind.DIRECTORY)


class ObjectTree:
    """Names of a store, as they were at the first look.

    A directory is listed for its entries, or for a name in it once it is known to be one; and with all below
    if the directory around it has been listed before: a store's top alone, and then
    ``consumequeue`` with every queue in one go.

    Args:
        store: What is listed.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lists: dict[str, dict[str, Status]] = {}
        self._single: dict[str, Status | None] = {}
        self._rows: dict[str, tuple[list[str], int]] = {}
        self._asking = threading.RLock()

    def status(self, path: str) -> Status | None:
        """Return what a name stands for; None if nothing has that name.

        Raises:
            SourceFailureError: The store does not answer.
        """
        directory, _, name = path.rpartition("/")
        with self._asking:
            if path in self._lists:
                return _DIRECTORY
            if directory not in self._lists and self._single.get(directory) == _DIRECTORY:
                self._try_to_list(directory)
            if directory in self._lists:
                return self._lists[directory].get(name)
            if path not in self._single:
                self._single[path] = self._asked(path)
            return self._single[path]

    def entries(self, path: str) -> dict[str, Status]:
        """Return what is in a directory, by name; nothing where no directory is.

        Raises:
            DeniedError: It may not be listed.
            SourceFailureError: The store does not answer.
        """
        with self._asking:
            if path not in self._lists:
                status = self.status(path)
                if status is None or status.kind is not Kind.DIRECTORY:
                    return {}
                self._list(path)
            return self._lists[path]

    def neighbours(self, path: str, count: int) -> tuple[str | None, list[str]]:
        """Return the file before one in the order of queues and segments, and up to ``count`` after it."""
        row, number = self._rows.get(path, ([], 0))
        return row[number - 1] if number else None, row[number + 1 : number + 1 + count]

    def _asked(self, path: str) -> Status | None:
        try:
            return self._store.status(path)
        except DeniedError as failure:
            return Status(Kind.HIDDEN, reason=failure.reason)

    def _try_to_list(self, top: str) -> None:
        with suppress(DeniedError):  # single names may be known nevertheless
            self._list(top)

    def _list(self, top: str) -> None:
        recursive = top.rpartition("/")[0] in self._lists
        found: dict[str, dict[str, Status]] = {top: {}}
        for below, status in self._store.listed(top, recursive=recursive).items():
            path = f"{top}/{below}"
            if recursive and status.kind is Kind.DIRECTORY:
                found.setdefault(path, {})
            _enter(found, path, status, top)
        self._lists |= found
        names = ((directory, name) for directory in found for name in found[directory])
        row = [f"{one}/{name}" for one, name in names if found[one][name].kind is Kind.FILE]
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
