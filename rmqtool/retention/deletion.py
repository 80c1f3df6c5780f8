"""Deletions of a broker: files that it takes away at a time and a fullness of the disk, and when each is due.

No record is read for this: the times are those of the file system, as they are, so that a copy with the times
of its original is as old as that. Queue and index files follow the log's first byte. A running broker deletes
in steps of 10 files; here is the rest once its runs find nothing more, the disk as full as before. Neither a
command of an administrator is considered, nor a file that a reader keeps.

Java: ``DefaultMessageStore.CleanCommitLogService``, ``MappedFileQueue#deleteExpiredFileByTime`` and
``#deleteExpiredFileByOffset``, ``IndexService#deleteExpiredFile`` (4.9.8, 5.3.3, 5.5.1).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from rmqtool.derived.index_files import index_headers
from rmqtool.derived.positions import consumed_offsets
from rmqtool.derived.queues import FileEnd, queues_of
from rmqtool.findings import counted
from rmqtool.formats.framing import PLAIN
from rmqtool.javacompat import parse_int
from rmqtool.scan.record_walk import LogExtent
from rmqtool.store.conf_values import held
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind
from rmqtool.store.layouts import Deed
from rmqtool.times import present_ms
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.store import Store

HOUR_MS = 3_600_000
_DAY_HOURS = 24
_SEARCHED_HOURS = 50  # more than a day with any change of the clock
_FIRST_MS, _LAST_MS = 0, 253_402_300_800_000 - 2 * _SEARCHED_HOURS * HOUR_MS
"""Times that a calendar has in every zone; a broker that keeps files for ever has settings beyond."""
_NS_PER_MS = 1_000_000
_HEAD_BYTES = 8
_LINES = ("diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio")
_OLD_LINES = [85, 90]  # of the properties of the JVM
_LAST = "the last file is never deleted"


@dataclass(frozen=True, slots=True)
class FileFate:
    """One file of the log, of a queue or of the index.

    Attributes:
        file: Path relative to the store.
        deleted: Whether the broker's runs at that time delete it.
        due_ms: Earliest run from that time on that deletes it by its age; None for never.
        reason: Cause of both, in a few words.
        written_ms: Time of its last change, by which a file of the log ages; None for others.
        size_bytes: Its size.
    """

    type: ClassVar = "file"
    file: str
    deleted: bool
    due_ms: int | None
    reason: str
    written_ms: int | None
    size_bytes: int


def deletion_hours(when: str) -> list[int | None]:
    """Return the hours of ``deleteWhen``, in order; None is one that no broker reads, nor any after it."""
    return [parse_int(part) for part in _java_split(when)]


class Rules:
    """Settings of a store's broker that decide; hours count in the zone of its process."""

    def __init__(self, store: Store) -> None:
        release = store.settings.release
        settings = store.settings.of_broker(release)
        self._zone, self.is_new = settings.index_timezone, release.batch_queues
        self.hours = int(str(settings["fileReservedTime"].value))
        self.when = str(settings["deleteWhen"].value)
        self._forces = bool(settings["cleanFileForciblyEnable"].value)
        names = ("diskMaxUsedSpaceRatio", *(_LINES if self.is_new else ()))
        self._most, *lines = (held(name, int(str(settings[name].value))) for name in names)
        self._lines = lines or _OLD_LINES

    def at_hour(self, moment_ms: int) -> bool | None:
        """Whether files go in that hour; None where ``deleteWhen`` cannot be read, and none goes."""
        hour = self._local(moment_ms).hour
        for value in deletion_hours(self.when):
            if value is None:
                return None
            if value == hour:
                return True
        return False

    def next_hour(self, moment_ms: int) -> int | None:
        """Return the first moment from one on in an hour of ``deleteWhen``; None if there is none."""
        if moment_ms > _LAST_MS:
            return None
        local = self._local(moment_ms)
        start = moment_ms - (local.minute * 60 + local.second) * 1000 - local.microsecond // 1000
        for number in range(_SEARCHED_HOURS):
            if self.at_hour(hour := start + number * HOUR_MS):
                return max(hour, moment_ms)
        return None

    def space(self, used: float | None) -> tuple[bool, bool]:
        """Return whether a fullness in percent opens the door, and whether age counts no more then."""
        if used is None:
            return False, False
        share = math.ceil(used)
        is_forced = any(share > line for line in self._lines)
        is_open = share > self._most or (is_forced and self.is_new)
        return is_open, is_forced and self._forces

    def _local(self, moment_ms: int) -> datetime:
        moment = timedelta(milliseconds=min(max(moment_ms, _FIRST_MS), _LAST_MS))
        return (datetime.fromtimestamp(0, UTC) + moment).astimezone(self._zone)


def _java_split(text: str) -> list[str]:
    """Return the parts between semicolons as ``String#split``: empty ones at the end are dropped."""
    parts = text.split(";")
    while parts[1:] and not parts[-1]:
        del parts[-1]
    return parts if any(parts) or not text else []


class Deletions:
    """Files of a store that a broker deletes.

    Args:
        store: A whole store.
        at_ms: Time of the broker's runs.
        used: Fullness of the disk in percent; None: below every limit.
    """

    def __init__(self, store: Store, at_ms: int, used: float | None = None) -> None:
        self._store, self.at_ms = store, at_ms
        self.rules = Rules(store)
        self._segments = store.commitlog.segments
        statuses = [segment.path.status() for segment in self._segments]
        self.written_ms = [0 if status is None else status.modified_ns // _NS_PER_MS for status in statuses]
        is_open, self.is_forced = self.rules.space(used)
        hour = self.rules.at_hour(at_ms)
        self.is_readable = hour is not None
        self.is_open = self.is_readable and (bool(hour) or is_open)

    @property
    def is_blocked(self) -> bool:
        """Whether no file goes in any hour, as ``deleteWhen`` cannot be read before one that it names."""
        return not self.is_readable and self.rules.next_hour(self.at_ms) is None

    @cached_property
    def last(self) -> int:
        """Number of the file that is never deleted: the one with the log's end, after a start."""
        newest = self._segments[-1]
        if any(newest.read_at(0, _HEAD_BYTES, [])):  # to find the end reads all zeros after it
            return len(self._segments) - 1
        starts = [segment.start for segment in self._segments]
        return max(bisect_right(starts, self._store.once(LogExtent.of).end) - 1, 0)

    @cached_property
    def ripe_ms(self) -> list[int]:
        """When each file of the log is old enough, and all before it are."""
        ripe, latest = [], 0
        for written_ms in self.written_ms:
            latest = max(latest, written_ms + self.rules.hours * HOUR_MS)
            ripe.append(latest)
        return ripe

    @cached_property
    def count(self) -> int:
        """Number of the log's files that are deleted, from the first on."""
        if not self.is_open:
            return 0
        return self.last if self.is_forced else bisect_right(self.ripe_ms, self.at_ms, hi=self.last)

    @property
    def minimum(self) -> int:
        """Return the log's first byte afterwards."""
        return self._segments[self.count].start if self._segments else 0

    def due_ms(self, number: int) -> int | None:
        """Return when a file of the log is due by its age, from the time of the runs on; None for never."""
        return None if number >= self.last else self.rules.next_hour(max(self.ripe_ms[number], self.at_ms))

    @property
    def prevention(self) -> str:
        """Return the setting that keeps the log as if no time had passed since its end, and past `due_ms`."""
        idle_ms = max(self.at_ms - max(self.written_ms, default=self.at_ms), 0)
        due_ms = self.due_ms(0) if self.written_ms else None
        kept_ms = max(self.rules.hours, 0) * HOUR_MS + idle_ms
        if due_ms is not None:
            kept_ms = max(kept_ms, due_ms - self.written_ms[0])
        return f"fileReservedTime={kept_ms // HOUR_MS + 1}"

    def log(self) -> Iterator[FileFate]:
        """Yield the log's files."""
        for number, segment in enumerate(self._segments):
            fate = number < self.count, self.due_ms(number), self._reason(number)
            yield FileFate(segment.label, *fate, self.written_ms[number], segment.size_bytes)

    def _reason(self, number: int) -> str:
        rules, written_ms = self.rules, self.written_ms[number]
        if number >= self.last:
            return _LAST if number == self.last else "empty, removed at a start"
        if not self.is_readable:
            return f"deleteWhen={rules.when} cannot be read: nothing is deleted"
        if number < self.count:
            by_age = f"older than fileReservedTime={rules.hours} h"
            return "the disk is so full that age does not count" if self.is_forced else by_age
        if self.ripe_ms[number] > written_ms + rules.hours * HOUR_MS:
            before = max(range(number), key=lambda other: self.written_ms[other])
            return f"a younger file lies before it: {self._segments[before].label}"
        if self.ripe_ms[number] > self.at_ms:
            return f"younger than fileReservedTime={rules.hours} h"
        return f"old enough, and waits for an hour of deleteWhen={rules.when}"

    def derived(self) -> Iterator[FileFate]:
        """Yield queue and index files; a queue file goes by its last unit, an index file by its header."""
        for kind in UNIT_QUEUE_KINDS:
            for queue in queues_of(self._store, kind):
                yield from self._followers(list(queue.file_ends()))
                queue.close()
        files, headers = self._store.index_files, index_headers(self._store.index_files)
        ends = zip(files, headers, strict=True)
        yield from self._followers(
            [FileEnd(file.label, file.size_bytes, header.end_phy_offset) for file, header in ends]
        )

    def _followers(self, files: Sequence[FileEnd]) -> Iterator[FileFate]:
        """Yield files that go, from the first on, when the log's first byte has passed the end of each."""
        due: int | None = self.at_ms
        goes = True
        for file in files[:-1]:
            goes = goes and file.physical_offset < self.minimum
            own = self._due_of(file.physical_offset)
            due = None if due is None or own is None else max(due, own)
            reason = f"goes with log offset {file.physical_offset}"
            yield FileFate(file.label, goes, due, reason, None, file.size_bytes)
        for file in files[-1:]:
            yield FileFate(file.label, False, None, _LAST, None, file.size_bytes)

    def _due_of(self, offset: int) -> int | None:
        """Return when the log's first byte passes an offset."""
        if not self._segments or offset < self._segments[0].start:
            return self.at_ms
        number = bisect_right([segment.start for segment in self._segments], offset) - 1
        return self.due_ms(number)

    def messages(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the messages that go with the log's files, by topic, and those of them unread, by reader."""
        topics: dict[str, int] = {}
        readers: dict[str, int] = {}
        floors: dict[tuple[str, int], tuple[int, int]] = {}
        start = self._store.commitlog.start
        for kind in UNIT_QUEUE_KINDS if self.count else ():
            for queue in queues_of(self._store, kind):
                low, floor = queue.bounds(start).min_offset, queue.bounds(self.minimum).min_offset
                queue.close()
                topic = queue.topic or ""
                if floor > low and queue.queue_id is not None:
                    floors[topic, queue.queue_id] = low, floor
                    if not topic.startswith(LMQ_PREFIX):
                        topics[topic] = topics.get(topic, 0) + floor - low
        for consumed in consumed_offsets(self._store):
            low, floor = floors.get((consumed.topic, consumed.queue_id), (0, 0))
            unread = floor - max(consumed.offset, low)
            if unread > 0:
                readers[consumed.reader] = readers.get(consumed.reader, 0) + unread
        return topics, readers


def is_known(store: Store) -> bool:
    """Whether deletions of such a store are known: those of a DLedger log are its library's."""
    is_local = store.root is not None and store.root.local_path() is not None
    is_plain = len(store.commitlog) > 0 and all(segment.framing == PLAIN for segment in store.commitlog)
    return is_local and is_plain and store.can(Deed.PREDICT) and not store.unread


def next_deletions(store: Store, within_ms: int | None = None) -> str | None:
    """Return the next deletions of a broker that works on a whole store from now on; None if not known.

    With ``within_ms`` also None if nothing goes within that time, for another reason than a ``deleteWhen``
    that cannot be read.
    """
    if store.kind is not PathKind.STORE or not is_known(store):
        return None
    deletions = Deletions(store, present_ms())
    if within_ms is not None and not deletions.is_blocked:
        due_ms = deletions.due_ms(0)
        if due_ms is None or due_ms >= deletions.at_ms + within_ms:
            return None
    return retention_words(deletions)


def retention_words(deletions: Deletions) -> str:
    """Return the next deletions of a running broker, or why there are none, in one sentence."""
    rules, last = deletions.rules, deletions.last
    if deletions.is_blocked:
        return f"deleteWhen={rules.when} cannot be read: a broker deletes nothing, whatever its age"
    if deletions.is_forced and last:
        files = f"{last:,} of {counted(last + 1, 'file')} of the log, all but one"
        when = "at once" if deletions.is_readable else f"at the next hour of deleteWhen={rules.when}"
        return f"WARNING: a broker deletes {files}, {when}: the disk is so full that age does not count"
    due = [deletions.due_ms(number) for number in range(last)]
    limits = f"fileReservedTime={rules.hours} h, deleteWhen={rules.when}"
    if not due or due[0] is None:
        return f"by age nothing is deleted ({limits})"
    soon = sum(moment == due[0] for moment in due)
    days, hours = divmod((due[0] - deletions.at_ms) // HOUR_MS, _DAY_HOURS)
    if days:
        return f"nothing is due for {counted(days, 'day')} ({limits})"
    when = f"within {counted(hours + 1, 'hour')} of work ({limits})"
    files = f"{soon:,} of {counted(last + 1, 'file')} of the log"
    if soon < last:
        return f"a broker deletes {files} {when}"
    return f"WARNING: a broker deletes {files}, all but one, {when}; {deletions.prevention} prevents that"
