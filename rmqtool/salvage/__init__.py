"""SALVAGE: a new log from a damaged one, on which a broker starts.

``rmqtool.account`` reads every intact record of a copy, and decides where readings of it differ;
``gathering`` puts several copies of one log together, and goes from stores to a plan. ``losses`` counts
lost messages, and each queue's share of the new log, ``layout`` puts records in their place, and ``planning``
makes the plan, whose types are here: every byte of the new log, and of each queue what the log has of it and
what it has lost. The plan is proven before it is used.
``making`` encodes records, ``writing`` writes the new log, ``derived`` makes queues and index over it,
and ``sidecars`` adds checkpoint, config, compacted topics and reports.

Records keep their bytes and their place, always. Nothing is signed again: a record that does not match its
checksum goes to ``lost+found/``, and a message that says so takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from rmqtool import options
from rmqtool.account import AccountError
from rmqtool.formats.framing import DLEDGER, PLAIN, Framing
from rmqtool.genuine.records import Grounds  # noqa: TC001 - a plan is built of its annotations

PLAN_SCHEMA = "rmqtool.salvage-plan/1"


class Holes(StrEnum):
    """Values of ``--holes``: replacements of lost messages."""

    TOMBSTONE = "tombstone"  # a message that says so, at the lost one's queue offset
    REPEAT = "repeat"  # nothing in the log; the queue's unit repeats the one before it
    FILLER = "filler"  # nothing: queue offsets after them shift
    CUT = "cut"  # the log ends at the first of them


@dataclass(frozen=True)
class Choices:
    """The user's choice of messages."""

    holes: Holes = options.word(
        Holes,
        Holes.TOMBSTONE,
        "Replacement of lost messages. tombstone: a message that says so; repeat: the unit before, again;"
        " filler: nothing, so queue offsets shift; cut: the log ends at the first hole.",
    )
    keep_damaged: bool = options.flag(
        "Keep records whose bodies or properties fail their checksums or are torn, as they are."
    )
    include_stale: bool = options.flag("Keep what looks like old bytes after a rewritten tail.")
    topics: tuple[str, ...] = options.names(
        "Only messages of these topics.", name="topic", flags=("-t", "--topic")
    )
    exclude_topics: tuple[str, ...] = options.names("Messages of all topics but these.", name="exclude_topic")
    until_timestamp_ms: int | None = options.moment(
        "until_timestamp", f"Only messages stored until this time. {options.TIMES_HELP}"
    )
    until_offset: int | None = options.number(
        "Only records that end at or before this physical offset.", metavar="P"
    )

    @property
    def partial(self) -> bool:
        """Whether messages are left out."""
        return self.limited or bool(self.topics or self.exclude_topics)

    @property
    def limited(self) -> bool:
        """Whether the log is to end early."""
        return self.until_timestamp_ms is not None or self.until_offset is not None


class PartKind(StrEnum):
    """Kind of a range of the new log."""

    RECORDS = "records"  # true ones, copied
    TOMBSTONES = "tombstones"  # messages in the place of lost ones
    FILLER = "filler"  # one rolled back record, which no queue and no index takes
    FILE_END = "blank"  # the record that sends readers to the next file
    ZEROS = "zeros"  # after the last record


@dataclass(frozen=True, slots=True)
class Part:
    """A range of the new log.

    Attributes:
        kind: its kind.
        start: physical offset, of the first frame of records.
        length: bytes.
        source: of records, the number of the copy they come from.
        records: how many it holds; 0 for blank and zeros.
        messages: of tombstones, the lost ones that they replace: an inner batch replaces many.
        topic: of tombstones.
        queue_id: of tombstones.
        queue_offset: of the first tombstone; the others follow by one.
        store_timestamp_ms: of what is made: that of the record before.
        properties: of tombstones, name and value.
        body: of tombstones; spaces fill it up, in the number of an op message zeros do.
    """

    kind: PartKind
    start: int
    length: int
    source: int = 0
    records: int = 0
    messages: int = 0
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    store_timestamp_ms: int = 0
    properties: tuple[tuple[str, str], ...] = ()
    body: str = ""

    @property
    def stop(self) -> int:
        """Return the physical offset after it."""
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Lost:
    """Messages of one queue that are not recovered: proven to be lost, or present and not plausible.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        queue_offset: of the first.
        count: how many follow each other.
        start: physical offset after the record before them; before the log, where their unit leads to.
        stop: physical offset of the record after them; before the log, where their record ended.
        cause: ``hole`` (no bytes of them), ``body`` (a body whose checksum fails, in ``lost+found/``),
            ``properties`` (torn, or a record whose ``__CRC32#`` fails, likewise), ``listed`` (a queue
            names place and size), ``consumed`` (a consumer has read them), or in ``lost.ndjson`` ``indexed``
            (index items lead there, and nothing names topic and queue) and ``before`` (units or index items
            lead before the log's first byte: expired, or removed).
        physical_offset: where it was, if a queue or its own damaged record says so; None otherwise.
        size: bytes it had, likewise.
        tags_code: of the queue's unit, likewise.
        placed: whether a tombstone, or a repeated unit, takes its place.
        from_start: whether they are the queue's first, and only the log's beginning at 0 proves them.
        is_there: whether the log has their records, damaged, or with contradicted queue fields:
            they are not recovered, and are in ``lost+found/``.
        after_ms: store time of the record before.
        before_ms: store time of the record after; None at the log's end.
    """

    topic: str
    queue_id: int
    queue_offset: int
    count: int
    start: int
    stop: int
    cause: str
    physical_offset: int | None = None
    size: int | None = None
    tags_code: int | None = None
    placed: bool = True
    after_ms: int | None = None
    before_ms: int | None = None
    from_start: bool = False
    is_there: bool = False


@dataclass(frozen=True, slots=True)
class SalvagedQueue:
    """One queue that a salvage finds, whether it has lost anything or not: what the result has of it.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        first_queue_offset: of the first message that is there or proven.
        end_queue_offset: after the last one.
        found: messages recovered.
        lost: messages proven to be lost: the log has no record of them.
        damaged: messages whose records the log has, damaged or contradicted: they are not recovered.
        placed: of both, those with something in their place.
        served: messages recovered that the result delivers at their queue offsets.
        shifted: those that it delivers at others.
        unserved: those that a broker leaves out of the queue, as later ones are in it.
        next_queue_offset: of the next message in the result.
        orderly: whether its queue offsets go up all along the log; else they were given more than once.
        first_stored_ms: store time of the first message recovered; None without any.
        last_stored_ms: of the last.
        not_recovered: first and last queue offset of runs of lost or damaged messages, the first twenty.
    """

    topic: str
    queue_id: int
    first_queue_offset: int
    end_queue_offset: int
    found: int
    lost: int
    damaged: int
    placed: int
    served: int
    shifted: int
    unserved: int
    next_queue_offset: int
    orderly: bool
    first_stored_ms: int | None
    last_stored_ms: int | None
    not_recovered: tuple[tuple[int, int], ...] = ()

    @property
    def queue_offsets(self) -> int:
        """Return how many there are from the first to the last."""
        return self.end_queue_offset - self.first_queue_offset

    @property
    def not_given_back(self) -> int:
        """Return how many messages are lost, or there and damaged."""
        return self.lost + self.damaged

    @property
    def unknown(self) -> int:
        """Return the queue offsets of which nothing is known: neither found nor proven lost."""
        return max(self.queue_offsets - self.found - self.not_given_back, 0)

    @property
    def moves(self) -> bool:
        """Whether queue offsets are without a record though nothing is lost there: later messages move."""
        return self.orderly and self.unknown > 0


@dataclass(frozen=True, slots=True)
class Found:
    """Bytes that are not in the new log, and are kept in ``lost+found/``.

    Attributes:
        physical_offset: where they lie.
        length: how many.
        source: number of the copy.
        cause: why.
        topic: what they say of their queue, if they are a record.
        queue_id: likewise.
        queue_offset: likewise.
        is_open: whether nothing bears that out: whose message it was is not known.
        chosen_by: of a record that differs from another copy's: the reason of the decision.
    """

    physical_offset: int
    length: int
    source: int
    cause: str
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    is_open: bool = False
    chosen_by: Grounds | None = None

    @property
    def name(self) -> str:
        """Return the file's name."""
        return f"{self.physical_offset:020d}-{self.cause}-{self.source}.bin"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a copy as it was when the plan was made.

    Attributes:
        path: where it is.
        source: number of the copy.
        size_bytes: its size.
        modified_ns: its time of modification; None where the source has none.
        sha256: its digest; None where no plan was written out.
    """

    path: str
    source: int
    size_bytes: int
    modified_ns: int | None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class RecordForm:
    """Form of the records to make.

    Attributes:
        appends_crc: they end in the property ``__CRC32#``.
        dup_info: they carry DUP_INFO, which a broker with ``duplicationEnable`` demands.
        store_host: address and port, eight bytes.
        largest: bytes of one filler: brokers allocate TOTALSIZE.
        entries_from: physical offset from which on the log has entries of DLedger; None without any.
    """

    appends_crc: bool
    dup_info: bool
    store_host: bytes
    largest: int
    entries_from: int | None = None

    def framing_at(self, place: int) -> Framing:
        """Return the framing of the log at a physical offset."""
        return PLAIN if self.entries_from is None or place < self.entries_from else DLEDGER


@dataclass(frozen=True, slots=True)
class SalvagePlan:
    """Plan of a salvage.

    Attributes:
        tool_version: which made it.
        stores: paths of the copies, the first leads.
        sources: their files.
        file_size: ``mappedFileSizeCommitLog``.
        start: physical offset of the first byte.
        end: physical offset after the last record; zeros follow.
        holes: replacement of lost messages.
        form: how records are made.
        parts: the new log, in order, without a byte left out.
        kept_blanks: physical offsets of the end marks that were there.
        lost: messages.
        indexed: physical offsets of lost messages to which index items alone lead: nothing names their
            queues, and nothing can stand in their place.
        undecided: of the lost messages, those after the last record that only units name: a truncation
            leaves such units, too.
        before: messages before the first byte to which units or index items of the first copy lead; they are
            not among the lost.
        misnamed: files of the log under the names of others.
        found: bytes that are put into ``lost+found/``.
        queues: the account of each queue.
        partial: the user left messages out.
        healed: records filled in from other copies than the first.
        conflicts: physical offsets of records put aside for those of another copy that differ.
        kept_damaged: records recovered though their bodies or properties are damaged, as wanted.
        odd_times: records recovered whose store time is out of order between two that are in order.
        unlisted: topics with batch queues that topics.json does not name so: a broker refuses these.
        notes: sentences.
    """

    schema: ClassVar = PLAN_SCHEMA
    tool_version: str
    stores: tuple[str, ...]
    sources: tuple[SourceFile, ...]
    file_size: int
    start: int
    end: int
    holes: Holes
    form: RecordForm
    parts: tuple[Part, ...] = ()
    kept_blanks: tuple[int, ...] = ()
    lost: tuple[Lost, ...] = ()
    indexed: tuple[int, ...] = ()
    undecided: int = 0
    before: int = 0
    misnamed: int = 0
    found: tuple[Found, ...] = ()
    queues: tuple[SalvagedQueue, ...] = ()
    partial: bool = False
    healed: int = 0
    conflicts: tuple[int, ...] = ()
    kept_damaged: int = 0
    odd_times: int = 0
    unlisted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def stop(self) -> int:
        """Return the physical offset after the last file."""
        return self.parts[-1].stop if self.parts else self.start

    def bytes_of(self, kind: PartKind) -> int:
        """Return how many bytes of the log are of a kind."""
        return sum(part.length for part in self.parts if part.kind is kind)

    def records_of(self, kind: PartKind) -> int:
        """Return how many records are of a kind."""
        return sum(part.records for part in self.parts if part.kind is kind)

    def check(self) -> None:
        """Prove that the account is complete; raise `AccountError` if it is not."""
        due = self.start
        for part in self.parts:
            if part.start != due or part.length <= 0:
                raise AccountError(f"the plan's parts do not join at {due}: {part}")
            due = part.stop
        if (due - self.start) % self.file_size:
            raise AccountError(f"the plan's log ends at {due}, inside a file")
        if sum(self.bytes_of(kind) for kind in PartKind) != due - self.start:
            raise AccountError("the bytes of the plan's parts are not those of its log")
        placed = sum(loss.count for loss in self.lost if loss.placed)
        stood_for = sum(part.messages for part in self.parts)
        if self.holes is not Holes.REPEAT and placed != stood_for:
            raise AccountError(f"{placed} lost messages are to have tombstones, {stood_for} have one")
        wrong = [
            queue
            for queue in self.queues
            if queue.placed > queue.not_given_back
            or (queue.orderly and queue.found + queue.not_given_back > queue.queue_offsets)
        ]
        if wrong:
            raise AccountError(f"found and lost are more than there is: {wrong[0]}")
        if sum(queue.not_given_back for queue in self.queues) != sum(loss.count for loss in self.lost):
            raise AccountError("the queues' lost messages differ from the list of lost messages")
