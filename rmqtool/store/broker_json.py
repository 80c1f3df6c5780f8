"""The broker's JSON side files in ``config/``, read as leniently as its own serializer reads them."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple, cast

from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.topics import BROKERS_OWN, LMQ_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX

if TYPE_CHECKING:
    from rmqtool.io import Location


LARGEST_CONFIG = 256 << 20
"""Bytes of a config file that are read at most; brokers with many groups reach some ten MiB."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?\d+)(\s*:)', re.DOTALL)


class ConfigFileError(ValueError):
    """A config file exists and cannot be decoded; the message names it."""


class ConfigDeniedError(ConfigFileError):
    """A config file may not be read."""


def parse_broker_json(text: str) -> object:
    """Parse JSON, integer keys also without quotes, as fastjson writes them; may raise `ValueError`."""
    try:
        return cast(
            "object", json.loads(_TOKEN.sub(_quote_key, text), parse_constant=_refuse, parse_float=_finite)
        )
    except RecursionError as failure:
        raise ValueError("nested too deeply") from failure


def _finite(number: str) -> float:
    value = float(number)
    return value if isfinite(value) else cast("float", _refuse(number))


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not a number of JSON")


def _quote_key(match: re.Match[str]) -> str:
    key = match[2]
    return match[0] if key is None else f'{match[1]}"{key}"{match[3]}'


class ConfigDocument(NamedTuple):
    """A config file's JSON and the file it was read from, which may be its ``.bak``.

    ``problem`` says why the ``.bak`` was read; None if the file itself was read, or does not exist.
    """

    document: object
    path: Location
    problem: str | None


def load_broker_json(path: Location) -> object:
    """Load a config file as `load_config` does; None if neither it nor its ``.bak`` exists."""
    document = load_config(path)
    return None if document is None else document.document


def load_config(path: Location) -> ConfigDocument | None:
    """Load a config file, or its ``.bak`` where it is missing, empty or undecodable; None without both.

    Java: ``ConfigManager#load`` (4.9.8, 5.3.3). 4.x wrote in the platform's charset, so bytes that are not
    UTF-8 are replaced.
    """
    problem = None
    for candidate in (path, path.with_name(path.name + ".bak")):
        try:
            data = candidate.read_head(LARGEST_CONFIG) if candidate.is_there() else b""
            text = data.decode("utf-8", "replace")
            if text.strip():
                return ConfigDocument(parse_broker_json(text), candidate, problem)
        except DeniedError as failure:
            raise ConfigDeniedError(str(failure)) from failure
        except (EnvironmentFailureError, ValueError) as failure:
            problem = problem or f"{candidate}: {failure}"
    if problem is not None:
        raise ConfigFileError(problem)
    return None


class ConfigSource:
    """The broker's settings of topics, groups and offsets, by name, from ``config/`` of a store root.

    Without a root, or without ``config/``, nothing is there.
    """

    def __init__(self, root: Location | None) -> None:
        self._directory = None if root is None else root / "config"

    def load(self, name: str) -> ConfigDocument | None:
        """Return a document and the file that it is from; None without one. May raise `ConfigFileError`."""
        return None if self._directory is None else load_config(self._directory / name)

    def document(self, name: str) -> object:
        """Return a document; None without one. May raise `ConfigFileError`."""
        loaded = self.load(name)
        return None if loaded is None else loaded.document

    def why_denied(self, name: str) -> str | None:
        """Return why a document, or the ``.bak`` in its place, may not be read; None if it may."""
        try:
            self.load(name)
        except ConfigDeniedError as failure:
            return str(failure)
        except ConfigFileError:
            return None  # damage, which `rmqtool.doctor` diagnoses
        return None


DELAYS = "delayOffset.json"
OFFSET_TABLES = {
    "consumerOffset.json": ("offsetTable",),
    "lmqConsumerOffset.json": ("offsetTable", "lmqOffsetTable"),
    DELAYS: ("offsetTable",),
}
"""Tables of the files of offsets: of groups, of groups in light queues, of delay levels."""

_LONG = re.compile(r"-?\d{1,19}")
_LEVEL_DIGITS = 9


def number_of(value: object) -> int | None:
    """Return the long that a broker takes, in quotes or not, without its fraction; None for anything else."""
    if isinstance(value, str):
        return int(value) if _LONG.fullmatch(value) else None
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


class OffsetPlace(NamedTuple):
    """One number of a file of offsets.

    ``entry`` is ``topic@group``, or a delay level; ``inner`` is the queue id as text, None where the entry is
    the number itself.
    """

    table: str
    entry: str
    inner: str | None

    def reader(self, name: str) -> tuple[str, str, int] | None:
        """Return reader, topic and queue id in a file of that name; None if it names none."""
        if name == DELAYS:
            is_level = self.entry.isdecimal() and len(self.entry) <= _LEVEL_DIGITS and int(self.entry) > 0
            return (f"delay level {self.entry}", SCHEDULE_TOPIC, int(self.entry) - 1) if is_level else None
        topic, separator, group = self.entry.rpartition("@")
        number = "0" if self.inner is None else self.inner
        return (f"group {group}", topic, int(number)) if separator and number.isdecimal() else None


Offsets = dict[OffsetPlace, int]


def offsets_of(name: str, document: object) -> Offsets:
    """Return the offsets in a file of that name, none of a file of others; negative numbers mean none."""
    offsets: Offsets = {}
    for table in OFFSET_TABLES.get(name, ()):
        entries = document.get(table) if isinstance(document, dict) else None
        for entry, value in entries.items() if isinstance(entries, dict) else ():
            inner = value.items() if isinstance(value, dict) else [(None, value)]
            for key, number in inner:
                offset = number_of(number)
                if offset is not None and offset >= 0 and (key is None or number_of(key) is not None):
                    offsets[OffsetPlace(table, entry, key)] = offset
    return offsets


def read_config_text(path: Location) -> str:
    """Return the text of a config file; bytes that are not UTF-8 are replaced."""
    return path.read_head(LARGEST_CONFIG).decode("utf-8", "replace")


def batch_queue_topics(topics_json: object) -> frozenset[str]:
    """Return the BatchCQ topics of ``topics.json`` (Java: ``QueueTypeUtils#isBatchCq``, 5.3.3)."""
    return _topics_with(topics_json, "queue.type", "BatchCQ")


def compaction_topics(topics_json: object) -> frozenset[str]:
    """Return the topics that the broker compacts. Java: ``CleanupPolicyUtils#getDeletePolicy`` (5.3.3)."""
    return _topics_with(topics_json, "cleanup.policy", "COMPACTION")


def topic_names(topics_json: object) -> frozenset[str]:
    """Return the topics in ``topics.json``."""
    return frozenset(_topic_table(topics_json))


def queue_counts(topics_json: object) -> dict[str, int]:
    """Return the number of queues of each topic in ``topics.json``: the larger of read and write queues."""
    return {topic: _queue_count(config) for topic, config in _topic_table(topics_json).items()}


def _queue_count(config: object) -> int:
    numbers = (
        [config.get(name) for name in ("readQueueNums", "writeQueueNums")] if isinstance(config, dict) else []
    )
    return max((number for number in numbers if isinstance(number, int)), default=0)


def _topic_table(topics_json: object) -> dict[str, object]:
    table = topics_json.get("topicConfigTable") if isinstance(topics_json, dict) else None
    return table if isinstance(table, dict) else {}


def _topics_with(topics_json: object, name: str, value: str) -> frozenset[str]:
    table = _topic_table(topics_json).items()
    return frozenset(topic for topic, config in table if _attribute(config, name) == value)


def _attribute(config: object, name: str) -> object:
    attributes = config.get("attributes") if isinstance(config, dict) else None
    return attributes.get(name) if isinstance(attributes, dict) else None


# In config/: RocksDB keeps the topics, a topics.json beside it is old.
_OTHER_KEEPERS = ("topics", "rdb", "metadata")


class ListedTopics:
    """Topics in a store's ``topics.json``."""

    def __init__(self, root: Location | None) -> None:
        self._known = frozenset[str]() if root is None else _known_topics(root / "config")

    def is_deleted(self, topic: str) -> bool:
        """Whether a topic with messages was deleted; False without a list of topics."""
        if not self._known or topic in BROKERS_OWN or topic.startswith((SYSTEM_PREFIX, LMQ_PREFIX)):
            return False
        return topic not in self._known


def _known_topics(config: Location) -> frozenset[str]:
    """Return the topics of ``topics.json``; none if it is missing, unreadable, or superseded by RocksDB."""
    path = config / "topics.json"
    if not path.is_regular() or any((config / name).is_directory() for name in _OTHER_KEEPERS):
        return frozenset()
    try:
        return topic_names(load_broker_json(path))
    except ConfigFileError:
        return frozenset()  # CF-FORGETS or CF-REFUSED of level 0 reports it
