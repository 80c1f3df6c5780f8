"""Kinds of files in a store: their places, their layouts, how to recognise their bytes, and what a PATH is.

A new kind is a row here. Commands have one table each by the same kinds: rows in `rmqtool.commands.dump.run`,
comparison in `rmqtool.commands.diff.run`, checks in `rmqtool.check.derived`; a test compares them.

A row of `PLACES` names a path beside these, the release that first makes it, and the finding that reports it,
so the rows also show which broker wrote here (`rmqtool.store.broker_version`).
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import FindingCode, codes
from rmqtool.formats import Decoder, checkpoint, consumequeue, entry, index, message
from rmqtool.formats.checkpoint import CHECKPOINT_FILE_SIZE, CHECKPOINTS
from rmqtool.formats.consumequeue import (
    BATCH_COMPACTED_OFFSET,
    BATCH_UNITS,
    EXT_HEADS,
    PREBLANK_SIZE,
    UNITS,
    UnitFields,
)
from rmqtool.formats.entry import ENTRIES, ENTRY_MAGIC, ENTRY_UNITS
from rmqtool.formats.framing import PLAIN
from rmqtool.formats.index import HEADERS, SLOT_SIZE
from rmqtool.formats.message import RECORD_MAGICS
from rmqtool.io import FileKind, Location, ReadOnlyFile
from rmqtool.store.ledger import DATA, ENTRY_INDEX, MEMBERS, PROGRESS, is_data, is_member
from rmqtool.store.names import INDEX_NAME_DIGITS, digits_of
from rmqtool.store.segments import NAME_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


_EARLIEST_MS = 1_262_304_000_000  # 2010, before the first broker
_LATEST_MS = 4_102_444_800_000  # 2100
_HEAD_BYTES = 4096
_LARGEST_MESSAGE_BYTES = 1 << 28  # 64 times maxMessageSize
_LARGEST_LOG_BYTES = 1 << 50


class PathKind(StrEnum):
    """Kinds of PATH; the values but ``store`` are those of ``--type``."""

    STORE = "store"
    COMMITLOG = "commitlog"
    CONSUMEQUEUE = "consumequeue"
    CONSUMEQUEUE_EXT = "consumequeue-ext"
    BATCHCONSUMEQUEUE = "batchconsumequeue"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    ENTRY_INDEX = "entry-index"
    CONFIG = "config"


class StoreFileKind(NamedTuple):
    """One kind of file.

    ``directory`` is its place in a store root (``StorePathConfigHelper``), None where it has none of its own;
    with ``is_queue`` its files lie in ``TOPIC/QUEUEID`` below. ``schemas`` are its layouts by the names of
    ``dump --layout``; ``units`` decodes units of one length. ``recognises`` takes a file's first bytes and
    its size; the lowest ``rank`` is the surest sign and is tried first.
    """

    kind: PathKind
    directory: str | None = None
    is_queue: bool = False
    schemas: Mapping[str, Any] = {}
    units: Decoder[Any] | None = None
    recognises: Callable[[bytes, int], bool] | None = None
    rank: int = 0


def kind_of_bytes(file: ReadOnlyFile) -> PathKind | None:
    """Return the kind that a file's first bytes fit, or None; zeros fit nothing.

    The surest signs are tried first: a magic, then headers with times, then bare units.
    """
    size_bytes = file.current_size()
    head = file.read_at(0, _HEAD_BYTES, [])
    for kind in sorted(KINDS.values(), key=lambda structure: structure.rank):
        if kind.recognises is not None and kind.recognises(head, size_bytes):
            return kind.kind
    return None


def _is_time(timestamp_ms: int) -> bool:
    return _EARLIEST_MS <= timestamp_ms < _LATEST_MS


def _is_commitlog(head: bytes, _size_bytes: int) -> bool:
    start = PLAIN.head(head)
    return start.total_size > 0 and (start.is_end or start.magic in RECORD_MAGICS)


def _is_checkpoint(head: bytes, size_bytes: int) -> bool:
    fields = CHECKPOINTS.decode(head)
    if fields is None or size_bytes != CHECKPOINT_FILE_SIZE or any(head[CHECKPOINTS.size :]):
        return False
    times = fields.physic_msg_timestamp_ms, fields.logics_msg_timestamp_ms, fields.index_msg_timestamp_ms
    return any(times) and all(time == 0 or _is_time(time) for time in times)


def _is_index(head: bytes, size_bytes: int) -> bool:
    header = HEADERS.decode(head)
    if header is None or size_bytes % SLOT_SIZE:
        return False
    begin, end, begin_phy, end_phy, used, count = header
    return bool(
        _is_time(begin) and begin <= end < _LATEST_MS and 0 <= begin_phy <= end_phy and used >= 0 < count
    )


def _is_unit(head: bytes, size_bytes: int) -> bool:
    """Bare units have no magic: text of such a length would be units, too, at offsets that no log reaches."""
    if size_bytes % UNITS.size:
        return False
    ends = range(UNITS.size, len(head) + 1, UNITS.size)
    units = [unit for end in ends if (unit := UNITS.decode(head[end - UNITS.size : end])) is not None]
    begun = [unit for unit in units if unit.physical_offset or unit.size]
    return bool(units) and units[0] in begun and all(map(_leads_into_a_log, begun))


def _leads_into_a_log(unit: UnitFields) -> bool:
    fits = 0 < unit.size <= _LARGEST_MESSAGE_BYTES or unit == (0, PREBLANK_SIZE, 0)
    return fits and 0 <= unit.physical_offset < _LARGEST_LOG_BYTES


def _is_batch_unit(head: bytes, size_bytes: int) -> bool:
    unit = BATCH_UNITS.decode(head)
    if unit is None or size_bytes % BATCH_UNITS.size or unit.physical_offset < 0 or unit.size <= 0:
        return False
    plausible = unit.msg_base_offset >= 0 and unit.batch_size > 0 and _is_time(unit.store_timestamp_ms)
    return plausible and unit.compacted_offset == BATCH_COMPACTED_OFFSET


def _is_ext_unit(head: bytes, _size_bytes: int) -> bool:
    unit = EXT_HEADS.decode(head)
    if unit is None or unit.bit_map_size < 0:
        return False
    return unit.size == EXT_HEADS.size + unit.bit_map_size and _is_time(unit.store_timestamp_ms)


def _is_entry_unit(head: bytes, size_bytes: int) -> bool:
    units = ENTRY_UNITS.decode(head), ENTRY_UNITS.decode(head, ENTRY_UNITS.size)
    if units[0] is None or size_bytes % ENTRY_UNITS.size:
        return False
    first, second = units[0], units[1] or units[0]
    follows = second.index == first.index + 1 or not any(second) or units[1] is None
    return first.magic == ENTRY_MAGIC and first.size > ENTRIES.size and first.pos >= 0 and follows


KINDS: dict[PathKind, StoreFileKind] = {
    kind.kind: kind
    for kind in (
        StoreFileKind(
            PathKind.COMMITLOG,
            directory="commitlog",
            schemas={
                "message": message.MESSAGE,
                "blank": message.END_MARK,
                "inner-message": message.INNER_MESSAGE,
                "entry": entry.ENTRY,
                "entry-end": entry.ENTRY_END,
            },
            recognises=_is_commitlog,
            rank=1,
        ),
        StoreFileKind(
            PathKind.CONSUMEQUEUE,
            directory="consumequeue",
            is_queue=True,
            schemas={"unit": consumequeue.UNIT},
            units=UNITS,
            recognises=_is_unit,
            rank=6,
        ),
        StoreFileKind(
            PathKind.CONSUMEQUEUE_EXT,
            directory="consumequeue_ext",
            is_queue=True,
            schemas={"ext-unit": consumequeue.EXT_UNIT},
            recognises=_is_ext_unit,
            rank=7,
        ),
        StoreFileKind(
            PathKind.BATCHCONSUMEQUEUE,
            directory="batchconsumequeue",
            is_queue=True,
            schemas={"batch-unit": consumequeue.BATCH_UNIT},
            units=BATCH_UNITS,
            recognises=_is_batch_unit,
            rank=5,
        ),
        StoreFileKind(
            PathKind.INDEX,
            directory="index",
            schemas={"index-header": index.HEADER, "slot": index.SLOT, "item": index.ITEM},
            recognises=_is_index,
            rank=3,
        ),
        StoreFileKind(
            PathKind.CHECKPOINT,
            schemas={"checkpoint": checkpoint.CHECKPOINT},
            recognises=_is_checkpoint,
            rank=2,
        ),
        StoreFileKind(
            PathKind.ENTRY_INDEX,
            schemas={"entry-unit": entry.ENTRY_UNIT},
            units=ENTRY_UNITS,
            recognises=_is_entry_unit,
            rank=4,
        ),
        StoreFileKind(PathKind.CONFIG),
    )
}

QUEUE_KINDS = tuple(kind.kind for kind in KINDS.values() if kind.is_queue)

UNIT_QUEUE_KINDS = tuple(kind for kind in QUEUE_KINDS if KINDS[kind].units is not None)
"""Queues that number messages; an ext queue only adds to a consume queue's units."""

ONLY_SHOWN: dict[str, str] = {
    kind: f"holds {what}; name the store root here, or use dump to show them"
    for kind, what in (
        (PathKind.CONFIG, "settings of the broker"),
        (PathKind.ENTRY_INDEX, "units of DLedger's entries"),
    )
}
"""Kinds of which a PATH is dumped, and nothing else is done with it."""

DIRECTORY_NAMES: dict[PathKind, str] = {
    kind.kind: kind.directory for kind in KINDS.values() if kind.directory is not None
}


CONFIG_DIRECTORY, BACKUP = "config", ".bak"
REBUILD_REPORT, SALVAGE_SIDECARS = "rebuild.json", "salvage"
SALVAGE_REPORT = f"{SALVAGE_SIDECARS}/salvage.json"
CONVERT_REPORT = "convert.json"
"""Reports in results, and in stores with such a result; where one exists, the result is complete."""

KIND_OF_DIRECTORY = {name: kind for kind, name in DIRECTORY_NAMES.items()}


class Place(NamedTuple):
    """Kind of a PATH, links kept.

    ``root`` is the store root around it, if its place shows one; the path itself for a store. ``depth``
    counts a queue tree's levels down to queue directories: 2 for ``consumequeue/``, 1 for a topic, 0 for a
    queue or one file of it.
    """

    path: Location
    kind: PathKind
    is_file: bool
    root: Location | None
    depth: int = 0


def find_place(path: Location, kind: PathKind | None = None, *, has_log: bool = False) -> Place:
    """Find out what a PATH is, from its place and its bytes; ``kind`` is the user's ``--type``.

    With ``has_log``, the user names a commit log elsewhere, so an empty directory can be a root.
    """
    status = path.status()
    if status is not None and status.kind is FileKind.FILE:
        return _place_of_file(path, kind)
    if status is not None and status.kind is FileKind.DIRECTORY:
        return _place_of_directory(path, PathKind.STORE if has_log and kind is None else kind)
    said = "No such file or directory" if status is None else status.reason or f"is {status.kind}"
    raise EnvironmentFailureError(f"{path}: {said}; give a store root or a part of one")


def is_config_name(name: str) -> bool:
    """Return whether a name is that of one of the broker's JSON files, or the ``.bak`` of one."""
    return name.removesuffix(BACKUP).endswith(".json")


def looks_like_store(path: Location) -> bool:
    """Return whether a directory is a store root, by the names in it."""
    if (path / "commitlog").is_directory():
        return path.name not in KIND_OF_DIRECTORY or (path / "checkpoint").is_regular()
    if path.name in KIND_OF_DIRECTORY:
        return False
    derived = any((path / name).is_directory() for name in DIRECTORY_NAMES.values())
    return derived or (path / "checkpoint").is_regular() or any(path.matching(f"{MEMBERS}/{DATA}"))


def _place_of_file(path: Location, kind: PathKind | None) -> Place:
    if kind is PathKind.STORE:
        raise UsageError(f"{path}: is a file, not a store root")
    placed = _kind_in_member(path) or _kind_from_ancestors(path)
    if placed is None:
        with path.reader() as file:
            detected = kind_of_bytes(file)
        placed = (detected, None) if detected else None
    if kind is not None:
        return Place(path, kind, True, placed[1] if placed and placed[0] is kind else None)
    if placed is None:
        raise EnvironmentFailureError(
            f"{path}: is not a recognised file of a store; name its kind with --type"
        )
    return Place(path, placed[0], True, placed[1])


def _kind_from_ancestors(path: Location) -> tuple[PathKind, Location | None] | None:
    parent = path.parent
    if path.name == "checkpoint":
        return PathKind.CHECKPOINT, parent
    if is_config_name(path.name):
        return PathKind.CONFIG, _root_of_config(parent)
    if parent.name == "index" and digits_of(path.name, INDEX_NAME_DIGITS) is not None:
        return PathKind.INDEX, parent.parent
    if digits_of(path.name, NAME_DIGITS) is None:
        return None
    if parent.name == "commitlog" or is_data(parent):
        return PathKind.COMMITLOG, parent.parent.parent if is_data(parent) else parent.parent
    kind = KIND_OF_DIRECTORY.get(parent.parent.parent.name)
    return (kind, parent.parent.parent.parent) if kind in QUEUE_KINDS and parent.name.isdecimal() else None


def _kind_in_member(path: Location) -> tuple[PathKind, Location] | None:
    """Return what a file beside the entries of a member of DLedger is, and the store root."""
    member = path.parent
    if path.name.removesuffix(BACKUP) in PROGRESS and is_member(member):
        return PathKind.CONFIG, member.parent
    is_of_units = member.name == ENTRY_INDEX and digits_of(path.name, NAME_DIGITS) is not None
    return (PathKind.ENTRY_INDEX, member.parent.parent) if is_of_units and is_member(member.parent) else None


def _root_of_config(directory: Location) -> Location | None:
    is_inside = directory.name == CONFIG_DIRECTORY and looks_like_store(directory.parent)
    return directory.parent if is_inside else None


def _place_of_directory(path: Location, kind: PathKind | None) -> Place:
    is_config = kind is None and path.name == CONFIG_DIRECTORY and any(path.matching("*.json*"))
    if is_config or kind is PathKind.CONFIG:
        return Place(path, PathKind.CONFIG, False, _root_of_config(path))
    if kind is PathKind.CHECKPOINT:
        raise UsageError(f"{path}: is a directory, a checkpoint is a file")
    if kind in {None, PathKind.ENTRY_INDEX} and path.name == ENTRY_INDEX and is_member(path.parent):
        return Place(path, PathKind.ENTRY_INDEX, False, path.parent.parent)
    if kind is None and is_member(path):
        raise EnvironmentFailureError(
            f"{path}: is a member of a DLedger group: give {DATA}/ or another part in it, or the store root"
        )
    if kind is PathKind.STORE or (kind is None and looks_like_store(path)):
        return Place(path, PathKind.STORE, False, path)
    if is_data(path) and kind in {None, PathKind.COMMITLOG}:
        return Place(path, PathKind.COMMITLOG, False, path.parent.parent)
    for depth, ancestor in ((2, path), (1, path.parent), (0, path.parent.parent)):
        named = KIND_OF_DIRECTORY.get(ancestor.name)
        if (
            named is None
            or (depth < 2 and named not in QUEUE_KINDS)
            or (kind is not None and named is not kind)
        ):
            continue
        return Place(path, named, False, ancestor.parent, depth if named in QUEUE_KINDS else 0)
    detected = kind or _kind_from_contents(path)
    if detected is None:
        raise EnvironmentFailureError(
            f"{path}: is not a store (no commitlog/ in it). For a file outside a store, add --type"
        )
    return Place(path, detected, False, None, _queue_depth(path) if detected in QUEUE_KINDS else 0)


def _kind_from_contents(path: Location) -> PathKind | None:
    """Recognise a directory of files by the name and the bytes of the first one."""
    names = [name for name, status in path.entries() if status.kind is FileKind.FILE]
    if any(digits_of(name, INDEX_NAME_DIGITS) is not None for name in names):
        return PathKind.INDEX
    for name in names:
        if digits_of(name, NAME_DIGITS) is not None:
            with (path / name).reader() as file:
                return kind_of_bytes(file)
    return None


def _queue_depth(path: Location) -> int:
    names = [name for name, status in path.entries() if status.kind is FileKind.DIRECTORY]
    if not names:
        return 0
    return 1 if all(name.isdecimal() for name in names) else 2


ROCKSDB_STORE = "rocksdbstore"
"""Every start of 5.4.0+ makes it (``DefaultMessageStore#<init>``); empty unless a setting uses it."""

DATABASE = ("CURRENT", "MANIFEST-*", "*.sst")
FILE_QUEUES = "consumequeue"
QUEUE_DATABASES = (FILE_QUEUES, "consumequeue_r", "consumequeue_rocksdb")
_DLEDGER = (DATA, "index", "currterm", "checkpoint")
_QUEUE_FILES = "*/*/" + 20 * "[0-9]"
_ROCKSDB_FILE = (
    r"CURRENT|IDENTITY|LOCK|LOG(\.old\.[0-9]+)?|(MANIFEST|OPTIONS)-[0-9]+|[0-9]{6,}\.(log|sst|blob|dbtmp)"
)


class KnownPlace(NamedTuple):
    """Kind of file or directory in a store root.

    ``path`` may end in a glob. ``since`` is the release that first makes it, or the oldest known one for
    places that all brokers make. One of the names or globs in ``holds`` must be in it. Without a ``code``, it
    is examined elsewhere or of no interest.
    """

    path: str
    since: str
    code: FindingCode | None = None
    holds: tuple[str, ...] = ()

    def found_in(self, root: Location) -> list[Location]:
        """Return the existing places of this kind, by name."""
        places = list(root.matching(self.path))
        return list(filter(partial(holds, names=self.holds), places))


PLACES = (
    KnownPlace(FILE_QUEUES, "5.2.0", codes.ST_ROCKSDB, DATABASE),
    KnownPlace("consumequeue_r", "5.2.0", codes.ST_ROCKSDB, DATABASE),
    KnownPlace("consumequeue_rocksdb", "5.5.0", codes.ST_ROCKSDB, DATABASE),
    KnownPlace("index", "5.2.0", codes.ST_ROCKSDB, DATABASE),
    KnownPlace("config/topics", "5.1.4", codes.ST_ROCKSDB, DATABASE),
    KnownPlace("config/consumerOffsets", "5.1.4", codes.ST_ROCKSDB, DATABASE),
    KnownPlace("config/subscriptionGroups", "5.1.4", codes.ST_ROCKSDB, DATABASE),
    KnownPlace("config/rdb", "5.3.2", codes.ST_ROCKSDB, DATABASE),
    KnownPlace("config/metadata", "5.3.4", codes.ST_ROCKSDB, DATABASE),
    KnownPlace(ROCKSDB_STORE, "5.4.0", codes.ST_ROCKSDB_BESIDE),
    KnownPlace("kvStore", "5.3.2", codes.ST_POP, DATABASE),
    KnownPlace(MEMBERS, "4.5.0", codes.ST_DLEDGER, _DLEDGER),
    KnownPlace("timerwheel", "5.0.0", codes.ST_TIMER),
    KnownPlace("timerwheel.[0-9]*", "5.3.4", codes.ST_TIMER),
    KnownPlace("timerlog", "5.0.0", codes.ST_TIMER),
    KnownPlace("compaction", "5.1.0"),
    KnownPlace("compaction/compactionLog", "5.1.0", codes.ST_COMPACTION),
    KnownPlace("tiered_index_file", "5.2.0", codes.ST_TIERED),
    KnownPlace("config/tieredStoreMetadata.json", "5.1.0", codes.ST_TIERED),
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


def is_rocksdb(directory: Location) -> bool:
    """Whether RocksDB, in or beside a directory, holds what that is for, and no file queues do.

    ``useSeparateStorePathForRocksdbCQ`` (5.5.0+) puts it beside (``StorePathConfigHelper``).
    """
    separate = directory.with_name(directory.name + "_rocksdb")
    is_there = holds(directory, DATABASE) or holds(separate, DATABASE)
    return is_there and not has_queue_files(directory)


def rocksdb_files(directory: Location, names: Iterable[str]) -> set[str]:
    """Return the names that are files of a RocksDB database in the directory."""
    if not holds(directory, DATABASE):
        return set()
    return {name for name in names if re.fullmatch(_ROCKSDB_FILE, name)}


def holds(directory: Location, names: tuple[str, ...]) -> bool:
    """Return whether a directory holds one of the names or globs, if there are any."""
    return not names or any(directory.matching(*names))


def has_queue_files(directory: Location) -> bool:
    """Return whether a directory of topics has a file of a queue."""
    return any(directory.matching(_QUEUE_FILES))
