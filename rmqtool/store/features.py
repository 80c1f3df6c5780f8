"""What brokers keep in a store root beside the structures that are examined: one row for each kind of place.

A row names a path, the release that first makes it, and the finding that names it to people. So the rows say
which broker was here, too (`rmqtool.store.broker_version`), and a new kind of place is a new row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings.places import (
    ST_COMPACTION,
    ST_DLEDGER,
    ST_POP,
    ST_ROCKSDB,
    ST_ROCKSDB_BESIDE,
    ST_TIERED,
    ST_TIMER,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.findings import FindingCode
    from rmqtool.io import Location

ROCKSDB_STORE = "rocksdbstore"
"""Made by every start of 5.4.0+ (``DefaultMessageStore#<init>``), empty unless a setting has a use for it."""

_DATABASE = ("CURRENT", "MANIFEST-*")
_FILE_QUEUES = "consumequeue"
_QUEUE_DATABASES = (_FILE_QUEUES, "consumequeue_rocksdb")
_QUEUE_FILES = "*/*/" + 20 * "[0-9]"
_ROCKSDB_FILE = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG(\.old\.[0-9]+)?|(MANIFEST|OPTIONS)-[0-9]+|[0-9]{6,}\.(log|sst|blob|dbtmp)"
)
_ROWS = re.compile(r"[0-9]{6,}\.(log|sst|blob)")
_LISTED = 100
"""Places of one row that are told one by one."""


@dataclass(frozen=True, slots=True)
class KnownPlace:
    """A kind of file or directory in a store root.

    Attributes:
        path: relative to the root; the last part may be a glob.
        since: the release that first makes it; for what all brokers have in common, the oldest one known.
        code: what names it to people; None where it is examined, or of no interest.
        holds: what must be in it, names or globs; else it is another thing of that name.
    """

    path: str
    since: str
    code: FindingCode | None = None
    holds: tuple[str, ...] = ()

    def found_in(self, root: Location) -> Iterator[Location]:
        """Yield the places of this kind that are there, by name."""
        return (place for place in root.matching(self.path) if _holds(place, self.holds))


PLACES = (
    KnownPlace("consumequeue", "5.2.0", ST_ROCKSDB, _DATABASE),
    KnownPlace("consumequeue_r", "5.2.0", ST_ROCKSDB, _DATABASE),
    KnownPlace("consumequeue_rocksdb", "5.5.0", ST_ROCKSDB, _DATABASE),
    KnownPlace("index", "5.2.0", ST_ROCKSDB, _DATABASE),
    KnownPlace("config/topics", "5.1.4", ST_ROCKSDB, _DATABASE),
    KnownPlace("config/consumerOffsets", "5.1.4", ST_ROCKSDB, _DATABASE),
    KnownPlace("config/subscriptionGroups", "5.1.4", ST_ROCKSDB, _DATABASE),
    KnownPlace("config/rdb", "5.3.2", ST_ROCKSDB, _DATABASE),
    KnownPlace("config/metadata", "5.3.4", ST_ROCKSDB, _DATABASE),
    KnownPlace(ROCKSDB_STORE, "5.4.0", ST_ROCKSDB_BESIDE),
    KnownPlace("kvStore", "5.3.2", ST_POP, _DATABASE),
    KnownPlace("dledger-*", "4.5.0", ST_DLEDGER, ("data",)),
    KnownPlace("timerwheel", "5.0.0", ST_TIMER),
    KnownPlace("timerwheel.[0-9]*", "5.3.4", ST_TIMER),
    KnownPlace("timerlog", "5.0.0", ST_TIMER),
    KnownPlace("compaction", "5.1.0"),
    KnownPlace("compaction/compactionLog", "5.1.0", ST_COMPACTION),
    KnownPlace("tiered_index_file", "5.2.0", ST_TIERED),
    KnownPlace("config/tieredStoreMetadata.json", "5.1.0", ST_TIERED),
    KnownPlace("abort.bak", "5.0.0"),
    KnownPlace("batchconsumequeue", "5.0.0"),
    KnownPlace("epochFileCheckpoint", "5.0.0"),
    KnownPlace("brokerIdentity", "5.1.1"),
    KnownPlace("config/timercheck", "5.0.0"),
    KnownPlace("config/timermetrics", "5.0.0"),
    KnownPlace("config/topicQueueMapping.json", "5.0.0"),
    KnownPlace("config/consumerOrderInfo.json", "5.0.0"),
    KnownPlace("config/messageRequestMode.json", "5.0.0"),
)


@dataclass(frozen=True, slots=True)
class Feature:
    """Something in the store that is recognised by its name and left alone.

    Attributes:
        code: What it is.
        label: Its path relative to the store.
        is_empty: Whether it is there and holds nothing, as is normal for it.
    """

    code: FindingCode
    label: str
    is_empty: bool = False


def features_of(root: Location) -> tuple[Feature, ...]:
    """Name what a store root holds beside the structures that are examined."""
    found = []
    for place in PLACES:
        if place.code is not None:
            for path in islice(place.found_in(root), _LISTED):
                code = _code_of(root, place.path, place.code)
                is_empty = place.path == ROCKSDB_STORE and not _has_rows(path)
                found.append(Feature(code, path.relative_to(root), is_empty))
    return tuple(found)


def _code_of(root: Location, path: str, code: FindingCode) -> FindingCode:
    """Return what a place is: queues in RocksDB are a copy where file queues are there as well.

    A broker that writes its queues twice reads the file queues
    (``MessageStoreConfig#rocksdbCQDoubleWriteEnable``, 5.3.3+).
    """
    is_copy = path in _QUEUE_DATABASES and _has_queue_files(root / _FILE_QUEUES)
    return ST_ROCKSDB_BESIDE if is_copy else code


def is_rocksdb(directory: Location) -> bool:
    """Tell whether RocksDB holds what a directory is for, in it or beside it, and no file queues are there.

    ``useSeparateStorePathForRocksdbCQ`` (5.5.0+) puts it beside (``StorePathConfigHelper``).
    """
    separate = directory.with_name(directory.name + "_rocksdb")
    is_there = _holds(directory, _DATABASE) or _holds(separate, _DATABASE)
    return is_there and not _has_queue_files(directory)


def rocksdb_files(directory: Location, names: Iterable[str]) -> set[str]:
    """Return those of the names in a directory that are files of a RocksDB database that lies there."""
    if not _holds(directory, _DATABASE):
        return set()
    return {name for name in names if _ROCKSDB_FILE.fullmatch(name)}


def _holds(directory: Location, names: tuple[str, ...]) -> bool:
    return all(any(directory.matching(name)) for name in names)


def _has_queue_files(directory: Location) -> bool:
    return any(directory.matching(_QUEUE_FILES))


def _has_rows(directory: Location) -> bool:
    """Tell whether any row was ever written into a database; True where that cannot be told.

    Rows are in tables and in the log of what is not yet in a table; what an empty database writes into its
    MANIFEST is no row.
    """
    try:
        return any(_ROWS.fullmatch(name) and status.size_bytes > 0 for name, status in directory.entries())
    except EnvironmentFailureError:
        return True
