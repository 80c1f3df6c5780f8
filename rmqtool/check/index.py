"""Checks of the index: every file on its own, and all of them as one stream against the log's entries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.check import Examined
from rmqtool.check.expected import EntryRows, ExpectedEntries, IndexCheckTask, missing_entries
from rmqtool.check.index_shape import FileReport, IndexShape, time_diff
from rmqtool.check.log_findings import LEFT_OVER, NO_KEYS, OTHER_KEY
from rmqtool.derived.index_files import IndexFile, Items, open_index_file
from rmqtool.findings import Finding, FindingLog, Severity, Structure, codes, counted
from rmqtool.kernels.compare import ItemMatch, match_items
from rmqtool.store.segments import unreadable_findings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Bools, Buffer, Int64s
    from rmqtool.formats.index import HeaderFields


class _Turn(NamedTuple):
    has_tag_items: bool
    physical_offset: int


def tag_mix(expected: ExpectedEntries, tagged: set[int], spoiled: Int64s) -> Finding | None:
    """Return the finding of an index that brokers before and since 5.4.0 wrote; None if all is of one kind.

    ``tagged`` are the windows with an entry of tags that has an item; ``spoiled`` are physical offsets of
    messages with a wrong item, which may stand for the tag's.
    """
    if not tagged:
        return None
    every = list(_turns(expected, tagged, spoiled))
    turns = [next(alike) for _, alike in groupby(every, lambda turn: turn.has_tag_items)]
    if len(turns) < 2:
        return None
    offset = turns[1].physical_offset
    if len(turns) == 2 and turns[1].has_tag_items:
        how = f"from log offset {offset} on messages have tag items, and none before"
    else:
        how = f"tag items start or stop {counted(len(turns) - 1, 'time')}, first at log offset {offset}"
    message = f"{how}: brokers before and since 5.4.0 wrote this index"
    return Finding(code=codes.IX_TAG_MIX, physical_offset=offset, message=message)


def _turns(expected: ExpectedEntries, tagged: set[int], spoiled: Int64s) -> Iterator[_Turn]:
    """Yield, window by window, where messages change; neighbours from two windows may be alike."""
    for window in range(len(expected.spans)):
        unseen = expected.unseen(window)
        if len(unseen) < expected.spans[window].count and (window in tagged or len(unseen)):
            yield from _turns_of(expected.rows(window), unseen, spoiled)


def _turns_of(rows: EntryRows, unseen: Int64s, spoiled: Int64s) -> Iterator[_Turn]:
    seen = np.ones(len(rows.of_tags), np.bool_)
    seen[unseen] = False
    tags = np.flatnonzero(rows.of_tags)
    tags = tags[~np.isin(rows.physical_offsets[tags], spoiled)]
    # A message without any item shows nothing; one that has no keys either may be of an older broker.
    has_keys = (tags > 0) & (rows.physical_offsets[tags] == rows.physical_offsets[tags - 1])
    tags = tags[seen[tags] | (has_keys & seen[tags - 1])]
    changes = np.flatnonzero(np.concatenate([[True], np.diff(seen[tags].astype(np.int8)) != 0])[: len(tags)])
    for row in tags[changes].tolist():
        yield _Turn(bool(seen[row]), int(rows.physical_offsets[row]))


_COMPLETE = 3
_MOST_HELD = 64


@dataclass
class MatchedFile:
    """Matches of one file with the log.

    Attributes:
        first: number in the stream of the first entry that was matched, -1 if none was.
        last: of the last one.
        beyond: findings about items beyond the log's end, after the last entry that was matched: what follows
            decides their severity.
        first_ms: store time of the first item's record; None where the log does not have it.
        last_ms: of the last one's.
    """

    beyond: FindingLog
    first: int = -1
    last: int = -1
    expired: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


class _ForeignItems:
    """Items of no record, or of none of its keys: rotten, or left by a start after a crash.

    Such a start cuts the log and keeps a full index file, whose items of the cut part stay: new records lie
    there, and their items follow (``IndexService#load``, ``CommitLog#recoverAbnormally``, 4.9.8 to 5.5.1). So
    no entry is without an item between those before and those after, as one is where an item has rotted.
    """

    def __init__(self) -> None:
        self._last_row = -1
        self._held: list[tuple[FileReport, Items, Bools, Bools]] = []

    def feed(
        self,
        report: FileReport,
        items: Items,
        matched: Int64s,
        matches: Buffer,
        lost: Bools,
    ) -> None:
        """Take consecutive items; ``lost`` are those where no record begins."""
        other = matches == ItemMatch.OTHER_KEY
        taken = np.flatnonzero(matches == ItemMatch.TAKEN)
        if not (self._held or other.any() or lost.any()):
            self._last_row = int(matched[taken[-1]]) if len(taken) else self._last_row
            return
        rows = np.concatenate([[self._last_row], matched[taken]])
        is_joined = np.append(np.diff(rows) == 1, [False])
        gap = np.searchsorted(taken, np.arange(len(items)))  # taken ones before each item
        if len(taken):
            self._settle(left_over=bool(is_joined[0]))
        is_open = gap == len(taken)
        left = is_joined[gap] & ~is_open
        _report_foreign(report, items, other & left, lost & left, left_over=True)
        _report_foreign(report, items, other & ~left & ~is_open, lost & ~left & ~is_open, left_over=False)
        if (is_open & (other | lost)).any():
            self._held.append((report, items, other & is_open, lost & is_open))
        self._last_row = int(rows[-1])
        if len(self._held) > _MOST_HELD:
            self.finish()

    def finish(self) -> None:
        """Report those after the last item that has an entry: they are rotten."""
        self._settle(left_over=False)

    def _settle(self, *, left_over: bool) -> None:
        for report, items, other, lost in self._held:
            _report_foreign(report, items, other, lost, left_over=left_over)
        self._held = []


def _report_foreign(report: FileReport, items: Items, other: Bools, lost: Bools, *, left_over: bool) -> None:
    severity = Severity.WARNING if left_over else None
    said = LEFT_OVER if left_over else ""
    report.items(
        codes.IX_DANGLING,
        items,
        lost,
        f"{NO_KEYS}{said}",
        severity=severity,
    )
    report.items(codes.IX_WRONG, items, other, f"{OTHER_KEY}{said}", severity=severity)


class IndexMatch:
    """Matches the items of all index files, in the order of their names, with the log."""

    def __init__(self, task: IndexCheckTask, expected: ExpectedEntries, log: FindingLog) -> None:
        self._task, self._expected, self._log = task, expected, log
        self._last_offset = -1
        self._previous_end_ms: int | None = None
        self._files: list[tuple[FileReport, MatchedFile]] = []
        self._tagged: set[int] = set()  # windows in which an entry of tags has an item
        self._foreign = _ForeignItems()
        self._spoiled = [np.zeros(0, np.int64)]  # where messages lie with an item of none of their keys

    def open(self, report: FileReport) -> None:
        """Begin a file."""
        self._files.append((report, MatchedFile(FindingLog(self._log.max_per_code))))

    def feed(self, items: Items) -> None:
        """Look up consecutive items."""
        report, file = self._files[-1]
        offsets = items.physical_offsets
        matched = np.full(len(items), -1, np.int64)
        times_ms = np.full(len(items), -1, np.int64)
        matches = np.full(len(items), ItemMatch.NOWHERE, np.uint8)
        for window, at in self._expected.by_window(offsets):
            wanted = self._expected.rows(window)
            rows, kinds = np.empty(len(at), np.int64), np.empty(len(at), np.uint8)
            match_items(
                items.key_hashes[at],
                offsets[at],
                wanted.key_hashes,
                wanted.physical_offsets,
                self._expected.seen(window),
                rows,
                kinds,
            )
            self._expected.flush(window)
            hit = rows >= 0
            matched[at[hit]] = rows[hit] + self._expected.firsts[window]
            times_ms[at[hit]] = wanted.store_timestamps_ms[rows[hit]]
            matches[at] = kinds
            if wanted.of_tags[rows[kinds == ItemMatch.TAKEN]].any():
                self._tagged.add(window)
        if len(spoiled := offsets[matches == ItemMatch.OTHER_KEY]):
            self._spoiled.append(np.unique(spoiled))
        self._note_taken(file, matched[matches == ItemMatch.TAKEN])
        self._tell(report, file, items, matches, matched)
        self._check_times(report, file, items, matches, times_ms)
        self._last_offset = int(offsets[-1])

    def close(self, torn: Severity | None) -> bool:
        """End a file; return whether its header's times were compared with those of records.

        ``torn`` is the severity of the traces of a half-done put.
        """
        report, file = self._files[-1]
        header = report.index.header
        if file.first_ms is not None and header.begin_timestamp_ms != file.first_ms:
            report.header("beginTimestamp", file.first_ms)
        if file.last_ms is not None and header.end_timestamp_ms != file.last_ms:
            report.header("endTimestamp", file.last_ms, severity=torn)
        if report.index.used:
            self._previous_end_ms = header.end_timestamp_ms
        if file.expired:
            report.add(
                codes.IX_EXPIRED, f"{counted(file.expired, 'item')} of expired messages", count=file.expired
            )
        return None not in {file.first_ms, file.last_ms}

    def finish(self) -> None:
        """Judge items beyond the log's end, and report missing entries."""
        self._foreign.finish()
        if not self._task.live:  # later than the reading of the log
            self._tell_beyond()
        if self._task.level >= _COMPLETE:
            self._tell_missing()
            mix = tag_mix(self._expected, self._tagged, np.concatenate(self._spoiled))
            self._log.extend([] if mix is None else [mix])

    def _note_taken(self, file: MatchedFile, matched: Int64s) -> None:
        if len(matched):
            file.first = int(matched.min()) if file.first < 0 else min(file.first, int(matched.min()))
            file.last = max(file.last, int(matched.max()))

    def _tell(
        self,
        report: FileReport,
        file: MatchedFile,
        items: Items,
        matches: Buffer,
        matched: Int64s,
    ) -> None:
        offsets = items.physical_offsets
        nowhere = matches == ItemMatch.NOWHERE
        expired = nowhere & (offsets >= 0) & (offsets < self._task.log_start)
        beyond = nowhere & (offsets >= self._task.log_end)
        file.expired += int(expired.sum())
        is_left_over = beyond & (offsets < self._task.stale_stop)
        sentence = f"points at an old record after the log's end, {self._task.log_end}, left by a truncation"
        report.items(codes.IX_DANGLING, items, is_left_over, sentence, severity=Severity.WARNING)
        self._hold_beyond(report, file, items, beyond & ~is_left_over, matches == ItemMatch.TAKEN)
        self._foreign.feed(report, items, matched, matches, nowhere & ~expired & ~beyond)
        if self._task.level < _COMPLETE:
            return
        repeated = matches == ItemMatch.REPEATED
        neighbours = offsets == np.concatenate([[self._last_offset], offsets[:-1]])
        report.items(codes.IX_DUP, items, repeated & neighbours, "repeats a key of the message before it")
        report.items(codes.IX_SUPERFLUOUS, items, repeated & ~neighbours, "repeats the entry of another item")

    def _hold_beyond(
        self, report: FileReport, file: MatchedFile, items: Items, beyond: Bools, taken: Bools
    ) -> None:
        """Report items beyond the log's end that others follow; keep those at the file's end."""
        last = int(np.flatnonzero(taken)[-1]) if taken.any() else -1
        if last >= 0 and not self._task.live:
            self._log.merge(file.beyond)
            file.beyond = FindingLog(self._log.max_per_code)
        is_early = np.arange(len(items)) < last
        sentence = f"points beyond the log's end, {self._task.log_end}"
        report.items(codes.IX_DANGLING, items, beyond & is_early, sentence)
        report.items(codes.IX_DANGLING, items, beyond & ~is_early, sentence, log=file.beyond)

    def _check_times(
        self,
        report: FileReport,
        file: MatchedFile,
        items: Items,
        matches: Buffer,
        times_ms: Int64s,
    ) -> None:
        """Compare time differences; the first item's is measured from the end of the file before."""
        is_known = (matches == ItemMatch.TAKEN) | (matches == ItemMatch.REPEATED)
        if items.first == 1:
            file.first_ms = int(times_ms[0]) if is_known[0] else None
        file.last_ms = int(times_ms[-1]) if is_known[-1] else None
        begin_ms = report.index.header.begin_timestamp_ms if file.first_ms is None else file.first_ms
        wrong = is_known & (items.time_diffs != time_diff(times_ms, begin_ms))
        if items.first == 1:
            wrong[0] = bool(is_known[0]) and not self._is_first_diff(
                int(items.time_diffs[0]), int(times_ms[0])
            )
        report.items(codes.IX_WRONG, items, wrong, "has a time difference other than its record's")

    def _is_first_diff(self, diff: int, time_ms: int) -> bool:
        if diff == 0 or self._previous_end_ms is None:  # the file before may have expired
            return diff >= 0
        return diff == int(time_diff(np.array([time_ms]), self._previous_end_ms)[0])

    def _tell_beyond(self) -> None:
        """Report items beyond the log's end that no item of their file follows.

        An unclean start deletes files that are not full; a full one stays, and others follow.
        """
        is_followed = False
        for _, file in reversed(self._files):
            severity = Severity.WARNING if self._task.unclean or is_followed else None
            findings = [replace(finding, severity_override=severity) for finding in file.beyond]
            for finding in findings:
                rest = len(file.beyond) - len(findings) if finding is findings[-1] else 0
                self._log.add(finding, count=1 + rest)
            is_followed = is_followed or file.last >= 0

    def _tell_missing(self) -> None:
        total = self._expected.total
        if self._task.lag.is_controlled:  # nobody was to find them
            total = self._expected.without_end(self._task.lag.dispatched)
        missing = missing_entries(self._expected)
        if not len(missing.starts):
            return
        firsts = np.array([file.first for _, file in self._files if file.first >= 0], np.int64)
        lasts = np.array([file.last for _, file in self._files if file.last >= 0], np.int64)
        # A whole range between files was deleted with its file; an entry inside of one was never there.
        # Since 5.4.0 a start after a crash leaves such a hole as a rule: it deletes the files newer than the
        # checkpoint and dispatches only the last files of the log again.
        is_gone = ((missing.starts == 0) | np.isin(missing.starts - 1, lasts)) & (
            (missing.stops == total) | np.isin(missing.stops, firsts)
        )
        for code, chosen in ((codes.IX_GONE, is_gone), (codes.IX_MISSING, ~is_gone)):
            rows = np.flatnonzero(chosen)
            shown = rows[: self._log.max_per_code].tolist()
            for row in shown:
                keys = int(missing.keys[row])
                offset = self._offset_of(int(missing.first_keys[row]))
                without = counted(keys, "entry has", "entries have")
                rest = rows[len(shown) :] if row == shown[-1] else rows[:0]
                finding = Finding(
                    code=code,
                    physical_offset=offset,
                    expected=keys,
                    observed=0,
                    message=f"{without} no item; the first is of the record at {offset}",
                )
                self._log.add(finding, count=keys + int(missing.keys[rest].sum()))

    def _offset_of(self, number: int) -> int:
        window = int(np.searchsorted(self._expected.firsts, number, side="right")) - 1
        row = number - self._expected.firsts[window]
        return int(self._expected.rows(window).physical_offsets[row])


def check_index(task: IndexCheckTask) -> tuple[FindingLog, Examined]:
    """Check the index.

    An index that is switched off (``messageIndexEnable=false``) requires nothing; older files are still
    checked on their own.
    """
    log = FindingLog(task.max_findings)
    if any(not (task.geometry_known or file.size_bytes == task.geometry.size_bytes) for file in task.files):
        return log, Examined(index_files=len(task.files))  # IX-GEOMETRY of level 0 says so
    match = None
    if task.expected is not None and task.index_enabled:
        match = IndexMatch(task, ExpectedEntries(task.expected), log)
    files = [open_index_file(file, task.geometry) for file in task.files]
    last_used = max((number for number, file in enumerate(files) if file.used), default=-1)
    examined, previous = Examined(), -1
    before: HeaderFields | None = None
    for number, index in enumerate(files):
        report = FileReport(index, log)
        torn = _torn(task) if number >= last_used else None
        first_offset = _check_file(index, report, IndexShape(report, torn), match, before)
        if first_offset is not None:
            if first_offset < previous:
                sentence = (
                    f"its first item belongs to a record before {previous}, the start of the previous file"
                )
                report.add(codes.IX_NAME_ORDER, sentence, expected=previous, observed=first_offset)
            previous = first_offset
        before = index.header if index.used else None
        examined += Examined(index_files=1, items=index.used)
    if match is not None:
        match.finish()
    return log, examined


def _torn(task: IndexCheckTask) -> Severity | None:
    """Return how grave it is that the last file has a put half done: its broker runs, or died in it."""
    if task.live:
        return Severity.INFO
    return Severity.WARNING if task.unclean else None


def _check_file(
    index: IndexFile,
    report: FileReport,
    shape: IndexShape,
    match: IndexMatch | None,
    before: HeaderFields | None,
) -> int | None:
    if match is not None:
        match.open(report)
    for items in index.item_columns():
        shape.feed(items)
        if match is not None:
            match.feed(items)
    times_known = match.close(shape.torn) if match is not None else False
    shape.finish(before, times_known=times_known)
    report.log.extend(unreadable_findings(index.file, index.unreadable, Structure.INDEX))
    index.file.close()
    return shape.first_offset
