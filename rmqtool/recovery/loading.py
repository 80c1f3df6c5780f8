"""Loading of directories by a broker: what it accepts and deletes, and what makes it refuse to start.

Origin: ``MappedFileQueue#doLoad``, ``DefaultMessageStore#loadConsumeQueue`` (4.9.8),
``ConsumeQueueStore#loadConsumeQueues`` (5.3.3); of compacted topics, ``CompactionService#load``,
``CompactionStore#load``, ``CompactionLog.TopicPartitionLog#init``, ``SparseConsumeQueue#recover`` (5.3.3,
5.5.1: the same bytecode). There, a size that does not fit is an ``IOException``, which only that queue does
not survive; a name that does not fit is another exception, which ends the start.
"""

from __future__ import annotations

import struct
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.derived.timer import TIMER_LOG, TIMER_WHEEL, last_timed, timer_checkpoint
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import counted
from rmqtool.formats.entry import ENTRY_UNITS
from rmqtool.io import FileKind, Location, Status
from rmqtool.javacompat import parse_int, parse_long
from rmqtool.recovery import Prediction, PredictionDraft, Refusal
from rmqtool.scan.classify import PAGE_BYTES
from rmqtool.scan.records import record_at
from rmqtool.store.broker_conf import DEFINITIONS, Origin
from rmqtool.store.ledger import ENTRY_INDEX, framing_in
from rmqtool.store.names import Listing
from rmqtool.store.places import COMPACTION_LOGS, COMPACTION_QUEUES, names_in
from rmqtool.store.segments import Segment, label_of
from rmqtool.topics import TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.releases import Release
    from rmqtool.store import Settings, Store


_NO_START = -1

NO_NUMBER = "is not named by a number"
"""Reason to refuse a file of the right size."""


@dataclass
class LoadedFiles:
    """The files of one file queue, as the broker has them in memory; ``deleted`` are labels by start.

    ``key`` is topic and number of a queue.
    """

    segments: list[Segment] = field(default_factory=list)
    deleted: dict[int, str] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    key: tuple[str, int] = "", 0


def load_files(
    directories: Iterable[Location],
    base: Location,
    size: int,
    release: Release,
    aside: frozenset[str] = frozenset(),
    listing: Listing | None = None,
) -> LoadedFiles:
    """Load the files of one file queue; all reasons to refuse are named, the broker stops at the first.

    There are several directories for a commit log on several paths. ``size`` is the configured bytes of a
    file; files with labels ``aside`` are not there.
    """
    loaded, listing = LoadedFiles(), listing or Listing()
    entries = sorted(
        (
            (path / name, status)
            for path in directories
            for name, status in listing.entries(path)
            if not aside or label_of(path / name, base) not in aside
        ),
        key=lambda entry: entry[0].name,
    )
    for number, (path, status) in enumerate(entries):
        label, size_bytes = label_of(path, base), status.size_bytes
        if release.deletes_empty_last_file and status.kind is FileKind.DIRECTORY:
            continue
        if release.deletes_empty_last_file and size_bytes == 0 and number == len(entries) - 1:
            start = int(path.name) if path.name.isdecimal() else _NO_START  # the start may make it again
            loaded.deleted[start] = label
            continue
        reason = _refusal_reason(path, status, size)
        if reason is None:
            framing = framing_in(path.parent)
            loaded.segments.append(Segment(path, label, size_bytes, parse_long(path.name) or 0, framing))
        else:
            loaded.refusals.append(Refusal(label, reason))
    return loaded


def _refusal_reason(path: Location, status: Status, size: int) -> str | None:
    size_bytes = status.size_bytes
    if status.kind is FileKind.DIRECTORY:
        return "is a directory"
    if size_bytes != size:
        grown = size_bytes == -(-size // PAGE_BYTES) * PAGE_BYTES
        cause = ", as writeWithoutMmap of 5.5.0 and later leaves a full file: cut it back" if grown else ""
        return f"has {size_bytes} bytes instead of {size}{cause}"
    return NO_NUMBER if parse_long(path.name) is None else None


def load_queues(store: Store, directory: Location, size: int, release: Release) -> list[LoadedFiles]:
    """Load all queues of a tree ``TOPIC/QUEUEID`` of a store; entries with other names are skipped."""
    entries = store.listing.entries
    return [
        replace(
            load_files((directory / topic / name,), store.base, size, release, listing=store.listing),
            key=(topic, number),
        )
        for topic, _ in entries(directory)
        for name, _ in entries(directory / topic)
        if (number := parse_int(name)) is not None
    ]


ENTRY_INDEX_BYTES = 5 * 1024 * 1024 * ENTRY_UNITS.size
"""Bytes of a file of the index of DLedger's entries, which no setting changes (``DLedgerConfig``)."""


_WRITTEN_AGAIN = (
    "Move dledger-ID/index/ out of the store, on a copy of it: a start writes the units of all entries again."
)


def load_member(
    store: Store, data: Location, size: int, release: Release, aside: frozenset[str]
) -> tuple[LoadedFiles, LoadedFiles]:
    """Load the entries of a member of DLedger, and their index, in which a gap refuses the start, too.

    Java: ``DLedgerMmapFileStore#load``, ``MmapFileList#doLoad``, ``#checkSelf`` (dledger 0.3.1.2, 0.3.3.4).
    """
    strict = release._replace(deletes_empty_last_file=False)
    sizes = {data: size, data.parent / ENTRY_INDEX: ENTRY_INDEX_BYTES}
    entries, units = (
        load_files((directory,), store.base, wanted, strict, aside, store.listing)
        for directory, wanted in sizes.items()
    )
    for files in (entries, units):
        for before, after in pairwise(files.segments):
            if after.start != before.stop:
                files.refusals.append(Refusal(after.label, f"does not begin where {before.label} ends"))
    units.refusals[:] = [refusal._replace(remedy=_WRITTEN_AGAIN) for refusal in units.refusals]
    return entries, units


_UNIT = struct.Struct(">qiqqqh8x")
_READ_BYTES = _UNIT.size * 4096
_WHEEL_BYTES = 2 * 7 * 86_400 * 32  # slots of 32 bytes: one for each second of two weeks
_WHEEL_REMEDY = (
    "Restore timerwheel, timerlog/ and config/timercheck from a backup or a replica, all three of one moment:"
    " a start does not regenerate them from the commit log. Or move all three away: the timer reads its queue"
    " from the start, and delivers what is due a second time."
)
_FEWEST_QUEUES = 5  # a file of the log is at least as long as so many of a queue


class _CompactedQueue(NamedTuple):
    """Directories of a queue of a compacted topic, in log and queues."""

    log: str
    queue: str


def load_compaction(settings: Settings, root: Location, base: Location, prediction: PredictionDraft) -> None:
    """Load ``compaction/``; refusals, deletions and hazards are added to ``prediction``."""
    setting = settings["enableCompaction"]
    if not setting.value or not DEFINITIONS[setting.name].is_known_to(prediction.made.release):
        return
    queues = list(_queues(root, prediction))
    if not queues:
        return
    log_size, queue_size = _sizes(settings, root, queues)
    for compacted in queues:
        log = load_files((root / compacted.log,), base, log_size, prediction.made.release)
        queue = load_files((root / compacted.queue,), base, queue_size, prediction.made.release)
        wrong = [*log.refusals, *queue.refusals]
        if not wrong:
            _pair(compacted, log, queue, prediction)
        elif wrong[0].reason == NO_NUMBER:
            prediction.add(refusals=[wrong[0]])
        else:
            _pass_over(compacted, f"{wrong[0].file} {wrong[0].reason}", prediction)
        prediction.add(deleted_files=(*log.deleted.values(), *queue.deleted.values()))


def load_timer_wheel(settings: Settings, root: Location, prediction: PredictionDraft) -> None:
    """Load ``timerwheel``; one of another length refuses the start (``TimerWheel``, 5.0.0+).

    With ``timerWheelSnapshotFlush`` the newest ``timerwheel.N`` is the wheel, which is not read.
    """
    if not _has_timer(settings, prediction.made.release):
        return
    status = None if settings["timerWheelSnapshotFlush"].value else (root / TIMER_WHEEL).status()
    if status is not None and status.size_bytes not in {0, _WHEEL_BYTES}:
        reason = f"has {status.size_bytes} bytes instead of {_WHEEL_BYTES}"
        prediction.add(refusals=[Refusal(TIMER_WHEEL, reason, _WHEEL_REMEDY)])


def timer_hazards(settings: Settings, store: Store, prediction: Prediction) -> Iterator[str]:
    """Yield the messages that the timer never delivers, by its checkpoint and its queue after a start."""
    if prediction.starts and _has_timer(settings, prediction.release):
        queues = [queue for queue in prediction.queues if (queue.topic, queue.queue_id) == (TIMER_TOPIC, 0)]
        low, end = (queues[0].min_offset, queues[0].max_offset) if queues else (0, None)
        text = timer_ahead(store, low, end)
        if text is not None:
            yield f"{text[0].upper()}{text[1:]}."


def timer_ahead(store: Store, low: int, end: int | None) -> str | None:
    """Return what a start makes of a timer that is ahead of its queue, a clause; None if it loses nothing.

    It goes on by the lesser of its offset and its master's, or after the message of the timer log's last unit
    (``TimerMessageStore#recover``, ``#recoverAndRevise``, ``#reviseQueueOffset``, 5.3.3 to 5.5.1).
    ``low`` and ``end`` are the queue's bounds once the log is dispatched; ``end`` is None without a queue.
    """
    checkpoint = None
    with suppress(EnvironmentFailureError):
        checkpoint = None if store.root is None else timer_checkpoint(store.root / "config")
    if checkpoint is None or store.root is None:
        return None
    place = min(checkpoint.last_timer_queue_offset, checkpoint.master_timer_queue_offset)
    if place <= (end or 0):
        return None
    stands = f"the timer has offset {place} in {TIMER_TOPIC}/0"
    if end is None:
        return f"{stands}, which does not exist: none of the next {place:,} timed messages is ever delivered"
    timed = last_timed(store.root)
    if timed is not None and record_at(store.commitlog, timed) is not None:
        return None
    messages = counted(end - low, "message", spec=",")
    return (
        f"{stands}, beyond the queue's end, and {TIMER_LOG}/ leads to no message: a start resumes at {end},"
        f" and never delivers what was still to come of the {messages} before it"
    )


def _has_timer(settings: Settings, release: Release) -> bool:
    setting = settings["timerWheelEnable"]
    return bool(setting.value) and DEFINITIONS[setting.name].is_known_to(release)


def _queues(root: Location, prediction: PredictionDraft) -> Iterator[_CompactedQueue]:
    """Yield the queues that have both directories; one without that of its queue is skipped."""
    for topic in sorted(names_in(root / COMPACTION_LOGS, FileKind.DIRECTORY)):
        for name in sorted(names_in(root / COMPACTION_LOGS / topic, FileKind.DIRECTORY)):
            log, number = f"{COMPACTION_LOGS}/{topic}/{name}", parse_int(name)
            queue = _CompactedQueue(log, f"{COMPACTION_QUEUES}/{topic}/{number}")
            if number is None:
                prediction.add(refusals=[Refusal(log, "is a directory that no queue id names")])
            elif (root / queue.queue).kind() is FileKind.DIRECTORY:
                yield queue
            else:
                _pass_over(queue, f"{queue.queue} is not there", prediction)


def _sizes(settings: Settings, root: Location, queues: list[_CompactedQueue]) -> tuple[int, int]:
    """Return the sizes of files of logs and queues: by the settings, else those of most present files."""
    queue_size = _number(settings, "compactionCqMappedFileSize") // _UNIT.size * _UNIT.size
    whole, rest = divmod(_number(settings, "compactionMappedFileSize"), max(queue_size, 1))
    more = whole >= _FEWEST_QUEUES and not 0 < rest < queue_size >> 1
    log_size = max(whole + more, _FEWEST_QUEUES) * queue_size
    names = ("compactionCqMappedFileSize", "compactionMappedFileSize")
    if settings.has_conf or any(settings[name].origin is Origin.GIVEN for name in names):
        return log_size, queue_size
    logs, others = (
        _commonest([root / queue.log for queue in queues]),
        _commonest([root / queue.queue for queue in queues]),
    )
    return logs or log_size, others or queue_size


def _number(settings: Settings, name: str) -> int:
    value = settings[name].value
    assert isinstance(value, int), name
    return value


def _commonest(directories: list[Location]) -> int:
    sizes = Counter(
        status.size_bytes
        for directory in directories
        for _, status in directory.entries()
        if status.kind is FileKind.FILE
    )
    return sizes.most_common(1)[0][0] if sizes else 0


def _pair(
    compacted: _CompactedQueue, log: LoadedFiles, queue: LoadedFiles, prediction: PredictionDraft
) -> None:
    """Cut the log where its queue ends, then compare the names of the files that remain."""
    end = -1
    if queue.segments:
        end = _end(queue.segments[-1])
        queue.segments[-1].close()
    kept = [file for file in log.segments if not 0 < end < file.start]
    prediction.add(deleted_files=(file.label for file in log.segments if file not in kept))
    names = {file.label.rpartition("/")[2] for file in queue.segments}
    others = {file.label.rpartition("/")[2] for file in kept}
    for files, partners, place in ((kept, names, compacted.queue), (queue.segments, others, compacted.log)):
        for file in files:
            if file.label.rpartition("/")[2] not in partners:
                prediction.add(refusals=[Refusal(file.label, f"has no file of its name in {place}")])


def _end(last: Segment) -> int:
    """Return where the record of the last unit ends; -1 without a unit that counts."""
    end = -1
    for position in range(0, last.size_bytes, _READ_BYTES):
        data = last.read_at(position, min(_READ_BYTES, last.size_bytes - position))
        whole = memoryview(data)[: len(data) // _UNIT.size * _UNIT.size]
        for log_offset, size, _, _, queue_offset, messages in _UNIT.iter_unpack(whole):
            if log_offset < 0 or size <= 0 or queue_offset < 0 or messages <= 0:
                return end
            end = log_offset + size
    return end


def _pass_over(queue: _CompactedQueue, reason: str, prediction: PredictionDraft) -> None:
    prediction.add(hazards=[f"{queue.log} is not loaded, as {reason}: its consumers get no message of it."])
