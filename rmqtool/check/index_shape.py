"""Level 1 of an index file: header, slots and chains against the items, without the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.findings import Finding, FindingCode, FindingLog, Observed, Severity, codes, counted
from rmqtool.formats.fields import offsets as field_offsets
from rmqtool.formats.index import HEADER, ITEM_SIZE, SLOT_SIZE, HeaderFields, slot_position
from rmqtool.kernels.compare import follow_chains
from rmqtool.times import utc_text

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s
    from rmqtool.derived.index_files import IndexFile, Items


_SECOND_MS = 1000
_INT_MAX = 0x7FFFFFFF
_HEADER_OFFSETS = field_offsets(HEADER)
HEADER_FIELDS = tuple(_HEADER_OFFSETS)


def time_diff(store_timestamps_ms: Int64s, begin_ms: int) -> Int64s:
    """Return the time differences in s that ``IndexFile#putKey`` writes."""
    if begin_ms <= 0:
        return np.zeros(len(store_timestamps_ms), np.int64)
    return np.clip(store_timestamps_ms - begin_ms, 0, _INT_MAX * _SECOND_MS) // _SECOND_MS


class FileReport:
    """Findings about one index file."""

    def __init__(self, index: IndexFile, log: FindingLog) -> None:
        self.index, self.log = index, log

    def add(
        self,
        code: FindingCode,
        message: str,
        position: int | None = None,
        *,
        count: int = 1,
        severity: Severity | None = None,
        log: FindingLog | None = None,
        **fields: Observed,
    ) -> None:
        """Add a finding; ``fields`` are those of `Finding`."""
        finding = self._finding(code, message, position, severity, **fields)
        (self.log if log is None else log).add(finding, count=count)

    def header_field(self, name: str) -> int:
        """Return a field of the file's header by its name."""
        return self.index.header[HEADER_FIELDS.index(name)]

    def header(self, name: str, expected: int, *, severity: Severity | None = None) -> None:
        """Add a finding about a header field that differs from its items."""
        observed = self.header_field(name)
        said = [utc_text(value) if name.endswith("Timestamp") else value for value in (observed, expected)]
        sentence = f"{name} is {said[0]}, its items say {said[1]}"
        place = _HEADER_OFFSETS[name]
        self.add(codes.IX_HEADER, sentence, place, expected=expected, observed=observed, severity=severity)

    def items(
        self,
        code: FindingCode,
        items: Items,
        is_wrong: Bools,
        message: str,
        *,
        severity: Severity | None = None,
        log: FindingLog | None = None,
    ) -> None:
        """Add a finding for every item that a mask marks; the message goes on after ``item N``."""

        def finding(row: int) -> Finding:
            return self._finding(
                code,
                f"item {items.first + row} {message}",
                self.index.item_position(items.first + row),
                severity,
                length=ITEM_SIZE,
                physical_offset=int(items.physical_offsets[row]),
            )

        rows = np.flatnonzero(is_wrong)
        (self.log if log is None else log).add_rows(rows, lambda row: finding(int(row)))

    def _finding(
        self,
        code: FindingCode,
        message: str,
        position: int | None,
        severity: Severity | None,
        **fields: Observed,
    ) -> Finding:
        label = self.index.file.label
        return Finding(
            code=code,
            file=label,
            position=position,
            message=f"{label}: {message}",
            severity_override=severity,
            **fields,  # type: ignore[arg-type]
        )


class IndexShape:
    """Checks header, slots and chains of one file.

    ``torn`` is the severity of the traces of a half-done put; None for the usual one. A broker that runs
    (INFO) may have done more than one since the header was read. ``first_offset`` is the physical offset of
    the first item's record.
    """

    def __init__(self, report: FileReport, torn: Severity | None) -> None:
        self._report, self.torn = report, torn
        self._index = report.index
        self._newest = np.zeros(self._index.geometry.slots, np.int32)
        self._last_offset = -1
        self._last_diff = 0
        self.first_offset: int | None = None

    def feed(self, items: Items) -> None:
        """Check consecutive items."""
        if self.first_offset is None:
            self.first_offset = int(items.physical_offsets[0])
            if items.time_diffs[0] > 0:
                sentence = f"its first item is measured from {int(items.time_diffs[0])} s before"
                self._report.add(codes.IX_HDR_TIME, sentence, self._index.item_position(1))
        wrong = np.zeros(len(items), np.bool_)
        if follow_chains(items.key_hashes, items.previous, items.first, self._newest, wrong):
            self._chains(items, wrong)
        negative = (items.key_hashes < 0) | (items.physical_offsets < 0) | (items.time_diffs < 0)
        self._report.items(codes.IX_WRONG, items, negative, "has a negative hash, offset or time difference")
        before = np.concatenate([[self._last_offset], items.physical_offsets[:-1]])
        self._report.items(
            codes.IX_ORDER, items, items.physical_offsets < before, "lies below the item before it in the log"
        )
        self._last_offset = int(items.physical_offsets[-1])
        self._last_diff = int(items.time_diffs[-1])

    def finish(self, previous: HeaderFields | None, *, times_known: bool) -> None:
        """Compare header, slots and unused items with the items.

        ``previous`` is the header of the file before, if it has items; ``times_known`` is whether the
        header's times were compared with those of records.
        """
        header, used = self._index.header, self._index.used
        if not 0 <= header.index_count <= self._index.geometry.items:
            self._report.add(
                codes.IX_COUNT,
                f"indexCount {header.index_count}, where at most {self._index.geometry.items} can be",
                _HEADER_OFFSETS["indexCount"],
                expected=self._index.geometry.items,
                observed=header.index_count,
            )
        self._unused_items()
        self._slots()
        if self.first_offset is None:
            self._unused_header(previous)
            return
        if header.begin_phy_offset != self.first_offset:
            self._report.header("beginPhyOffset", self.first_offset, severity=self.torn)
        if header.end_phy_offset != self._last_offset:
            self._report.header("endPhyOffset", self._last_offset, severity=self.torn)
        if not times_known and used > 1:
            self._last_time(header.begin_timestamp_ms, header.end_timestamp_ms)

    def _unused_header(self, previous: HeaderFields | None) -> None:
        """Check the header of a file without items: zeros, or the end of the file before, twice.

        That file may be missing, deleted by a start after a crash: its end lies after that of the one before
        it.
        """
        header = self._index.header
        for begin, end in (("beginTimestamp", "endTimestamp"), ("beginPhyOffset", "endPhyOffset")):
            values = {self._report.header_field(begin), self._report.header_field(end)}
            last = None if previous is None else previous[HEADER_FIELDS.index(end)]
            if len(values) > 1 or (last is not None and values != {0} and min(values) < last):
                sentence = f"has no items, but {begin} and {end} {sorted(values)}"
                place = _HEADER_OFFSETS[begin]
                self._report.add(codes.IX_HEADER, sentence, place, severity=self.torn, expected=last or 0)
        if header.hash_slot_count:
            sentence = f"has no items, but hashSlotCount {header.hash_slot_count}"
            self._report.add(
                codes.IX_HEADER,
                sentence,
                _HEADER_OFFSETS["hashSlotCount"],
                severity=self.torn,
                expected=0,
                observed=header.hash_slot_count,
            )

    def _chains(self, items: Items, wrong: Bools) -> None:
        upward = items.previous >= items.first + np.arange(len(items))
        self._report.items(
            codes.IX_CHAIN, items, wrong & upward, "names itself or a newer item as the older one"
        )
        self._report.items(
            codes.IX_CHAIN, items, wrong & ~upward, "names another item than the next older one of its slot"
        )

    def _last_time(self, begin_ms: int, end_ms: int) -> None:
        expected = int(time_diff(np.array([end_ms]), begin_ms)[0])
        if expected != self._last_diff:
            self._report.add(
                codes.IX_HEADER,
                f"its times lie {expected} s apart, its last item is {self._last_diff} s after its first",
                0,
                severity=self.torn,
                expected=self._last_diff,
                observed=expected,
            )

    def _unused_items(self) -> None:
        count, is_live = self._index.header.index_count, self.torn is Severity.INFO
        for first, is_used in self._index.unused_items():
            rows = np.flatnonzero(is_used)
            if len(rows):
                item = first + int(rows[0])
                self._report.add(
                    codes.IX_COUNT,
                    f"item {item} is in use, not counted by indexCount {count}",
                    self._index.item_position(item),
                    count=len(rows),
                    severity=self.torn
                    if item == self._index.used + 1 and (len(rows) == 1 or is_live)
                    else None,
                    length=ITEM_SIZE,
                )

    def _slots(self) -> None:
        used_slots, count = 0, self._index.used + 1
        is_live = self.torn is Severity.INFO
        for first, slots in self._index.slot_columns():
            newest = self._newest[first : first + len(slots)]
            used_slots += int(np.count_nonzero(newest))
            rows = np.flatnonzero(slots != newest)
            shown = rows[: self._report.log.max_per_code].tolist()
            for row in shown:
                self._report.add(
                    codes.IX_SLOT,
                    f"slot {first + row} has item {int(slots[row])}, its newest is {int(newest[row])}",
                    slot_position(first + row),
                    count=len(rows) - len(shown) + 1 if row == shown[-1] else 1,
                    severity=self.torn if int(slots[row]) == count or is_live else None,
                    length=SLOT_SIZE,
                    expected=int(newest[row]),
                    observed=int(slots[row]),
                )
        if self.first_offset is not None:
            self._slot_count(used_slots)

    def _slot_count(self, used_slots: int) -> None:
        """Compare hashSlotCount; up to 4.7.0 it counts items, and an upgrade mixes both."""
        slot_count = self._index.header.hash_slot_count
        if not used_slots <= slot_count <= self._index.used + 1:
            self._report.add(
                codes.IX_HEADER,
                f"hashSlotCount is {slot_count}, {counted(used_slots, 'slot is', 'slots are')} in use",
                _HEADER_OFFSETS["hashSlotCount"],
                severity=self.torn,
                expected=used_slots,
                observed=slot_count,
            )
