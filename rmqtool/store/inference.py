"""Settings of the broker, inferred from the store's files: their sizes, names and contents."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, groupby, islice, pairwise
from typing import TYPE_CHECKING, TypeVar

from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.formats.checkpoint import CHECKPOINTS, CheckpointFields
from rmqtool.formats.consumequeue import BATCH_UNIT_SIZE, PREBLANK_SIZE, UNIT_SIZE, UNITS
from rmqtool.formats.index import HEADER_SIZE, HEADERS, ITEM_SIZE, ITEMS, item_position
from rmqtool.formats.message import (
    HEAD_SIZES,
    MAGIC_V2,
    PROPERTIES_LENGTH,
    RECORD_MAGICS,
    TOPIC_LENGTHS,
    MessageHead,
    decode_head,
    host_variant,
)
from rmqtool.io import FileKind, Location
from rmqtool.javacompat import decode_utf8, has_tag_item, item_hashes, item_keys, parse_properties
from rmqtool.store.broker_conf import (
    BROKER_VERSION,
    INDEX_NUMBERS,
    INDEX_TIMEZONE,
    Origin,
    Setting,
    SettingValue,
)
from rmqtool.store.broker_json import ConfigFileError, ConfigSource, batch_queue_topics, load_broker_json
from rmqtool.store.broker_version import (
    FIRST_WITH_TAG_ITEMS,
    FORM_OF_OFFSETS,
    OLDEST_5,
    Signs,
    has_newer_offsets,
    newest_sign,
    places_since,
    rocksdb_of_last_start,
    version_of,
)
from rmqtool.store.files import TREE_DEPTH, QueueFiles, StoreFiles
from rmqtool.store.geometry import Geometry, geometry_of_size, infer_geometry, infer_index_zone, own_geometry
from rmqtool.store.kinds import CONFIG_DIRECTORY, CONVERT_REPORT, REBUILD_REPORT, SALVAGE_REPORT, PathKind
from rmqtool.store.segments import FileQueue, Segment, StoreFile
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    _Owned = tuple[Segment, bool | None]


_LARGEST_SIZE = (1 << 31) - 1  # the settings are Java ints
_CANDIDATES = 16


def infer_file_size(queues: Sequence[Sequence[tuple[int, int]]], unit_size: int = 1) -> int | None:
    """Return the size that fits most files, a multiple of ``unit_size``; None without files.

    Files are created at full size and named by multiples of it, so sizes, names and distances of names all
    count; a cut or stray file is outvoted. Of equally good sizes the larger wins: copies lose bytes more
    often than they gain some.

    Args:
        queues: ``(start, size in bytes)`` of the files of each queue, by start.
        unit_size: Bytes of a unit.
    """
    sizes: dict[int, int] = {}
    distances: dict[int, int] = {}
    for files in queues:
        for _, size in files:
            sizes[size] = sizes.get(size, 0) + 1
        for (one, _), (following, _) in pairwise(files):
            distances[following - one] = distances.get(following - one, 0) + 1
    candidates = {*_most_frequent(sizes), *_most_frequent(distances)}
    fitting = [size for size in candidates if 0 < size <= _LARGEST_SIZE and size % unit_size == 0]

    def votes(size: int) -> tuple[int, int]:
        named = sum(start % size == 0 for files in queues for start, _ in files)
        return sizes.get(size, 0) + distances.get(size, 0) + named, size

    return max(fitting, key=votes, default=None)


def _most_frequent(counts: dict[int, int]) -> list[int]:
    """Return the most frequent values; hostile directories may hold a file of every size."""
    return sorted(counts, key=lambda value: (counts[value], value), reverse=True)[:_CANDIDATES]


_LOOK_BYTES = 1 << 20


def is_of_log(segment: Segment) -> bool | None:
    """Return whether a log file begins with a record of its own offset; None if with zeros."""
    framing = segment.framing
    data = segment.read_at(0, framing.head_size, [])
    if not any(data[: framing.lead + 8]):
        return None
    head = framing.head(data)
    return head.magic in RECORD_MAGICS and head.physical_offset == segment.start + framing.lead


def is_of_queue(segment: Segment, log: FileQueue) -> bool | None:
    """Return whether a queue file's first unit leads to a record of its size; None if unknown."""
    unit = UNITS.padded(segment.read_at(0, UNITS.size, []))
    if unit.size <= 0 or unit.size == PREBLANK_SIZE:
        return None
    head = _head_at(log, unit.physical_offset)
    return head if isinstance(head, bool | None) else head.total_size == unit.size


def is_of_index(file: StoreFile, log: FileQueue) -> bool | None:
    """Return whether the header of an index file fits records of the log; None if the log cannot say."""
    header = HEADERS.padded(file.read_at(0, HEADERS.size, []))
    if header.index_count <= 1:
        return None
    answers = [
        head if isinstance(head, bool | None) else head.store_timestamp_ms == timestamp_ms
        for head, timestamp_ms in (
            (_head_at(log, header.begin_phy_offset), header.begin_timestamp_ms),
            (_head_at(log, header.end_phy_offset), header.end_timestamp_ms),
        )
    ]
    return True if True in answers else False if False in answers else None


def holds_bytes(file: StoreFile) -> bool:
    """Return whether an index file has bytes after its header, as far as one short read shows."""
    start = file.next_written(HEADER_SIZE)
    return any(file.read_at(start, _LOOK_BYTES, []))


def _head_at(log: FileQueue, physical_offset: int) -> MessageHead | bool | None:
    """Return the head of a record; False without one, None where the log has nothing any more, or yet."""
    if not len(log) or physical_offset < log.start:
        return None
    segment = log.segment_at(physical_offset)
    if segment is None:
        return False if physical_offset >= log.stop else None
    head = decode_head(segment.read_at(physical_offset - segment.start, max(HEAD_SIZES), []))
    if head is None or head.magic not in RECORD_MAGICS or head.physical_offset != physical_offset:
        return False
    return head


_LONGEST_TEXT = 1 << 16  # topic and properties: each length is of two bytes, signed


def _text_at(log: FileQueue, physical_offset: int) -> tuple[str, dict[str, str]] | None:
    """Return topic and properties of a record; None where none lies, or they are cut."""
    head, segment = _head_at(log, physical_offset), log.segment_at(physical_offset)
    if not isinstance(head, MessageHead) or segment is None:
        return None
    start = physical_offset - segment.start + HEAD_SIZES[host_variant(head.sys_flag)]
    data, texts = segment.read_at(start + max(head.body_length, 0), _LONGEST_TEXT, []), []
    for width in (TOPIC_LENGTHS[head.magic], PROPERTIES_LENGTH):
        if len(data) < width.size:
            return None
        stop = width.size + max(width.unpack_from(data)[0], 0)
        texts.append(data[width.size : stop])
        data = data[stop:]
    return decode_utf8(texts[0]), parse_properties(texts[1])


_SAMPLED_ITEMS = 16


def holds_tag_item(file: StoreFile, geometry: Geometry, log: FileQueue) -> bool:
    """Return whether a sample of an index file's items has a message with all of its own, the tag's last.

    Brokers before 5.4.0 put none for the tag (`Release.tag_items`).
    """
    used = min(HEADERS.padded(file.read_at(0, HEADER_SIZE, [])).index_count, geometry.items) - 1
    for first in {max(1, used // 2), max(1, used + 1 - _SAMPLED_ITEMS)} if used > 0 else ():
        data = file.read_at(item_position(geometry.slots, first), _SAMPLED_ITEMS * ITEM_SIZE, [])
        items = [ITEMS.padded(data[at : at + ITEM_SIZE]) for at in range(0, len(data), ITEM_SIZE)]
        for place, of_message in groupby(items, key=lambda item: item.physical_offset):
            text = _text_at(log, place)
            hashes = [item.key_hash for item in of_message]
            if text is None or len(item_keys(text[1])) != len(hashes):
                continue
            if has_tag_item(text[1], item_hashes(*text), hashes):
                return True
    return False


_SAMPLED_QUEUES = 64
_SAMPLED_INDEX_FILES = 8
_EXAMINED_FILES = 4
_QUEUE_SIZES = {
    "mappedFileSizeConsumeQueue": (PathKind.CONSUMEQUEUE, UNIT_SIZE),
    "mappedFileSizeConsumeQueueExt": (PathKind.CONSUMEQUEUE_EXT, 1),
    "mapperFileSizeBatchConsumeQueue": (PathKind.BATCHCONSUMEQUEUE, BATCH_UNIT_SIZE),
}
"""Settings of the file sizes of queues: the kind, and the bytes of a unit."""

T = TypeVar("T")

_Found = tuple[Setting, ...]
"""The named setting, and others that the same files show; none without evidence."""


class SettingsInference:
    """Inferences about one store; each reads a bounded number of files, on first use."""

    def __init__(self, store: StoreFiles) -> None:
        self._store = store

    def size_of_log_files(self, name: str, _given: Mapping[str, Setting]) -> _Found:
        """Infer the size of the log's files."""
        return _size_of(name, [[(segment, _if_readable(is_of_log, segment)) for segment in self._log]], 1)

    def size_of_queue_files(self, name: str, _given: Mapping[str, Setting]) -> _Found:
        """Infer the file size of consume queues, their ext files, or batch queues."""
        kind, unit_size = _QUEUE_SIZES[name]
        queues = [self._with_owner(files, kind) for files in self._sample(kind)]
        return self._of_makers(_size_of(name, queues, unit_size))

    def _with_owner(self, files: FileQueue, kind: PathKind) -> list[_Owned]:
        """Return the files of a queue; for the first few, whether they belong to the log."""
        log = self._log
        owned: list[_Owned] = []
        for number, file in enumerate(files):
            is_own = None
            if kind is PathKind.CONSUMEQUEUE and number < _EXAMINED_FILES:
                with suppress(EnvironmentFailureError):
                    is_own = is_of_queue(file, log)
                file.close()
            owned.append((file, is_own))
        return owned

    def division(self, _name: str, given: Mapping[str, Setting]) -> _Found:
        """Infer both numbers of the index files at once; a given one decides the other.

        None if there is no index, or nothing explains the size of its files.
        """
        has_given = given.keys() & set(INDEX_NUMBERS)
        return self._of_makers(self._division(given) if has_given else self._proven_division)

    def _of_makers(self, sizes: _Found) -> _Found:
        """Add the doubt about sizes that a rebuild or salvage assumed when it made the files."""
        makers = self._assumed
        return tuple(
            replace(size, doubt=f"{makers[size.name]} says that these files were made with an assumed size")
            if size.name in makers and not size.doubt
            else size
            for size in sizes
        )

    @cached_property
    def _assumed(self) -> dict[str, str]:
        """Names of assumed sizes, with the report of the rebuild or salvage that made the files.

        A broker that has run since has settled them: it writes the checkpoint.
        """
        root, assumed = self._store.root, dict[str, str]()
        if root is None:
            return assumed
        for report in (REBUILD_REPORT, SALVAGE_REPORT, CONVERT_REPORT):
            made, run = (root / report).status(), (root / "checkpoint").status()
            if made is None or (run is not None and run.modified_ns > made.modified_ns):
                continue
            with suppress(ConfigFileError):
                document = load_broker_json(root / report)
                names = document.get("assumed") if isinstance(document, dict) else None
                assumed |= dict.fromkeys(map(str, names if isinstance(names, dict) else ()), report)
        return assumed

    @cached_property
    def _proven_division(self) -> _Found:
        return self._division({})

    def _division(self, given: Mapping[str, Setting]) -> _Found:
        files = self._index_files[-_SAMPLED_INDEX_FILES:]
        own = list(filter(partial(_may_be_of_log, self._log), files))
        size = infer_file_size([[(0, file.size_bytes) for file in own or files]])
        if size is None:
            return ()
        slots, items = (_int_of(given.get(name)) for name in INDEX_NUMBERS)
        doubt = ""
        if slots is not None or items is not None:
            proven = geometry_of_size(size, slots=slots, items=items)
            geometry = proven or geometry_of_size(size)
        else:
            proven = _first_proof([file for file in own or files if file.size_bytes == size])
            geometry = proven or geometry_of_size(size)
            doubt = (
                ""
                if geometry is None
                else _doubt_of_index(files, own, geometry, is_proven=proven is not None)
            )
        if geometry is None:
            return ()
        origin, note = (
            (Origin.INFERRED, "contents of the index files")
            if proven
            else (Origin.DEFAULT, "default ratio of the file size; the contents prove none")
        )
        numbers = zip(INDEX_NUMBERS, (geometry.slots, geometry.items), strict=True)
        return tuple(Setting(name, value, origin, note, doubt=doubt) for name, value in numbers)

    def unexplained_index(self) -> str:
        """Return the doubt about index files whose division is unknown; empty if there are none."""
        files = self._index_files
        return f"no number of slots explains {files[-1].label}" if files else ""

    def ext_queues(self, name: str, _given: Mapping[str, Setting]) -> _Found:
        """Infer whether consume queues have ext files."""
        has_ext = any(self._sample(PathKind.CONSUMEQUEUE_EXT))
        has_any = has_ext or any(self._sample(PathKind.CONSUMEQUEUE))
        return _inferred(name, has_ext, "consumequeue_ext/") if has_any else ()

    def light_queues(self, name: str, _given: Mapping[str, Setting]) -> _Found:
        """Infer the use of queues of ``%LMQ%`` names, if there are any."""
        has_light = any(topic.startswith(LMQ_PREFIX) for topic in self._topics(PathKind.CONSUMEQUEUE))
        return _inferred(name, True, "%LMQ% directories") if has_light else ()

    def index_zone(self, name: str, _given: Mapping[str, Setting]) -> _Found:
        """Infer the time zone of the index files' names."""
        zone = infer_index_zone(self._index_files)
        if zone is None:
            return (Setting(name, None, Origin.DEFAULT, "this machine's zone"),)
        return _inferred(name, str(zone), "names of the index files against their begin times")

    def broker_version(self, _name: str, _given: Mapping[str, Setting]) -> _Found:
        """Infer the release that wrote the store last."""
        return (version_of(self.signs),)

    def batch_topics(self) -> frozenset[str]:
        """Return the topics with batch queues, by ``topics.json`` or by their files."""
        present = frozenset(self._topics(PathKind.BATCHCONSUMEQUEUE))
        root = self._store.root
        if root is None:
            return present
        try:
            return present | batch_queue_topics(ConfigSource(root).document("topics.json"))
        except ConfigFileError:
            return present  # reported by `rmqtool.store.layout`

    @cached_property
    def signs(self) -> Signs:
        """Signs of the brokers that wrote the store."""
        root = self._store.root
        if root is None:
            return Signs(since=self._first_magics_v2())
        checkpoint = self._checkpoint()
        newest_offset = checkpoint.logics_physical_offset
        older_offsets = checkpoint.master_flushed_offset, checkpoint.confirm_phy_offset
        newer_offsets = has_newer_offsets(root)
        since = newest_sign(
            places_since(root),
            ("5.5.0", "logicsPhysicalOffset in the checkpoint") if newest_offset else None,
            ("5.4.0", FORM_OF_OFFSETS) if newer_offsets else None,
            (OLDEST_5, "offsets in the checkpoint") if any(older_offsets) else None,
            (OLDEST_5, "process id in abort") if _size_of_file(root, "abort") > 0 else None,
        )
        signs = Signs(
            since=since or self._first_magics_v2(),
            rocksdb=rocksdb_of_last_start(root),
            has_older_offsets=newer_offsets is False,
            has_newer_offsets=newer_offsets is True,
            has_checkpoint=any(checkpoint),
            has_config=(root / CONFIG_DIRECTORY).is_open(),
            has_batch_queues=newer_offsets is None and bool(self.batch_topics()),  # else nothing is open
        )
        return signs if signs.touched_by_5_4 else signs._replace(since=self._tag_items() or signs.since)

    def _tag_items(self) -> tuple[str, str] | None:
        """Return the oldest release that puts tag items, and a file of the index that has one."""
        proven = (_int_of(size) for size in self._proven_division if size.origin is Origin.INFERRED)
        division, files = [number for number in proven if number is not None], self._index_files
        if not division:
            return None
        geometry = Geometry._make(division)
        for file in dict.fromkeys((*files[:: max(1, len(files) // _SAMPLED_INDEX_FILES)], *files[-1:])):
            if file.size_bytes == geometry.size_bytes and _if_readable(
                holds_tag_item, file, geometry, self._log
            ):
                return FIRST_WITH_TAG_ITEMS, f"tag items in {file.label}"
        return None

    @property
    def _log(self) -> FileQueue:
        with suppress(DeniedError):
            return self._store.commitlog
        return FileQueue((), ())

    @property
    def _index_files(self) -> tuple[StoreFile, ...]:
        with suppress(DeniedError):
            return self._store.index_files
        return ()

    def _topics(self, kind: PathKind) -> list[str]:
        with suppress(DeniedError):
            return self._store.topics(kind)
        return []

    def _sample(self, kind: PathKind) -> Iterator[FileQueue]:
        """Yield the files of some queues, but for unreadable ones (level 0 reports them)."""
        for queue in islice(self._queues(kind), _SAMPLED_QUEUES):
            with suppress(EnvironmentFailureError):
                yield queue.files

    def _queues(self, kind: PathKind) -> Iterator[QueueFiles]:
        """Yield queues topic by topic: an unreadable directory hides no other."""
        root = self._store.roots.get(kind)
        is_tree = root is not None and root.depth == TREE_DEPTH
        for topic in self._topics(kind) if is_tree else [None]:
            with suppress(EnvironmentFailureError):
                yield from self._store.queues(kind, topic)

    def _first_magics_v2(self) -> tuple[str, str] | None:
        for segment in chain(self._log.segments[:1], self._log.segments[-2:]):
            with suppress(DeniedError):
                if segment.framing.head(segment.read_at(0, segment.framing.head_size, [])).magic == MAGIC_V2:
                    return "5.1.0", "a V2 record"
        return None

    def _checkpoint(self) -> CheckpointFields:
        """Return the checkpoint's fields, zeros where it is missing or too short."""
        root = self._store.root
        if root is None or not _size_of_file(root, "checkpoint"):
            return CheckpointFields()
        with suppress(DeniedError):
            head = (root / "checkpoint").read_head(CHECKPOINTS.size, [])
            return CHECKPOINTS.decode(head) or CheckpointFields()
        return CheckpointFields()


def _if_readable(look: Callable[..., T | None], *files: object) -> T | None:
    """Return the result of reading a file; None if it may not be read."""
    with suppress(DeniedError):
        return look(*files)
    return None


def _size_of_file(root: Location, name: str) -> int:
    status = (root / name).status()
    return status.size_bytes if status is not None and status.kind is FileKind.FILE else 0


def _inferred(name: str, value: SettingValue, note: str, doubt: str = "") -> _Found:
    return (Setting(name, value, Origin.INFERRED, note, doubt=doubt),)


def _int_of(setting: Setting | None) -> int | None:
    return setting.value if setting is not None and isinstance(setting.value, int) else None


def _size_of(name: str, queues: Sequence[Sequence[_Owned]], unit_size: int) -> _Found:
    """Infer the size of files, a multiple of ``unit_size``, from those that belong to the log."""
    own = [[segment for segment, is_own in files if is_own is not False] for files in queues]
    misfits = [segment.label for files in queues for segment, is_own in files if is_own is False]
    if misfits and not any(own):
        own = [[segment for segment, _ in files] for files in queues]
    size = infer_file_size([[(file.start, file.size_bytes) for file in files] for files in own], unit_size)
    if size is None:
        return ()
    files = [segment for some in own for segment in some]
    other = [file.label for file in files if file.size_bytes != size or file.start % size]
    doubt = ""
    if misfits and len(misfits) >= len(files):
        doubt = f"{misfits[0]} and {len(misfits) - 1} more do not fit the log"
    elif 2 * len(other) >= len(files):
        doubt = f"{len(other)} of {len(files)} files contradict it, {other[0]} first"
    return _inferred(name, size, "sizes and names of the files", doubt)


def _first_proof(files: Sequence[StoreFile]) -> Geometry | None:
    for file in files:
        with suppress(DeniedError):
            if (geometry := infer_geometry(file)) is not None:
                return geometry
    return None


def _doubt_of_index(
    files: Sequence[StoreFile], own: Sequence[StoreFile], assumed: Geometry, *, is_proven: bool
) -> str:
    misfits = [file.label for file in files if file not in own]
    if misfits and len(misfits) >= len(own):
        return f"{misfits[0]} does not fit the log"
    if not is_proven:
        used = [file.label for file in files if _if_readable(holds_bytes, file)]
        return f"the contents of {used[0]} prove no number of slots" if used else ""
    other = list(filter(partial(_disputes, assumed), own))
    return f"{other[0].label} contradicts it" if 2 * len(other) >= len(own) else ""


def _may_be_of_log(log: FileQueue, file: StoreFile) -> bool:
    """Return whether an index file fits the log, as far as both may be read."""
    with suppress(DeniedError):
        return is_of_index(file, log) is not False
    return True


def _disputes(geometry: Geometry, file: StoreFile) -> bool:
    """Return whether an index file shows another division, as far as it may be read."""
    with suppress(DeniedError):
        return file.size_bytes != geometry.size_bytes or own_geometry(file, geometry) is not None
    return False


INFERENCES: dict[str, Callable[[SettingsInference, str, Mapping[str, Setting]], _Found]] = {
    "mappedFileSizeCommitLog": SettingsInference.size_of_log_files,
    **dict.fromkeys(_QUEUE_SIZES, SettingsInference.size_of_queue_files),
    **dict.fromkeys(INDEX_NUMBERS, SettingsInference.division),
    "enableConsumeQueueExt": SettingsInference.ext_queues,
    "enableMultiDispatch": SettingsInference.light_queues,
    "enableLmq": SettingsInference.light_queues,
    BROKER_VERSION: SettingsInference.broker_version,
    INDEX_TIMEZONE: SettingsInference.index_zone,
}
"""Inferences of settings, which receive the setting's name and the settings so far."""
