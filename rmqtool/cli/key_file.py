"""The file of ``query --keys-file``: a key a line, or a JSON object a line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.commands.query import KeyQuestion
from rmqtool.errors import EnvironmentFailureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LARGEST_BYTES = 256 << 20
_SHOWN = 60


def read_keys(name: str, topic: str | None) -> tuple[KeyQuestion, ...]:
    """Read many keys, each once, in the order of the file; empty lines are skipped.

    Args:
        name: The file; ``-`` is standard input.
        topic: Of keys without one.

    Raises:
        EnvironmentFailureError: The file cannot be read.
        UsageError: A line makes no sense, a key has no topic, or there is no key.
    """
    lines = [line.rstrip("\r") for line in _read(name).split("\n")]
    first = next((line for line in lines if line.strip()), "")
    questions = tuple(dict.fromkeys(_parsed(name, lines, topic, objects=_is_object(first))))
    if not questions:
        raise UsageError(f"{name}: holds no key")
    return questions


def _parsed(name: str, lines: list[str], topic: str | None, *, objects: bool) -> Iterator[KeyQuestion]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _of_object(line, topic) if objects else _of_line(line, topic)
            except ValueError as failure:
                raise UsageError(f"{name} line {number}: {failure}: {line[:_SHOWN]!r}") from failure


def _read(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(_LARGEST_BYTES)
        else:
            with Path(name).open("rb") as file:
                data = file.read(_LARGEST_BYTES)
    except OSError as failure:
        raise EnvironmentFailureError(f"{name}: cannot be read: {failure.strerror}") from failure
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        raise UsageError(f"{name}: is no UTF-8 text at byte {failure.start}") from failure


def _is_object(line: str) -> bool:
    """Whether a line is an object that names a key; a key may itself be JSON."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and bool({"key", "uniqueKey"} & value.keys())


def _of_line(line: str, topic: str | None) -> KeyQuestion:
    if topic is None:
        raise ValueError("a key alone needs --topic")
    return KeyQuestion(topic, line, either=True)


def _of_object(line: str, topic: str | None) -> KeyQuestion:
    try:
        value = json.loads(line)
    except RecursionError as failure:
        raise ValueError("nested too deeply") from failure
    if not isinstance(value, dict):
        raise ValueError("is no object, as the first line is")  # noqa: TRY004 - said of a line, not of a type
    unique = "uniqueKey" in value
    key, of_topic = value.get("uniqueKey" if unique else "key"), value.get("topic", topic)
    if not isinstance(key, str) or not isinstance(of_topic, str):
        raise ValueError('needs "topic" and "key" (or "uniqueKey"), both texts')  # noqa: TRY004 - as above
    return KeyQuestion(of_topic, key, unique, either=not unique)
