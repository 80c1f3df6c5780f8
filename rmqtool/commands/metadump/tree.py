"""What lies in a store, file by file, and the name that each gets in the skeleton."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.commands.metadump.words import words
from rmqtool.io.source import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.commands.metadump.disguise import Disguise
    from rmqtool.io import Location
    from rmqtool.io.source import Status

_ROCKSDB_FILE = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG(\.old\.[0-9]+)?|(MANIFEST|OPTIONS)-[0-9]+|[0-9]{6,}\.(log|sst|blob|dbtmp)"
)
_NUMBERED = re.compile(
    r"-?[0-9]+(\.[a-z]{1,8})?|(OPTIONS|MANIFEST)-[0-9]+|LOG(\.old\.[0-9]+)?|timerwheel\.[0-9]+"
)
_KNOWN = words(
    "commitlog consumequeue consumequeue_ext consumequeue_rocksdb batchconsumequeue index config"
    " checkpoint abort abort.bak lock timerwheel timerlog compaction compactionLog compactionCq"
    " compacting replicating position-checkpoint position-checkpoint.bak epochFileCheckpoint"
    " epochFileCheckpoint.bak brokerIdentity kvStore rocksdbstore tiered_index_file data CURRENT"
    " IDENTITY LOCK topics consumerOffsets subscriptionGroups rdb metadata timercheck timermetrics"
    " transactionMetrics .DS_Store broker.properties tieredStoreMetadata lmqConsumerOffset"
    " consumerOffset topicQueueMapping consumerOrderInfo messageRequestMode delayOffset consumerFilter"
    " subscriptionGroup"
)
_JSON = re.compile(r"(\w+)(\.json(\.bak|\.tmp)?)")
_DLEDGER = "dledger-"
_LOG, _QUEUES, _EXTENSIONS = "commitlog", "consumequeue", "consumequeue_ext"
_OF_QUEUES = frozenset({_QUEUES, _EXTENSIONS, "batchconsumequeue"})
_QUEUE_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Place:
    """Something in the store.

    Attributes:
        location: Where it is.
        parts: Its names from the root on.
        status: What it is.
    """

    location: Location
    parts: tuple[str, ...]
    status: Status

    @property
    def label(self) -> str:
        """Return its path relative to the store."""
        return "/".join(self.parts)

    @property
    def order(self) -> tuple[bool, str, tuple[str, ...], bool, str]:
        """Return when its turn is: the log first, then each queue with its extension after it."""
        is_extension = self.parts[0] == _EXTENSIONS
        first = _QUEUES if is_extension else self.parts[0]
        return self.parts[0] != _LOG, first, self.parts[1:-1], is_extension, self.parts[-1]


def places_of(root: Location, parts: tuple[str, ...] = (), above: tuple[object, ...] = ()) -> Iterator[Place]:
    """Yield everything below a directory, directories included; links are followed, but not in circles.

    Raises:
        EnvironmentFailureError: A directory may not be listed.
    """
    for entry in root.entries():
        place = Place(root / entry.name, (*parts, entry.name), entry.status)
        yield place
        identity = entry.status.identity
        if entry.status.kind is Kind.DIRECTORY and (identity is None or identity not in above):
            yield from places_of(place.location, place.parts, (*above, identity))


def new_parts(parts: tuple[str, ...], disguise: Disguise) -> tuple[str, ...]:
    """Return the names of a place in the skeleton."""
    return tuple(_new_part(parts, at, disguise) for at in range(len(parts)))


def _new_part(parts: tuple[str, ...], at: int, disguise: Disguise) -> str:
    name = parts[at]
    if at == 1 and parts[0] in _OF_QUEUES:  # topics, and where RocksDB holds the queues, its files
        return name if _ROCKSDB_FILE.fullmatch(name) else disguise.text_of_file(name)
    found = _JSON.fullmatch(name)
    if name in _KNOWN or _NUMBERED.fullmatch(name) or (found and found[1] in _KNOWN):
        return name
    prefix = _DLEDGER if name.startswith(_DLEDGER) else ""
    return prefix + disguise.text_of_file(name.removeprefix(prefix))


def is_queue_file(parts: tuple[str, ...]) -> bool:
    """Whether these are the names of a file in a queue's directory."""
    return len(parts) == _QUEUE_DEPTH and parts[0] in _OF_QUEUES
