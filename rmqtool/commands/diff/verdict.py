"""The verdict on two copies of a log: one history or two, which is ahead, can one follow the other.

In classic HA a slave names its log's end, and nothing else: nobody compares content, and nobody truncates
(``HAService.HAClient``, ``HAConnection``, 4.9.8; ``DefaultHAClient``, ``DefaultHAConnection``, 5.3.3, 5.5.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from rmqtool.findings import counted
from rmqtool.scan.entries import entry_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.scan.records import Record
    from rmqtool.store import FileQueue


class Histories(StrEnum):
    """Relation of two logs."""

    EQUAL = "equal"  # to the same end
    ONE = "one"  # one log goes further
    PARTED = "parted"
    APART = "apart"  # no byte is in both
    UNKNOWN = "unknown"


class Answer(StrEnum):
    """Whether a store can follow a master as its slave."""

    YES = "as-it-is"
    LAST_FILE = "last-file-only"
    CUT = "cut"  # after its log was cut
    COPY = "copy"  # only as a copy of the master's store
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A message at a place of the verdict."""

    physical_offset: int
    topic: str
    queue_id: int
    queue_offset: int
    store_timestamp_ms: int
    uniq_key: str | None

    @classmethod
    def of(cls, record: Record | None) -> LogMessage | None:
        """Return that of a record."""
        if record is None:
            return None
        head = record.head
        place = record.physical_offset, record.topic, head.queue_id, head.queue_offset
        return cls(*place, head.store_timestamp_ms, record.properties.get("UNIQ_KEY"))

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue_id} #{self.queue_offset}"


@dataclass(frozen=True, slots=True)
class EntryMark:
    """Index and term of an entry of DLedger; of two logs, that with the later last term is ahead.

    Of one term, the longer one is (``DLedgerLeaderElector#handleVote``, dledger 0.3.1.2).
    """

    index: int
    term: int

    @classmethod
    def at(cls, log: FileQueue, physical_offset: int | None) -> EntryMark | None:
        """Return that of a message's entry."""
        entry = None if physical_offset is None else entry_of(log, physical_offset)
        return None if entry is None else cls(entry.index, entry.term)

    def __str__(self) -> str:
        return f"entry {self.index} of term {self.term}"


@dataclass(frozen=True, slots=True)
class LogShare:
    """The part of one side that the other does not have.

    Attributes:
        side: ``a`` or ``b``.
        start: physical offset of its first byte.
        end: physical offset after its last record.
        records: records since the parting, or from the other log's end on.
        bytes: of the log there.
        older_records: records before the other log's start.
        older_bytes: of the log there.
        first: the first of ``records``; None without any, or where a file ends there.
        last_timestamp_ms: store time of its last record; None in an empty log.
        damaged_at: physical offset of the first record that is damaged on this side alone; None without one.
        first_entry: of DLedger, of ``first``; None in a plain log.
        last_entry: of its last record.
    """

    side: str
    start: int
    end: int
    records: int
    bytes: int
    older_records: int
    older_bytes: int
    first: LogMessage | None
    last_timestamp_ms: int | None
    damaged_at: int | None
    first_entry: EntryMark | None
    last_entry: EntryMark | None


@dataclass(frozen=True, slots=True)
class Following:
    """Answer for one side as the slave of the other.

    Attributes:
        slave: ``a`` or ``b``.
        answer: see its values.
        why: what happens to the slave as it is, as the second half of a sentence.
        cut_at: physical offset from which the slave's log has to be cut; None without need.
        file: of its log, in which that lies; None in controller mode, in which it cuts the log itself.
        position: in the file, bytes.
    """

    slave: str
    answer: Answer
    why: str
    cut_at: int | None = None
    file: str | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class CopiesVerdict:
    """The verdict on two copies.

    Attributes:
        histories: relation of the logs.
        parting: physical offset of the first record that differs; None without one.
        parted_before: whether that is the first byte in both, so that they may have parted before.
        joint: physical offset from which on all is equal again; None without such.
        common: the last message that both have, before the parting or before the shorter log's end.
        shares: those of A and B.
        ahead: the side whose log goes further; None without one, or if they have parted.
        following: of B after A, and of A after B; empty if not both are whole stores.
        promote: the side to promote; None if either may be, or if that is unknown.
        loses: records that only the other side has, its older ones left out.
        clocks: sentences about store times that contradict each other, or are those of two masters.
    """

    histories: Histories
    parting: int | None
    parted_before: bool
    joint: int | None
    common: LogMessage | None
    shares: tuple[LogShare, LogShare]
    ahead: str | None
    following: tuple[Following, ...]
    promote: str | None
    loses: int
    clocks: tuple[str, ...]


def entry_terms(verdict: CopiesVerdict) -> Iterator[str]:
    """Yield the first entries of DLedger that differ, and which log is ahead in term."""
    a, b = verdict.shares
    if a.first_entry is not None and b.first_entry is not None:
        yield f"The first that differs is {a.first_entry} in A, {b.first_entry} in B"
    if a.last_entry is not None and b.last_entry is not None:
        ends = f"A ends with {a.last_entry}, B with {b.last_entry}"
        terms = a.last_entry.term, b.last_entry.term
        ahead = "A" if terms[0] > terms[1] else "B"
        yield f"{ends}: {'of one term' if terms[0] == terms[1] else f'{ahead} is ahead in term'}"


def log_shares(verdict: CopiesVerdict) -> Iterator[str]:
    """Yield a sentence about what each side has alone."""
    for share in verdict.shares:
        parts = []
        if share.records or share.bytes:
            parts.append(f"{counted(share.records, 'message', spec=',')} ({share.bytes:,} bytes) alone")
        if share.older_records or share.older_bytes:
            older = counted(share.older_records, "older message", spec=",")
            parts.append(f"{older} ({share.older_bytes:,} bytes), which expired in the other or are missing")
        if parts:
            yield f"{share.side.upper()} has {' and '.join(parts)}"
