"""Parts of a store that are named and not examined: other storage engines and side structures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.findings.places import ST_COMPACTION, ST_DLEDGER, ST_POP, ST_ROCKSDB, ST_TIERED, ST_TIMER

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rmqtool.findings import FindingCode

_ROCKSDB_PLACES = (
    "consumequeue",
    "consumequeue_r",
    "index",
    "config/topics",
    "config/consumerOffsets",
    "config/subscriptionGroups",
    "config/rdb",
)
# A broker on file queues keeps it as well, so it says nothing of the store's engine.
_POP_RECORDS = "kvStore"
_QUEUE_FILES = "*/*/" + 20 * "[0-9]"
_ROCKSDB_FILE = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG(\.old\.[0-9]+)?|(MANIFEST|OPTIONS)-[0-9]+|[0-9]{6,}\.(log|sst|blob|dbtmp)"
)
_SIDE_STRUCTURES = (
    ("timerwheel", ST_TIMER),
    ("timerlog", ST_TIMER),
    ("compaction/compactionLog", ST_COMPACTION),
    ("tiered_index_file", ST_TIERED),
    ("config/tieredStoreMetadata.json", ST_TIERED),
)


@dataclass(frozen=True, slots=True)
class Feature:
    """Something in the store that is recognised by its name and left alone.

    Attributes:
        code: What it is.
        label: Its path relative to the store.
    """

    code: FindingCode
    label: str


def features_of(root: Path) -> tuple[Feature, ...]:
    """Name what a store root holds beside the structures that are examined."""
    found = [Feature(ST_ROCKSDB, name) for name in _ROCKSDB_PLACES if is_rocksdb(root / name)]
    found += [Feature(ST_POP, _POP_RECORDS)] if is_rocksdb(root / _POP_RECORDS) else []
    found += [
        Feature(ST_DLEDGER, path.parent.name) for path in sorted(root.glob("dledger-*/data")) if path.is_dir()
    ]
    found += [Feature(code, name) for name, code in _SIDE_STRUCTURES if (root / name).exists()]
    return tuple(found)


def is_rocksdb(directory: Path) -> bool:
    """Tell whether a directory is a RocksDB database, and no file queues lie beside its files.

    A broker that writes its queues twice keeps both in ``consumequeue/`` and reads the file queues
    (``MessageStoreConfig#rocksdbCQDoubleWriteEnable``, 5.3.3).
    """
    return _has_rocksdb(directory) and not any(directory.glob(_QUEUE_FILES))


def rocksdb_files(directory: Path, names: Iterable[str]) -> set[str]:
    """Return those of the names in a directory that are files of a RocksDB database that lies there."""
    return {name for name in names if _ROCKSDB_FILE.fullmatch(name)} if _has_rocksdb(directory) else set()


def _has_rocksdb(directory: Path) -> bool:
    return (directory / "CURRENT").is_file() and any(directory.glob("MANIFEST-*"))
