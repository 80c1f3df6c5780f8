"""States of a compacted topic's files, and what a start makes of each: one row a rule.

``tests/recovery`` holds the prediction against the rows, ``tests/broker`` the real broker against it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

QUEUE_BYTES = 46 * 4
LOG_BYTES = QUEUE_BYTES * 5
SETTINGS = (
    f"compactionCqMappedFileSize={QUEUE_BYTES + 3}\ncompactionMappedFileSize={LOG_BYTES - QUEUE_BYTES}\n"
)
"""The broker rounds the first down to whole units, and the second up to five times that."""

_UNIT = struct.Struct(">qiqqqhii")
_FIRST, _SECOND = f"{0:020}", f"{LOG_BYTES:020}"
_LOG, _QUEUE = "compaction/compactionLog/Orders/0", "compaction/compactionCq/Orders/0"


@dataclass(frozen=True)
class State:
    """Files, and what becomes of them.

    Attributes:
        name: what it shows.
        files: their bytes, by path in the store.
        refused: the files that keep a broker from starting.
        deleted: those that the start deletes.
        passed_over: whether the queue is not loaded, without more ado.
    """

    name: str
    files: Mapping[str, bytes]
    refused: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    passed_over: bool = False

    def make(self, root: Path) -> None:
        """Write the files into a store."""
        for label, data in self.files.items():
            path = root / label
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def _unit(log_offset: int, size: int, queue_offset: int) -> bytes:
    return _UNIT.pack(log_offset, size, 0, 0, queue_offset, 1, -1, 0)


def _queue(*units: bytes) -> bytes:
    return b"".join(units).ljust(QUEUE_BYTES, b"\0")


def _log(*names: str) -> dict[str, bytes]:
    return {f"{_LOG}/{name}": bytes(LOG_BYTES) for name in names}


_CLOSED = {f"{_QUEUE}/{_FIRST}": _queue(_unit(0, 100, 0), _unit(100, 200, 1), _unit(-1, 0, 0))}
_WITHOUT_UNIT = {f"{_QUEUE}/{_FIRST}": _queue()}
_NO_FILE = {f"{_QUEUE}/compacting/x": b""}

STATES = [
    State("a pair", {**_log(_FIRST), **_CLOSED}),
    State(
        "a log file behind the last unit of the queue",
        {**_log(_FIRST, _SECOND), **_CLOSED},
        deleted=frozenset([f"{_LOG}/{_SECOND}"]),
    ),
    State(
        "a log file behind a queue without a unit",
        {**_log(_FIRST, _SECOND), **_WITHOUT_UNIT},
        refused=frozenset([f"{_LOG}/{_SECOND}"]),
    ),
    State(
        "a log file before the queue's first",
        {**_log(_FIRST, _SECOND), f"{_QUEUE}/{_SECOND}": _queue(_unit(LOG_BYTES + 5, 100, 9))},
        refused=frozenset([f"{_LOG}/{_FIRST}"]),
    ),
    State(
        "a queue file without a log file",
        {**_log(_FIRST), **_CLOSED, f"{_QUEUE}/{_SECOND}": _queue()},
        refused=frozenset([f"{_QUEUE}/{_SECOND}"]),
    ),
    State(
        "a replaced log file",
        {**_log(_FIRST, f"{_FIRST}.delete"), **_CLOSED},
        refused=frozenset([f"{_LOG}/{_FIRST}.delete"]),
    ),
    State(
        "a replaced queue file",
        {**_log(_FIRST), **_CLOSED, f"{_QUEUE}/{_FIRST}.delete": _queue()},
        refused=frozenset([f"{_QUEUE}/{_FIRST}.delete"]),
    ),
    State("no queue file", {**_log(_FIRST), **_NO_FILE}, refused=frozenset([f"{_LOG}/{_FIRST}"])),
    State("no queue directory", _log(_FIRST), passed_over=True),
    State("a replaced log file without a queue directory", _log(f"{_FIRST}.delete"), passed_over=True),
    State(
        "a log file of another size, and one without a queue file",
        {f"{_LOG}/{_FIRST}": b"x", f"{_LOG}/{_SECOND}": bytes(LOG_BYTES), **_CLOSED},
        passed_over=True,
    ),
    State("a queue file of another size", {**_log(_FIRST), f"{_QUEUE}/{_FIRST}": b"x"}, passed_over=True),
    State(
        "an empty last log file",
        {**_log(_FIRST), **_CLOSED, f"{_LOG}/{_SECOND}": b""},
        deleted=frozenset([f"{_LOG}/{_SECOND}"]),
    ),
    State(
        "a directory that is no queue",
        {"compaction/compactionLog/Orders/a/x": b""},
        refused=frozenset(["compaction/compactionLog/Orders/a"]),
    ),
]
