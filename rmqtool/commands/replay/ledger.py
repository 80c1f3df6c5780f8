"""Ledger of sent messages: a line is added and flushed to the disk for each, before the next is sent."""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING, Any, Self

from rmqtool.errors import EnvironmentFailureError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SCHEMA = "rmqtool.replay-ledger/1"
_MODE = 0o644  # minus umask


def read_ledger(path: Path, proxy: str, topic_map: Mapping[str, str]) -> set[str]:
    """Return the keys of the sent messages; none if the ledger does not exist.

    Raises:
        RefusedError: It is of another proxy or other topics, or not a ledger.
        EnvironmentFailureError: It cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return set()
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be read: {failure.strerror}") from failure
    return _keys(path, data, proxy, topic_map)


def _keys(path: Path, data: bytes, proxy: str, topic_map: Mapping[str, str]) -> set[str]:
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    if not lines:
        return set()
    try:
        head, *sent = map(json.loads, lines)
        keys = {str(one["key"]) for one in sent}
        was = head["schema"], head["proxy"], head["topicMap"]
    except (ValueError, KeyError, TypeError, RecursionError) as failure:
        raise RefusedError(
            f"{path}: is not a ledger of a replay; pass another file with --ledger"
        ) from failure
    if was != (_SCHEMA, proxy, dict(topic_map)):
        raise RefusedError(
            f"{path}: is of a replay to {was[1]} with the topics {was[2]}; give the same again, or another"
            " file with --ledger"
        )
    return keys


class Ledger:
    """A ledger open for writing, by this replay alone. A line torn by a crash is cut off.

    Raises:
        RefusedError: Another replay is at work on it, or it is of another one.
        EnvironmentFailureError: It cannot be written.
    """

    def __init__(self, path: Path, proxy: str, topic_map: Mapping[str, str]) -> None:
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _MODE)
        except OSError as failure:
            raise self._failure(failure) from failure
        try:
            self._lock()
            data = path.read_bytes()
            self.keys = _keys(path, data, proxy, topic_map)
            os.ftruncate(self._descriptor, data.rfind(b"\n") + 1)
            if b"\n" not in data:
                self._write({"schema": _SCHEMA, "proxy": proxy, "topicMap": dict(topic_map)})
        except OSError as failure:
            self.close()
            raise self._failure(failure) from failure
        except BaseException:
            self.close()
            raise

    def add(self, key: str, topic: str, message_id: str) -> None:
        """Record for good that a message was sent."""
        try:
            self._write({"key": key, "topic": topic, "messageId": message_id})
        except OSError as failure:
            raise self._failure(failure) from failure
        self.keys.add(key)

    def close(self) -> None:
        """Release the ledger for others."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as failure:
            raise RefusedError(f"{self._path}: another replay is at work with this ledger") from failure

    def _write(self, line: dict[str, Any]) -> None:
        data = memoryview(json.dumps(line).encode() + b"\n")
        while data:
            data = data[os.write(self._descriptor, data) :]
        os.fsync(self._descriptor)

    def _failure(self, failure: OSError) -> EnvironmentFailureError:
        return EnvironmentFailureError(f"{self._path}: cannot be written: {failure.strerror}")
