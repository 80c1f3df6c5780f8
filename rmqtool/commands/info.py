"""``info``: summary of a store, in about a second."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rmqtool import rows
from rmqtool.account import LogLosses, indexes_beyond
from rmqtool.check.side_files import config_findings
from rmqtool.check.timer import timer_findings
from rmqtool.derived.index_files import IndexFile
from rmqtool.derived.positions import read_checkpoint
from rmqtool.derived.queues import queues_of
from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.findings import Finding, FindingLog, Findings, Severity, Structure, codes
from rmqtool.projection import json_object
from rmqtool.retention.deletion import next_deletions
from rmqtool.rows.messages import has_unit
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import find_log_end, first_record
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind
from rmqtool.store.layout import layout_findings
from rmqtool.store.lock import lock_holder
from rmqtool.store.segments import StoreFile, denied_finding, label_of
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.derived.queues import Queue
    from rmqtool.store import Setting, Store

_LONGEST_PROCESS_ID = 10


@dataclass(frozen=True, slots=True)
class LogSummary:
    """The commit log: ``end`` is after its last record, ``clean_end`` whether only zeros follow."""

    files: int
    size_bytes: int
    start: int
    end: int
    clean_end: bool
    first_store_timestamp_ms: int | None
    last_store_timestamp_ms: int | None
    gaps: int
    missing_bytes: int


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """One queue; ``kind`` is that of ``--type``, ``messages`` the number between its bounds."""

    kind: str
    topic: str | None
    queue_id: int | None
    files: int
    min_offset: int
    max_offset: int
    messages: int


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """One index file."""

    file: str
    items: int
    room: int
    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_phy_offset: int
    end_phy_offset: int


@dataclass(frozen=True, slots=True)
class IndexCoverage:
    """Coverage of all index files with items; ``behind_bytes`` of log follow its last entry."""

    items: int
    room: int
    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_phy_offset: int
    end_phy_offset: int
    behind_bytes: int | None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the store that is named: another engine, a side structure, or a log of DLedger.

    ``note`` is what is known of it; empty for a part that was not examined.
    """

    name: str
    path: str
    code: str
    empty: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class EpochsSummary:
    """The epochs of controller mode; ``newest`` and its ``start`` are None where a broker loads none."""

    file: str
    number: int
    newest: int | None
    start: int | None


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """Summary of a store.

    Attributes:
        path: The given path.
        kind: Its kind.
        settings: Settings in effect.
        log: The commit log; None when there is none, or it is not shown.
        queues: Queues, by kind, topic and number.
        index: Index files, oldest first.
        index_coverage: Their common coverage; None when no file has an item.
        other_parts: Other parts, of which only a log of DLedger was examined.
        checkpoint: Its fields; None when there is none.
        epochs: Those of its epoch file; None when there is none.
        abort: Whether the store was not stopped cleanly, or runs.
        abort_process: The process id in it, which 5.x writes.
        lock_holder: The process that holds the store, in words.
        findings: Findings on names, sizes and places.
        log_losses: Messages that the log has lost, by the account that verify reads; None where no end of a
            file points to a loss: then they are not counted.
        before: Messages before the log's first byte; None where neither losses nor a log that begins later
            than 0 had them counted.
        retention: The next deletions of a broker that works on the store, by the times of its files; None
            where they are not known.
    """

    schema: ClassVar = "rmqtool.info/1"
    path: str
    kind: str
    settings: tuple[Setting, ...]
    log: LogSummary | None
    queues: tuple[QueueSummary, ...]
    index: tuple[IndexSummary, ...]
    index_coverage: IndexCoverage | None
    other_parts: tuple[Part, ...]
    checkpoint: rows.Checkpoint | None
    epochs: EpochsSummary | None
    abort: bool
    abort_process: int | None
    lock_holder: str | None
    findings: Findings
    log_losses: LogLosses | None = None
    before: int | None = None
    retention: str | None = None

    @property
    def _noted_settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings as JSON, with the evidence of their origin."""
        return {
            setting.name: json_object(setting) | {"note": setting.note or None} for setting in self.settings
        }

    @property
    def denied(self) -> tuple[str, ...]:
        """Return the files that may not be read, relative to the store."""
        return tuple(finding.file or "" for finding in self.findings if finding.code is codes.IO_DENIED)


def summarise(store: Store, max_findings: int = 10) -> StoreSummary:
    """Summarise a store, or a part of one, by headers and ends of files; the log is read only for losses."""
    findings = FindingLog(max_findings)
    denied = _Denied(store, findings)
    with denied.noted():
        findings.extend(denied.heard(layout_findings(store, timer_findings(store))))
    with denied.noted():
        findings.extend(denied.heard(config_findings(store)))
    log = None
    with denied.noted():
        log = _log_summary(store, findings)
    checkpoint = epochs = process = holder = None
    with denied.noted():
        checkpoint = read_checkpoint(store.checkpoint, [])
    with denied.noted():
        epochs = _epochs_summary(store)
    with denied.noted():
        process = _abort_process(store)
    with denied.noted():
        holder = None if store.root is None else lock_holder(store.root)
    end = None if log is None or holder else log.end  # of a log at rest
    summaries = list(_queue_summaries(store, 0 if log is None else log.start, end, denied))
    beyond = sum(messages for _, messages in summaries)
    index = tuple(_index_summaries(store, denied))
    if end is not None and not summaries and _lacks_queues(store, findings):
        message = "there is no consume queue, and the log has messages"
        findings.add(Finding(code=codes.CQ_MISSING_MSG, message=message))
    losses, before = None, None
    with denied.noted():
        is_suspect = _points_to_loss(store, log, end, beyond, findings)
        begins_later = log is not None and log.start > 0 and store.root is not None
        if is_suspect or begins_later:
            from rmqtool.account.log_losses import losses_of  # numpy comes with it

            known = losses_of(store, findings, is_suspect=is_suspect)
            losses = known if is_suspect else None
            if known is not None:
                before = known.before
            elif not is_suspect:
                before = 0
        if log is not None and begins_later:
            from rmqtool.retention.expiry import check_expiry, of_queues

            findings.extend(check_expiry(store, of_queues(store, log.last_store_timestamp_ms)))
    retention = None
    with denied.noted():
        retention = next_deletions(store)
    return StoreSummary(
        path=str(store.place.path),
        kind=store.kind.value,
        settings=tuple(store.settings),
        log=log,
        queues=tuple(queue for queue, _ in summaries),
        index=index,
        index_coverage=_coverage(index, log),
        other_parts=tuple(
            Part(
                part.code.title,
                part.label,
                part.code.code,
                part.is_empty,
                part.note if part.is_shown else "",
            )
            for part in store.parts
        ),
        checkpoint=None if checkpoint is None else rows.Checkpoint(*checkpoint),
        epochs=epochs,
        abort=store.abort is not None,
        abort_process=process,
        lock_holder=None if holder is None else str(holder),
        findings=findings,
        log_losses=losses,
        before=before,
        retention=retention,
    )


def _lacks_queues(store: Store, findings: FindingLog) -> bool:
    """Whether a store has no queue, and its log has a message for one."""
    if store.kind is not PathKind.STORE or findings.counts.keys() & {
        codes.IO_DENIED.code,
        codes.IO_CHANGED.code,
    }:
        return False
    if store.unread or store.queue_databases or store.confirm_offset is not None:
        return False
    record = first_record(store.commitlog.segments)
    return record is not None and has_unit(record)


def _points_to_loss(
    store: Store, log: LogSummary | None, end: int | None, beyond: int, findings: FindingLog
) -> bool:
    """Whether files show messages that may be lost, or not confirmed: then the log is read."""
    if log is None:
        return Structure.COMMITLOG in findings.errors
    if end is None:
        return False
    confirmed, segments = store.confirm_offset, store.commitlog.segments
    firsts = filter(None, (first_record(segments[:1]), first_record(segments[-1:])))
    is_misnamed = any(record.head.physical_offset != record.physical_offset for record in firsts)
    is_broken = log.gaps or is_misnamed or not log.clean_end or Structure.COMMITLOG in findings.errors
    is_behind = confirmed is not None and confirmed < log.end
    return bool(beyond or is_broken or is_behind) or indexes_beyond(store, log.end)


class _Denied:
    """Records the places that may not be read, each once, so that the rest is still summarised."""

    def __init__(self, store: Store, findings: FindingLog) -> None:
        self._store = store
        self._findings = findings
        self._places: set[str | None] = set()

    def heard(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Pass findings on, and keep the places of those of this kind."""
        for finding in findings:
            if finding.code is codes.IO_DENIED:
                self._places.add(finding.file)
            yield finding

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Make a failure to read a part of the store a finding, and go on after that part."""
        try:
            yield
        except DeniedError as failure:
            finding = denied_finding(failure, self._store.base)
            if finding.file not in self._places:
                self._findings.extend(self.heard([finding]))
        except EnvironmentFailureError as failure:
            self._findings.add(
                Finding(code=codes.IO_CHANGED, message=str(failure), severity_override=Severity.ERROR)
            )


def _log_summary(store: Store, findings: FindingLog) -> LogSummary | None:
    segments = store.commitlog.segments
    if not segments:
        return None
    first, end = first_record(segments), find_log_end(FoundEdge.of(store))
    if end.tail is not None:
        findings.add(end.tail)
    gaps = list(store.commitlog.gaps())
    store.commitlog.close()
    return LogSummary(
        files=len(segments),
        size_bytes=store.commitlog.size_bytes,
        start=store.commitlog.start,
        end=end.end,
        clean_end=end.ends_cleanly,
        first_store_timestamp_ms=None if first is None else first.head.store_timestamp_ms,
        last_store_timestamp_ms=end.last_ms,
        gaps=len(gaps),
        missing_bytes=sum(max(0, gap.found - gap.expected) for gap in gaps),
    )


def _queue_summaries(
    store: Store, start: int, end: int | None, denied: _Denied
) -> Iterator[tuple[QueueSummary, int]]:
    """Yield the queues, each with the number of messages that it lists beyond the log."""
    for kind in UNIT_QUEUE_KINDS:
        topics: list[str | None] = [None]
        with denied.noted():
            topics = [*store.topics(kind)] or topics
        for topic in topics:
            with denied.noted():
                for queue in queues_of(store, kind, topic):
                    with denied.noted():
                        yield _queue_summary(queue, start, end)


def _queue_summary(queue: Queue, start: int, end: int | None) -> tuple[QueueSummary, int]:
    bounds, beyond = queue.bounds(start), 0
    if end is not None and not (queue.topic or "").startswith(LMQ_PREFIX):  # light queues list what others do
        beyond = queue.messages_from(max(end, start), bounds.max_offset)
    queue.close()
    messages, files = bounds.max_offset - bounds.min_offset, queue.file_count
    return QueueSummary(queue.kind.value, queue.topic, queue.queue_id, files, *bounds, messages), beyond


def _epochs_summary(store: Store) -> EpochsSummary | None:
    if not store.read_epochs:
        return None
    file, loaded = store.read_epochs[-1]
    newest, start = max((loaded or {}).items(), default=(None, None))
    return EpochsSummary(label_of(file, store.base), len(loaded or {}), newest, start)


def _coverage(index: tuple[IndexSummary, ...], log: LogSummary | None) -> IndexCoverage | None:
    filled = [file for file in index if file.items]
    if not filled:
        return None
    first, last = filled[0], filled[-1]
    return IndexCoverage(
        items=sum(index.items for index in filled),
        room=sum(file.room for file in index),
        begin_timestamp_ms=first.begin_timestamp_ms,
        end_timestamp_ms=last.end_timestamp_ms,
        begin_phy_offset=first.begin_phy_offset,
        end_phy_offset=last.end_phy_offset,
        behind_bytes=None if log is None else max(0, log.end - last.end_phy_offset),
    )


def _abort_process(store: Store) -> int | None:
    """Return the process id that a broker wrote into abort (``DefaultMessageStore#createTempFile``, 5.x)."""
    if store.abort is None or not store.abort.is_regular():
        return None
    text = store.abort.read_head(_LONGEST_PROCESS_ID, [])
    return int(text) if text.isdigit() else None


def _index_summaries(store: Store, denied: _Denied) -> Iterator[IndexSummary]:
    files: Sequence[StoreFile] = ()
    with denied.noted():
        files = store.index_files
    for file in files:
        with denied.noted():
            index_file = IndexFile(file, store.settings.index_geometry)
            if not index_file.is_short:
                numbers = (index_file.last_item, index_file.item_room)
                yield IndexSummary(file.label, *numbers, *index_file.header[:4])
            file.close()
