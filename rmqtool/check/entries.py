"""Entries of DLedger on both sides of a seam, and the log's last ones against the member's checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.derived.positions import last_dispatched
from rmqtool.findings import Finding, codes, counted
from rmqtool.formats.entry import ENTRIES
from rmqtool.formats.message import Outcome
from rmqtool.scan.entries import entry_of
from rmqtool.store import PathKind
from rmqtool.store.ledger import ENTRY_INDEX, progress_of, unit_files
from rmqtool.store.segments import finding_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.check.splits import SegmentScan
    from rmqtool.scan.entries import EntrySpan
    from rmqtool.store import Store


def seam_findings(scans: Iterable[SegmentScan]) -> Iterator[Finding]:
    """Yield the findings about the first entries of splits and files, by the last ones before them."""
    before: EntrySpan | None = None
    full_at = -1  # where the file before ends, if it has an end mark
    for scan in scans:
        for report in scan.reports:
            span = report.entries
            if span is None:
                continue
            if before is not None:
                follows = before.stop in {span.start, full_at}
                (index, term), (after, new_term) = before.last, span.first
                if after != index + 1 if follows else after <= index:
                    message = f"entry {after}, {index + 1} comes here"
                    fields = {"length": ENTRIES.size, "expected": index + 1, "observed": after}
                    yield finding_at(scan.segment, codes.DL_INDEX, span.start, message, **fields)
                if new_term < term:
                    message = f"term {new_term} after term {term}"
                    fields = {"length": ENTRIES.size, "expected": term, "observed": new_term}
                    yield finding_at(scan.segment, codes.DL_TERM, span.start, message, **fields)
            before, full_at = span, -1
        full_at = scan.log_offset if scan.end is Outcome.FILE_END else -1


def member_findings(store: Store, last: EntrySpan) -> Iterator[Finding]:
    """Yield that the member has no index of entries, and what its checkpoint says of the log's last ones."""
    segment = store.log.segment_at(last.start)
    if segment is None:
        return
    member, (index, _) = segment.path.parent.parent, last.last
    if store.kind is PathKind.STORE and not unit_files(member):
        label = f"{member.name}/{ENTRY_INDEX}"
        yield Finding(
            code=codes.DL_UNIT, file=label, message=f"no file of units in {label}/: no entry has one"
        )
    committed = progress_of(member).committed
    if committed is not None and committed > index:
        yield Finding(
            code=codes.DL_COMMITTED,
            file=f"{member.name}/checkpoint",
            expected=index,
            observed=committed,
            message=f"entry {committed} was committed, the log ends with entry {index}",
        )
    if committed is None or committed < index:
        dispatched = (entry_of(store.log, place) for place in last_dispatched(store))
        known = max([-1 if committed is None else committed, *(entry.index for entry in dispatched if entry)])
        if known < index:
            left = counted(index - known, "entry", "entries", spec=",")
            message = f"{left} after entry {known}, of which neither checkpoint, queues nor index know"
            yield Finding(code=codes.DL_UNCOMMITTED, file=f"{member.name}/checkpoint", message=message)
