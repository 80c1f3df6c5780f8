"""The store in a broker's memory: loaded from its files, and fed by dispatch.

Origin of the index files that it loads and deletes, and of what it puts into them: ``IndexService#load``,
``#buildIndex``, ``IndexFile#putKey`` (4.9.8, 5.3.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.checkpoint import CheckpointFields
from rmqtool.formats.index import HEADERS, HeaderFields
from rmqtool.io import FileKind, Location
from rmqtool.javacompat import parse_long
from rmqtool.kernels.rows import NO_EXT_UNIT, MessageBatch, frame_stops
from rmqtool.recovery import (
    NO_CHANGE,
    Change,
    Dispatched,
    IndexFileOutcome,
    PredictionDraft,
    QueueOutcome,
    Refusal,
)
from rmqtool.recovery.batch_queue import BatchQueue
from rmqtool.recovery.loading import (
    LoadedFiles,
    load_compaction,
    load_files,
    load_member,
    load_queues,
    load_timer_wheel,
)
from rmqtool.recovery.log_recovery import read_checkpoint
from rmqtool.recovery.unit_queue import ExtFailureError, ExtFiles, QueueKey, UnitQueue
from rmqtool.releases import UncleanStart
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import find_log_end
from rmqtool.store import Setting, Settings, Store, broker_json
from rmqtool.store.broker_conf import Origin
from rmqtool.store.kinds import DIRECTORY_NAMES, PathKind
from rmqtool.store.ledger import is_data
from rmqtool.store.segments import Segment, label_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.releases import Release
    from rmqtool.reput.dispatcher import Dispatcher


_NO_FILE = "cannot be opened as an index file"


class IndexState:
    """The index files in their present state; ``items`` is ``maxIndexNum``, of which item 0 is never used.

    Loading lists labels of files that it deletes, and of entries that it skips (``ignored``); ``put_rows``
    are places and key hashes of the entries put since.
    """

    def __init__(self, items: int) -> None:
        self.items, self._capacity = items, items - 1
        self.outcomes: list[IndexFileOutcome] = []
        self._loaded: list[tuple[int, int]] = []
        self.deleted: list[str] = []
        self.ignored: list[str] = []
        self.refusals: list[Refusal] = []
        self.put_rows: list[Rows] = []

    @property
    def end_phy_offset(self) -> int:
        """Return endPhyOffset of the last file: messages below it are not indexed."""
        return self.outcomes[-1].end_phy_offset if self.outcomes else 0

    def load(
        self, paths: Iterable[Location], base: Location, release: Release, delete_after_ms: int | None
    ) -> None:
        """Load the entries of the index directory.

        After an unclean stop, files that end later than ``delete_after_ms`` (indexMsgTimestamp) are deleted.
        """
        is_over = False
        for path in sorted(paths, key=str):
            label = label_of(path, base)
            header = None if is_over or parse_long(path.name) is None else _header(path)
            if header is None:
                self.ignored.append(label)
                if not is_over and parse_long(path.name) is not None:
                    is_over = True  # 4.9.8 goes on without it and all that follow
                    self.refusals += [Refusal(label, _NO_FILE)] if release.refuses_unreadable_index else []
                continue
            if delete_after_ms is not None and header.end_timestamp_ms > delete_after_ms:
                self.deleted.append(label)
            else:
                items = max(header.index_count - 1, 0)
                self.outcomes.append(IndexFileOutcome(label, items, header.end_phy_offset))
                if items:
                    self._loaded.append((header.begin_phy_offset, header.end_phy_offset))

    def put(self, entries: Rows, keyless: Rows) -> None:
        """Put entries, ``(n,)`` of ``ENTRY_ROW``, in log order.

        A message without entries, one of ``keyless``, creates the successor of a full last file.
        """
        offsets = entries["physical_offset"]
        self.put_rows.append(entries[["physical_offset", "key_hash"]].copy())
        done = 0
        for idle in keyless["entries_before"] if len(keyless) else ():
            done = self._put(offsets, done, int(idle))
            self._last()
        self._put(offsets, done, len(offsets))

    def covers(self, offsets: Int64s) -> Bools:
        """Return which records the loaded files have entries of, by their ranges; ``(n,)``."""
        covered = np.zeros(len(offsets), np.bool_)
        for begin, end in self._loaded:
            covered |= (offsets >= begin) & (offsets <= end)
        return covered

    def _put(self, offsets: Int64s, start: int, stop: int) -> int:
        while start < stop:
            file = self._last()
            count = min(stop - start, self._capacity - file.items)
            file.items += count
            start += count
            file.end_phy_offset = int(offsets[start - 1])
        return stop

    def _last(self) -> IndexFileOutcome:
        """Java: ``getAndCreateLastIndexFile``, called for every message before its keys are read."""
        if not self.outcomes or self.outcomes[-1].items >= self._capacity:
            self.outcomes.append(IndexFileOutcome(None, 0, self.end_phy_offset))
        return self.outcomes[-1]


def _header(path: Location) -> HeaderFields | None:
    """Return the header, with zeros after the end of a short file; None where no file can be opened."""
    try:
        return HEADERS.padded(path.read_head(HEADERS.size, []))
    except EnvironmentFailureError:
        return None


Queue = UnitQueue | BatchQueue


class DispatchStallError(Exception):
    """A record whose LMQ offset is not a number, so that its dispatch fails; the argument is its place."""


@dataclass
class LoadedStore:
    """Log, checkpoint and derived files in the broker's memory; it changes the latter as the broker would.

    Attributes:
        log: files that the broker has loaded.
        unclean: whether ``abort`` is there.
        batch_topics: topics whose new queues are batch queues.
        log_offsets: ranges ``[first place, after the last place)`` of the records dispatched.
        without_unit: messages that have no unit in a queue: the queue, and their queue offsets and places.
        cut: places of the records that the start cuts off, ``(n,)``.
        entry_units: files of the index of DLedger's entries; none of a plain log.
    """

    log: list[Segment]
    checkpoint: CheckpointFields
    unclean: bool
    queues: dict[QueueKey, Queue]
    index: IndexState
    unit_file_size: int
    batch_file_size: int
    batch_topics: frozenset[str]
    tallies: dict[QueueKey, QueueOutcome] = field(default_factory=dict)
    log_offsets: list[tuple[int, int]] = field(default_factory=list)
    without_unit: list[tuple[QueueKey, Int64s, Int64s]] = field(default_factory=list)
    cut: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    entry_units: list[Segment] = field(default_factory=list)

    @property
    def max_physical_offset(self) -> int:
        """Return the largest ``maxPhysicOffset`` of any queue, -1 without queues."""
        return max((queue.max_physical_offset for queue in self.queues.values()), default=-1)

    def take(self, dispatcher: Dispatcher, batch: MessageBatch, done: Dispatched) -> None:
        """Dispatch a batch; what it makes is put by many units at a time, the rest by `put`.

        After a DispatchStallError the records before the failing one have been put.
        """
        if not len(batch.rows):
            return
        stalled = dispatcher.dispatch(batch)
        if stalled is not None:
            self.put(dispatcher, done)
            raise DispatchStallError(int(batch.rows["log_offset"][stalled]))
        log_offset, last = int(batch.rows["log_offset"][0]), int(batch.rows["log_offset"][-1])
        done.start = log_offset if done.start is None else done.start
        done.stop = int(frame_stops(batch.rows[-1:])[0])
        self.log_offsets.append((log_offset, last + 1))
        if dispatcher.taken().are_many:
            self.put(dispatcher, done)

    def put(self, dispatcher: Dispatcher, done: Dispatched) -> None:
        """Put what was dispatched and not put yet."""
        put = dispatcher.taken()
        done.messages += put.messages
        done.index_entries += len(put.entries)
        self.index.put(put.entries, put.keyless)
        for key, units in dispatcher.units_by_queue():
            done.units += self._put(key, units)
        dispatcher.clear()

    def truncate(self, physical_offset: int) -> None:
        """Drop what lies after the log's new end from all queues."""
        for queue in self.queues.values():
            queue.truncate(physical_offset)

    def destroy(self) -> None:
        """Delete all queues."""
        for queue in self.queues.values():
            queue.destroy()

    def is_dispatched(self, log_offsets: Int64s) -> Bools:
        """Return which records were dispatched, by their places, ``(n,)`` ascending."""
        if not self.log_offsets:
            return np.zeros(len(log_offsets), np.bool_)
        ranges = np.array(sorted(self.log_offsets), np.int64)
        stops = np.maximum.accumulate(ranges[:, 1])  # reput may begin before recovery did
        number = np.searchsorted(ranges[:, 0], log_offsets, "right") - 1
        are_dispatched: Bools = (number >= 0) & (log_offsets < stops[number])
        return are_dispatched

    def outcomes(self) -> list[QueueOutcome]:
        """Return the queues in their present state, by topic and queue id."""
        return [self._outcome(key, queue) for key, queue in sorted(self.queues.items())]

    def tally(self, key: QueueKey) -> QueueOutcome:
        """Return a queue with its counts so far."""
        if key not in self.tallies:
            self.tallies[key] = QueueOutcome(*key, self.queue(key).batch, 0, 0, 0, 0, 0, 0, 0)
        return self.tallies[key]

    def queue(self, key: QueueKey) -> Queue:
        """Return a queue, a new one without files if it does not exist."""
        if key not in self.queues:
            is_batch = key[0] in self.batch_topics
            self.queues[key] = (
                BatchQueue([], self.batch_file_size) if is_batch else UnitQueue([], self.unit_file_size)
            )
        return self.queues[key]

    def _outcome(self, key: QueueKey, queue: Queue) -> QueueOutcome:
        counts = self.tally(key)
        return replace(
            counts,
            found_max_offset=queue.found,
            min_offset=queue.minimum,
            max_offset=queue.maximum,
            missing=counts.missing + queue.cut_again,
        )

    def _put(self, key: QueueKey, units: Rows) -> int:
        queue = self.queue(key)
        if isinstance(queue, UnitQueue):
            queue.put_ext(int(np.count_nonzero(units["store_timestamp_ms"] != NO_EXT_UNIT)))
        last = units["batch_size" if queue.batch else "size"].astype(np.int64)
        put = queue.put(
            np.ascontiguousarray(units["queue_offset"]), np.ascontiguousarray(units["physical_offset"]), last
        )
        tally = self.tally(key)
        tally.appended += put.appended
        tally.misplaced += put.misplaced
        tally.dropped += int(np.count_nonzero(put.in_vain))
        if put.in_vain.any():
            in_vain = units[put.in_vain]
            places = in_vain["queue_offset"], in_vain["physical_offset"]
            self.without_unit.append((key, *places))
        return put.appended


# What the broker reads before, with or after the store; one that cannot be decoded keeps it from starting.
_CONFIG_FILES = (
    "topics.json",
    "consumerOffset.json",
    "subscriptionGroup.json",
    "consumerFilter.json",
    "delayOffset.json",
)


def load_store(
    store: Store, root: Location, settings: Settings, prediction: PredictionDraft, change: Change = NO_CHANGE
) -> LoadedStore:
    """Load a store as a broker with ``settings`` does; refusals and deletions are added to ``prediction``.

    Each queue by itself is recovered then; of rebuilt ones there is none yet, nor an index.
    """
    release, unclean = prediction.made.release, store.abort is not None and not change.is_clean
    size, units = settings.commitlog_file_size, LoadedFiles()
    directories = store.commitlog.directories
    log = load_files(
        [one for one in directories if not is_data(one)], store.base, size, release, change.aside
    )
    for data in filter(is_data, directories):
        entries, units = load_member(store, data, size, release, change.aside)
        log.segments += entries.segments
        log.refusals += entries.refusals
    prediction.add(refusals=_explained(log.refusals, settings["mappedFileSizeCommitLog"]))
    prediction.add(refusals=units.refusals)
    prediction.add(deleted_files=log.deleted.values())
    prediction.add(
        refusals=(refusal for refusal in _config_refusals(root) if refusal.file not in change.aside)
    )
    load_compaction(settings, root, store.base, prediction)
    load_timer_wheel(settings, root, prediction)
    checkpoint = read_checkpoint(root / "checkpoint")
    if isinstance(checkpoint, Refusal):
        prediction.add(refusals=[] if change.checkpoint else [checkpoint])
        checkpoint = CheckpointFields()
    if change.checkpoint:
        checkpoint = checkpoint_of_end(store, checkpoint) or checkpoint
    batch_topics = batch_topics_of(root) if release.batch_queues else frozenset()
    if "config/topics.json" in change.aside:
        batch_topics |= store.settings.batch_topics
    delete_after_ms = checkpoint.index_msg_timestamp_ms if unclean else None
    return LoadedStore(
        log.segments,
        checkpoint,
        unclean,
        _kept_queues(store, root, settings, batch_topics, prediction, change),
        IndexState(settings.index_geometry.items)
        if change.index
        else _load_index(store, root, settings.index_geometry.items, delete_after_ms, prediction),
        settings.consumequeue_file_size,
        settings.batchconsumequeue_file_size,
        batch_topics,
        entry_units=units.segments,
    )


def checkpoint_of_end(store: Store, old: CheckpointFields) -> CheckpointFields | None:
    """Return a checkpoint with the times of the log's last record; None for a log without any.

    The index's time is the last record's, too: all its files are complete, so a start after a crash need not
    delete any (``IndexService#load``). The fields of a controller or a replica stay; the place of the last
    record is for brokers that use it (5.5.0+, ``StoreCheckpoint``).
    """
    end = find_log_end(FoundEdge.of(store))
    if end.last is None:
        return None
    time_ms = end.last.head.store_timestamp_ms
    knows_place = store.settings.release.unclean_start is UncleanStart.BY_OFFSET
    return CheckpointFields(
        physic_msg_timestamp_ms=time_ms,
        logics_msg_timestamp_ms=time_ms,
        index_msg_timestamp_ms=time_ms,
        master_flushed_offset=min(old.master_flushed_offset, end.end),
        confirm_phy_offset=min(old.confirm_phy_offset, end.end),
        logics_physical_offset=end.last.physical_offset if knows_place else 0,
    )


def _kept_queues(
    store: Store,
    root: Location,
    settings: Settings,
    batch_topics: frozenset[str],
    prediction: PredictionDraft,
    change: Change,
) -> dict[QueueKey, Queue]:
    """Load the queues that a change leaves; refusals of the others do not count."""
    if not change.queues:
        return _load_queues(store, root, settings, batch_topics, prediction)
    if not change.keeps_expired:
        return {}
    aside = PredictionDraft(prediction.made)
    return _load_queues(store, root, settings, batch_topics, aside)


def _load_queues(
    store: Store,
    root: Location,
    settings: Settings,
    batch_topics: frozenset[str],
    prediction: PredictionDraft,
) -> dict[QueueKey, Queue]:
    release = prediction.made.release
    queues: dict[QueueKey, Queue] = {}
    size = settings.consumequeue_file_size
    for loaded in load_queues(store, _tree(root, PathKind.CONSUMEQUEUE), size, release):
        wrong_type = loaded.key[0] in batch_topics
        _note(root, loaded, prediction, wrong_type, settings["mappedFileSizeConsumeQueue"])
        ext = (
            _load_ext(store, root, settings, loaded, prediction)
            if settings.enable_consume_queue_ext
            else None
        )
        try:
            queue = UnitQueue(loaded.segments, size, loaded.deleted, ext)
        except ExtFailureError as failure:
            prediction.add(refusals=[Refusal(failure.label, str(failure))])
        else:
            queues[loaded.key] = queue
    if release.batch_queues:
        size = settings.batchconsumequeue_file_size
        for loaded in load_queues(store, _tree(root, PathKind.BATCHCONSUMEQUEUE), size, release):
            wrong_type = loaded.key[0] not in batch_topics
            _note(root, loaded, prediction, wrong_type, settings["mapperFileSizeBatchConsumeQueue"])
            prediction.add(deleted_files=loaded.deleted.values())
            queues[loaded.key] = BatchQueue(loaded.segments, size)
    return queues


def _load_ext(
    store: Store, root: Location, settings: Settings, queue: LoadedFiles, prediction: PredictionDraft
) -> ExtFiles:
    directory = _tree(root, PathKind.CONSUMEQUEUE_EXT) / queue.key[0] / str(queue.key[1])
    size = settings.consumequeue_ext_file_size
    files = load_files((directory,), store.base, size, prediction.made.release)
    prediction.add(refusals=_explained(files.refusals, settings["mappedFileSizeConsumeQueueExt"]))
    return ExtFiles(files.segments, size, files.deleted)


def _tree(root: Location, kind: PathKind) -> Location:
    return root / DIRECTORY_NAMES[kind]


def _explained(refusals: Iterable[Refusal], size: Setting) -> tuple[Refusal, ...]:
    """Name the origin of a size that the broker's configuration file does not set."""
    if size.origin is not Origin.DEFAULT or not size.note:
        return tuple(refusals)
    return tuple(
        refusal._replace(reason=f"{refusal.reason} ({size.name}, {size.note})") for refusal in refusals
    )


def _note(
    root: Location, queue: LoadedFiles, prediction: PredictionDraft, wrong_type: bool, size: Setting
) -> None:
    prediction.add(refusals=_explained(queue.refusals, size))
    if wrong_type:
        prediction.add(refusals=[_type_refusal(root, queue.key[0])])


def _type_refusal(root: Location, topic: str) -> Refusal:
    """Java: ``ConsumeQueueStore#queueTypeShouldBe`` (5.3.3)."""
    reason = f"contradicts the directory of the queues of topic {topic}"
    if not (root / "config" / "topics.json").is_there():
        reason = f"is missing, but topic {topic} has batch queues, which need queue.type=BatchCQ"
    return Refusal("config/topics.json", reason)


def type_refusals(root: Location, loaded: LoadedStore) -> list[Refusal]:
    """Return why a broker does not load queues that a rebuild made: topics.json has no such topics."""
    topics = {key[0] for key, queue in loaded.queues.items() if queue.batch} - loaded.batch_topics
    return [_type_refusal(root, topic) for topic in sorted(topics)]


def _load_index(
    store: Store, root: Location, items: int, index_ms: int | None, prediction: PredictionDraft
) -> IndexState:
    index = IndexState(items)
    directory = _tree(root, PathKind.INDEX)
    places = [directory / name for name, _ in directory.entries()]
    index.load(places, store.base, prediction.made.release, index_ms)
    prediction.add(refusals=index.refusals)
    prediction.add(ignored_index_files=index.ignored)
    return index


def batch_topics_of(root: Location) -> frozenset[str]:
    """Return the topics for which the broker has batch queues: those of topics.json alone."""
    try:
        return broker_json.batch_queue_topics(broker_json.ConfigSource(root).document("topics.json"))
    except broker_json.ConfigFileError:
        return frozenset()


def _config_refusals(root: Location) -> list[Refusal]:
    """Java: ``ConfigManager#load`` (4.9.8, 5.3.3): only a ``.bak`` that is needed and undecodable counts."""
    refusals = []
    for name in _CONFIG_FILES:
        path = root / "config" / name
        for needed in (path, path.with_name(name + ".bak")):
            if needed.kind() is FileKind.FIFO:
                refusals.append(Refusal(f"config/{needed.name}", "is a FIFO: opening it blocks for ever"))
                break
            if (decodes := _decodes(needed)) is True:
                break
            if decodes is False and needed is not path:
                refusals.append(Refusal(f"config/{name}", "cannot be decoded, nor can its .bak"))
    return refusals


def _decodes(path: Location) -> bool | None:
    """Whether a config file can be decoded; None if it is missing, empty, or not a regular file.

    Java: ``MixAll#file2String`` reads as many bytes as ``File#length`` states, which is 0 for a device.
    """
    try:
        text = broker_json.read_config_text(path)
        if not text:
            return None
        broker_json.parse_broker_json(text)
    except EnvironmentFailureError:
        return None
    except ValueError:
        return False
    return True
