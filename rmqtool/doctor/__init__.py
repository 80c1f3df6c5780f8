"""Diagnosis of the broker's side files in ``config/`` after a power failure, and the effect of each choice.

A broker keeps offsets, topics and groups in JSON files, each with the ``.bak`` of the version before. One
that is cut, zero-filled or empty makes it start with nothing, or not at all (RocketMQ issues 9328, 3401,
6096, 1498). `diagnose` returns the remaining copies, the one that a broker takes, and for every choice the
messages that would be delivered again or skipped. Nothing is written here.

Here are the table of the files, a copy as a broker reads it, and the whole entries of a cut one; ``choices``
has the effects of each choice, ``diagnose`` makes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.store.broker_json import DELAYS, LARGEST_CONFIG, OFFSET_TABLES, number_of, parse_broker_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.io import Location


class ConfigKind(NamedTuple):
    """One file in ``config/``.

    ``tables`` are members of its root object with entries, one for each topic, group or level. ``loses``
    continues a sentence about a broker that starts without it. ``depth`` is that of whole members: 2 for
    ``table.entry``, 3 where entries are maps of numbers. ``stops`` says that a broker does not start if it
    can decode no copy.
    """

    name: str
    tables: tuple[str, ...]
    loses: str
    depth: int = 2
    stops: bool = True

    @property
    def numbers(self) -> bool:
        """Whether entries are numbers, or maps of them."""
        return self.name in OFFSET_TABLES


_OFFSETS = "the offsets of its groups: they restart at the start or at the end of their queues"
_DELIVERED = "which delayed messages were delivered: all remaining ones come again"

CONFIG_KINDS: dict[str, ConfigKind] = {
    kind.name: kind
    for kind in (
        *(
            ConfigKind(name, tables, _DELIVERED if name == DELAYS else _OFFSETS, 2 if name == DELAYS else 3)
            for name, tables in OFFSET_TABLES.items()
        ),
        ConfigKind("topics.json", ("topicConfigTable",), "its topics, and deletes their consume queues"),
        ConfigKind(
            "subscriptionGroup.json",
            ("subscriptionGroupTable", "forbiddenTable"),
            "the settings of its groups",
        ),
        ConfigKind("consumerFilter.json", ("filterDataByTopic",), "the filters of its groups"),
        ConfigKind("topicQueueMapping.json", ("topicQueueMappingInfoMap",), "the queues of static topics"),
        ConfigKind("consumerOrderInfo.json", ("table",), "which ordered messages are being consumed"),
        ConfigKind(
            "messageRequestMode.json", ("messageRequestModeMap",), "which groups pop messages", stops=False
        ),
        ConfigKind("timermetrics", ("timingCount",), "how many timed messages wait, which it only shows"),
        ConfigKind(
            "transactionMetrics",
            ("transactionCount",),
            "how many half messages wait, which it only shows",
            stops=False,
        ),
    )
}
"""By name. A broker loads them by ``ConfigManager#load`` (4.9.8 to 5.5.1; some are only in 5.x)."""

ONLY_SHOWN = frozenset({"config/timermetrics", "config/transactionMetrics"})
"""Counts that a broker reports, and counts again."""

OFFSET_DATABASES = ("consumerOffsets", "rdb", "metadata")
"""Those of them that hold offsets."""

OTHER_KEEPERS = ("topics", "subscriptionGroups", *OFFSET_DATABASES)
"""Directories in ``config/`` where RocksDB keeps the same; JSON files beside them are old."""


def database_in(config: Location | None, names: tuple[str, ...] = OTHER_KEEPERS) -> str | None:
    """Return which database in ``config/`` keeps the settings; None without one."""
    return next((name for name in names if config is not None and (config / name).is_directory()), None)


Document = dict[str, Any]

_SHOWN_BYTES = 40
_SKIPPED = "\0 \t\r\n\f\b\ufeff"
"""Characters that brokers skip before and after the object: fastjson 1.2 and 2.0, 4.9.8 to 5.5.1."""

_TOKEN = re.compile(
    r"""[\ \t\r\n]*(?:
        (?P<text>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")
      | (?P<plain>-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)
      | (?P<mark>[][{},:])
    )""",
    re.VERBOSE,
)
_CLOSERS = {"{": "}", "[": "]"}


class CopyState(StrEnum):
    """State of a copy."""

    SOUND = "sound"
    MISSING = "missing"
    EMPTY = "empty"
    SPACES = "blank"  # nothing but white space, or an empty array
    VOID = "void"  # decodes, to nothing: null
    ZEROS = "zero-filled"
    CUT = "cut"  # begins well
    TRAILED = "whole plus old bytes"  # the end of a longer text, over which a shorter one was written
    BROKEN = "broken"  # nothing of it can be read
    DENIED = "not readable"


@dataclass(frozen=True, slots=True)
class ConfigCopy:
    """One copy of a file.

    Attributes:
        file: its name relative to the store.
        state: state of the copy.
        size_bytes: its size; 0 if it is missing.
        entries: number of readable entries.
        document: readable content: all, or the whole entries before the damage.
        reason: the system's message, if it cannot be read.
        holds: how it begins, if nothing of it can be decoded.
    """

    file: str
    state: CopyState
    size_bytes: int = 0
    entries: int = 0
    document: Document = field(default_factory=dict, repr=False)
    reason: str = ""
    holds: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether a broker reads all of it."""
        return self.state is CopyState.SOUND

    @property
    def is_whole(self) -> bool:
        """Whether it holds all that was written, perhaps in a way that no broker reads."""
        return self.state in {CopyState.SOUND, CopyState.TRAILED}

    @property
    def lists_nothing(self) -> bool:
        """Whether a broker reads all of it, and finds no entry."""
        return self.is_sound and not self.entries

    def __str__(self) -> str:
        if self.lists_nothing:
            return f"{self.file} lists nothing"
        said = f"{self.file} is {self.state}"
        if self.state is CopyState.CUT:
            return f"{said} after {self.entries} whole entries" if self.entries != 1 else f"{said} after 1"
        return f'{said}, it holds "{self.holds}"' if self.holds else said


def read_copy(path: Location, label: str, kind: ConfigKind) -> ConfigCopy:
    """Read one copy; failures become its state."""
    try:
        status = path.status()
        if status is None:
            return ConfigCopy(label, CopyState.MISSING)
        data = path.read_head(LARGEST_CONFIG)
    except DeniedError as failure:
        return ConfigCopy(label, CopyState.DENIED, reason=failure.reason)
    except EnvironmentFailureError as failure:
        return ConfigCopy(label, CopyState.BROKEN, reason=str(failure))
    state, document = read_bytes(data, kind)
    holds = _beginning(data) if state is CopyState.BROKEN else ""
    entries = sum(1 for _ in entries_of(document, kind))
    return ConfigCopy(label, state, len(data), entries, document, holds=holds)


def _beginning(data: bytes) -> str:
    text = data[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return text + "…" if len(data) > _SHOWN_BYTES else text


def read_bytes(data: bytes, kind: ConfigKind) -> tuple[CopyState, Document]:
    """Return the state of a copy with these bytes, and its readable part.

    Java: ``ConfigManager#load`` and ``RemotingSerializable#fromJson`` (4.9.8, 5.3.3, 5.4.0, 5.5.1). Bytes
    that are not UTF-8 are kept: 4.x wrote in the platform's charset.
    """
    text = data.decode("utf-8", "surrogateescape")
    if not text.strip(" \t\r\n\f\b"):
        return CopyState.SPACES if data else CopyState.EMPTY, {}
    text = text.strip(_SKIPPED)
    if not text:
        return CopyState.ZEROS, {}
    try:
        document = parse_broker_json(text)
    except ValueError:
        return _cut(text, kind)
    if isinstance(document, dict) and has_shape(document, kind):
        return CopyState.SOUND, document
    return {"null": CopyState.VOID, "[]": CopyState.SPACES}.get(text, CopyState.BROKEN), {}


def has_shape(document: Document, kind: ConfigKind) -> bool:
    """Return whether a broker can load the tables and entries into its own."""
    for name in kind.tables:
        table = document.get(name)
        if table is None:
            continue
        if not isinstance(table, dict):
            return False
        if kind.numbers and not all(map(_is_numbers, table.values())):
            return False
    return True


def entries_of(document: Document, kind: ConfigKind) -> Iterator[tuple[str, str, Any]]:
    """Yield table, name and value of each entry."""
    for name in kind.tables:
        table = document.get(name)
        for key, value in table.items() if isinstance(table, dict) else ():
            yield name, key, value


def whole_prefix(text: str, depth: int) -> str:
    """Return the longest beginning of an object whose members are whole, with its brackets closed.

    A number right before the cut is left out: it may have had more digits. ``text`` is JSON with bare integer
    keys that is cut, or continues with something else; ``depth`` is that of the kept members: 1 for those of
    the object, 2 for theirs.
    """
    open_, end, closers = "", 0, ""
    expected, previous = "value", ""
    for token in _tokens(text):
        mark, group = token[token.lastgroup or ""], token.lastgroup
        if group != "mark":
            is_key = group == "text" or mark.lstrip("-").isdecimal()
            if expected != "value" and not (expected == "key" and is_key):
                break
            expected = "colon" if expected == "key" else "next"
        elif mark in _CLOSERS and expected == "value":
            open_ += mark
            expected = "key" if mark == "{" else "value"
        elif mark == ":" and expected == "colon":
            expected = "value"
        elif open_ and mark == _CLOSERS[open_[-1]] and (expected == "next" or previous == open_[-1]):
            open_, expected = open_[:-1], "next"
            if len(open_) <= depth:
                end, closers = token.end(), open_
        elif mark == "," and expected == "next" and open_:
            if len(open_) <= depth:
                end, closers = token.start("mark"), open_
            expected = "key" if open_[-1] == "{" else "value"
        else:
            break
        previous = mark
    return text[:end] + "".join(_CLOSERS[opener] for opener in reversed(closers))


def _tokens(text: str) -> Iterator[re.Match[str]]:
    position = 0
    while (token := _TOKEN.match(text, position)) is not None:
        yield token
        position = token.end()


def _cut(text: str, kind: ConfigKind) -> tuple[CopyState, Document]:
    if not text.startswith("{"):
        return CopyState.BROKEN, {}
    prefix = whole_prefix(text, kind.depth)
    try:
        document = parse_broker_json(prefix)
    except ValueError:  # nested too deeply, or numbers beyond all measure
        return CopyState.BROKEN, {}
    if not isinstance(document, dict) or not has_shape(document, kind):
        return CopyState.BROKEN, {}
    return CopyState.TRAILED if text.startswith(prefix) else CopyState.CUT, document


def _is_numbers(value: object) -> bool:
    """Return whether it is a number, or a map of numbers by number; brokers take those in quotes, too."""
    if isinstance(value, dict):
        return None not in {number_of(part) for pair in value.items() for part in pair}
    return number_of(value) is not None
