"""Findings about well-framed records: hits of the check kernels, and checks that only Python can make."""

from __future__ import annotations

import zlib
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.findings import Finding, FindingCode, FindingLog, codes
from rmqtool.formats.framing import DLEDGER
from rmqtool.javacompat import PROP_CRC_SIZE, decode_utf8
from rmqtool.kernels.checks import HIT_ROW, MAX_HITS, Check, Sum, check_records, stored_record_crc
from rmqtool.releases import NEWEST
from rmqtool.scan.entries import EntryChecker, EntrySpan
from rmqtool.scan.gap_walk import GapWalk
from rmqtool.scan.records import Gap
from rmqtool.store.segments import Segment, finding_at
from rmqtool.times import utc_text

if TYPE_CHECKING:
    from rmqtool.arrays import Rows
    from rmqtool.kernels.rows import MessageBatch

_HITS = 64 * MAX_HITS
_CRC_MASK = 0x7FFFFFFF
_CHUNK_BYTES = 1 << 20

_CODES: dict[Check, tuple[FindingCode, str]] = {
    Check.PHYSICAL_OFFSET: (
        codes.CL_PHY_MISMATCH,
        "PHYSICALOFFSET {observed}, but the record lies at {expected}",
    ),
    Check.BODY_CRC: (codes.CL_CRC, "the body's CRC-32 is {expected}, BODYCRC says {observed}"),
    Check.NO_BODY_CRC: (codes.CL_NO_CRC, "BODYCRC is 0, and the body's CRC-32 {expected}"),
    Check.RECORD_CRC: (codes.CL_PROP_CRC, "the record's CRC-32 is {expected}, __CRC32# says {observed}"),
    Check.BORN_PORT: (codes.CL_PORT, "port {observed} in BORNHOST"),
    Check.STORE_PORT: (codes.CL_PORT, "port {observed} in STOREHOST"),
    Check.BORN_TIME: (codes.CL_TIME, "BORNTIMESTAMP {observed} is implausible"),
    Check.STORE_TIME: (codes.CL_TIME, "STORETIMESTAMP {observed} is implausible"),
    Check.PROPERTIES: (
        codes.CL_PROPERTIES,
        "the properties have a negative length, or pieces without name or value: {observed}",
    ),
    Check.ZEROS: (codes.CL_PROPERTIES, "zeros stand in the properties"),
    Check.INNER_BASE: (
        codes.CL_QOFF_RANGE,
        "QUEUEOFFSET {observed}, but the property INNER_BASE says {expected}",
    ),
    Check.EMPTY_BODY_CRC: (codes.CL_EMPTY_BODY, "BODYCRC {observed}, but there is no body"),
    Check.BODY_LENGTH: (codes.CL_EMPTY_BODY, "a body of {observed} bytes"),
    Check.COMPRESSION: (
        codes.CL_SYSFLAG,
        "SYSFLAG 0x{observed:X} marks the body as compressed, but its first bytes differ",
    ),
    Check.SYS_FLAG: (codes.CL_SYSFLAG, "SYSFLAG 0x{observed:X} has undefined bits"),
    Check.INNER_FLAG: (
        codes.CL_SYSFLAG,
        "SYSFLAG 0x{observed:X} marks an inner batch, but INNER_NUM is missing",
    ),
    Check.QUEUE_OFFSET: (
        codes.CL_QOFF_RANGE,
        "QUEUEOFFSET {observed} in a prepared or rolled back record, where a broker writes 0",
    ),
    Check.PREPARED_OFFSET: (
        codes.CL_PREPARED,
        (
            "PREPARED_TRANSACTION_OFFSET {observed}: only a record that ends a transaction has one: the "
            "offset of a half message before it"
        ),
    ),
    Check.PLACEHOLDER: (codes.CL_PLACEHOLDER, "made by a salvage in the place of a lost message"),
}
_HAS_EXPECTED = frozenset(
    {
        Check.PHYSICAL_OFFSET,
        Check.BODY_CRC,
        Check.NO_BODY_CRC,
        Check.RECORD_CRC,
        Check.INNER_BASE,
        Check.EMPTY_BODY_CRC,
        Check.QUEUE_OFFSET,
    }
)
_HEX_FIELDS = frozenset({Check.COMPRESSION, Check.SYS_FLAG, Check.INNER_FLAG})


class Ahead(NamedTuple):
    """Records that were born more than a second after they were stored, and by how much at most."""

    records: int = 0
    most_ms: int = 0


class RecordChecker:
    """Checks the records of one segment; ``findings`` receives the damage.

    From physical offset ``stop`` on records are left alone: see ``LogEdge.stale_from``. ``with_units`` is
    whether the index of DLedger's entries is compared with them.
    """

    def __init__(
        self, segment: Segment, findings: FindingLog, stop: int | None = None, *, with_units: bool = False
    ) -> None:
        self._segment = segment
        self._findings = findings
        self._stop = stop
        self._hits = np.empty(_HITS, HIT_ROW)
        self._sums = np.zeros(len(Sum), np.int64)
        is_plain = segment.framing != DLEDGER
        self._entries = None if is_plain else EntryChecker(segment, findings, with_units=with_units)

    @property
    def entries(self) -> EntrySpan | None:
        """Return the entries of DLedger so far; None without any."""
        return None if self._entries is None else self._entries.span

    @property
    def sound_crcs(self) -> int:
        """Return how many records carry a property ``__CRC32#`` that holds."""
        return int(self._sums[Sum.SOUND_CRCS])

    @property
    def ahead(self) -> Ahead:
        """Return how many records were born after they were stored."""
        return Ahead(int(self._sums[Sum.AHEAD]), int(self._sums[Sum.MOST_AHEAD_MS]))

    def check(self, batch: MessageBatch) -> None:
        """Check a batch; where a record claims another place, its row gets the one where it lies."""
        if self._stop is not None:
            batch = batch.only(slice(np.searchsorted(batch.rows["log_offset"], self._stop)))
        if self._entries is not None:
            self._entries.check(batch)
        row = 0
        while row < len(batch.rows):
            row, count = check_records(batch, row, self._sums, self._hits)
            if count:
                self._report(batch, self._hits[:count])
        if batch.cut and len(batch.rows):
            self._check_long(batch)

    def _report(self, batch: MessageBatch, hits: Rows) -> None:
        """Add findings; those above the cap only count, without being made."""
        for check in Check:
            self._findings.add_rows(hits[hits["check"] == check], partial(self._finding, batch, check))

    def _finding(self, batch: MessageBatch, check: Check, hit: Any) -> Finding:  # noqa: ANN401 - a numpy row
        expected = int(hit["expected"]) if check in _HAS_EXPECTED else None
        return self._at(batch, int(hit["row"]), check, expected, int(hit["observed"]))

    def _at(
        self, batch: MessageBatch, number: int, check: Check, expected: int | None, observed: int
    ) -> Finding:
        code, message = _CODES[check]
        row = batch.rows[number]
        log_offset = int(row["log_offset"])
        topic = batch.buffer[row["topic_start"] : row["topic_stop"]].tobytes()
        return finding_at(
            self._segment,
            code,
            log_offset,
            message.format(expected=expected, observed=_shown(check, observed)),
            length=int(row["total_size"]),
            topic=decode_utf8(topic),
            queue_id=int(row["queue_id"]),
            queue_offset=int(row["queue_offset"]),
            expected=expected,
            observed=observed,
        )

    def _check_long(self, batch: MessageBatch) -> None:
        """Check the sums of a record that is longer than a window, piece by piece."""
        row = batch.rows[0]
        properties_start = int(row["topic_stop"]) + 2
        properties_stop = properties_start + int(row["properties_length"])
        crc = self._crc_of_file(batch.base + int(row["body_start"]), int(row["body_length"]), 0)
        if crc & _CRC_MASK != row["body_crc"]:
            check = Check.BODY_CRC if row["body_crc"] else Check.NO_BODY_CRC
            self._findings.add(self._at(batch, 0, check, crc & _CRC_MASK, int(row["body_crc"])))
        stored = int(stored_record_crc(batch.buffer, properties_start, properties_stop))
        if stored == -1:
            return
        head = zlib.crc32(batch.buffer[: row["body_start"]].data)
        body_stop = batch.base + int(row["body_start"])
        crc = self._crc_of_file(body_stop, int(row["body_length"]), head)
        crc = zlib.crc32(batch.buffer[row["body_start"] : properties_stop - PROP_CRC_SIZE].data, crc)
        if crc & _CRC_MASK == stored:
            self._sums[Sum.SOUND_CRCS] += 1
        else:
            self._findings.add(self._at(batch, 0, Check.RECORD_CRC, crc & _CRC_MASK, stored))

    def _crc_of_file(self, log_offset: int, length: int, value: int) -> int:
        """Return CRC-32 of bytes of the log; unreadable data counts as zeros (the walk reports it)."""
        buffer = bytearray(min(_CHUNK_BYTES, max(length, 1)))
        position, stop = log_offset - self._segment.start, log_offset - self._segment.start + length
        while position < stop:
            view = memoryview(buffer)[: stop - position]
            count = self._segment.read_into(position, view, [])
            if count == 0:
                break
            value = zlib.crc32(view[:count], value)
            position += count
        return value


def _shown(check: Check, observed: int) -> int | str:
    """Return flags without their sign, and times as ISO 8601."""
    if check in {Check.BORN_TIME, Check.STORE_TIME}:
        return utc_text(observed)
    return observed & 0xFFFFFFFF if check in _HEX_FIELDS else observed


def most_have_none(records: int, sound: int, wrong: int) -> bool:
    """Whether a wrong ``__CRC32#`` may come from elsewhere, by counts of a file's records.

    A broker deletes a property ``__CRC32#`` that a message brings along only if it appends its own
    (``CommitLog#asyncPutMessage``, 5.3.3): where most records have none, a wrong one may come from elsewhere.
    """
    return 2 * sound < records - wrong


@lru_cache(maxsize=64)
def file_has_none(segment: Segment) -> bool:
    """Whether a wrong ``__CRC32#`` in a file of the log may come from elsewhere; reads the whole file."""
    findings = FindingLog(1)
    checker = RecordChecker(segment, findings)
    records = 0
    for part in GapWalk(segment, NEWEST.records).parts(segment.start, segment.stop):
        if not isinstance(part, Gap):
            checker.check(part)
            records += len(part.rows)
    return most_have_none(records, checker.sound_crcs, findings.counts.get(codes.CL_PROP_CRC.code, 0))
