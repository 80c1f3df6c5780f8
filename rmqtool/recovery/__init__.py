"""PREDICTION: what a broker of a given release does with a store when it starts.

``store_files`` loads as the broker does (``loading``, ``index_files``, ``compaction``, ``first_file``).
``unit_queue`` and ``batch_queue`` are its queues in memory, ``log_walk`` is the log as recovery reads it,
``derived`` takes what is dispatched, ``losses`` counts lost records, missing units and messages that no pull
delivers, ``hazards`` finds what else goes wrong, and ``predict`` runs all of it in the broker's order.
Here is the prediction; ``outcome`` is its verdict. Nothing is written.

Settings count as the broker's release knows them. With DLedger, ``recheckReputOffsetFromCq``, or
``duplicationEnable`` and ``readUnCommitted`` there is no prediction. It assumes a master without controller.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from rmqtool.account.lost import LostTotals
    from rmqtool.account.model import LogLosses
    from rmqtool.releases import Release
    from rmqtool.store import Settings


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason why the broker does not start.

    Attributes:
        file: path relative to the store.
        reason: the end of a sentence that begins with the path.
        remedy: a whole sentence on what cures it; None where only that of the finding is known.
    """

    file: str
    reason: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A file of settings in which a start finds nothing.

    Attributes:
        file: path relative to the store.
        loses: what the broker has forgotten then, as a sentence goes on.
    """

    file: str
    loses: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovery that runs, and where it begins to read.

    Attributes:
        kind: ``normal`` without ``abort``, else ``abnormal``.
        file: the log's file that it begins with; None for a log without files.
        physical_offset: where it begins: that file's first byte, or a place in it that the checkpoint names.
        reason: why that file.
    """

    kind: Literal["normal", "abnormal"]
    file: str | None
    physical_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Cut:
    """The place at which recovery ends the log.

    Attributes:
        physical_offset: the log's end from then on.
        file: the file it lies in.
        position: bytes from the file's start.
        code: finding code of the damage; None at the log's own end.
        reason: what lies there.
    """

    physical_offset: int
    file: str
    position: int
    code: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Loss:
    """Intact records of a topic that lie after the cut.

    Attributes:
        topic: the stored topic.
        messages: how many.
        bytes: their size.
    """

    topic: str
    messages: int
    bytes: int


@dataclass(slots=True)
class Dispatched:
    """The records that are dispatched again.

    Attributes:
        start: physical offset of the first record; None if there is none.
        stop: physical offset after the last.
        messages: how many.
        units: consume queue units that are appended.
        index_entries: index entries that are put.
    """

    start: int | None = None
    stop: int | None = None
    messages: int = 0
    units: int = 0
    index_entries: int = 0


@dataclass(frozen=True, slots=True)
class Reput:
    """The dispatch after recovery.

    Attributes:
        start: physical offset at which it begins.
        stalled_at: physical offset that it never gets past; None if it gets through.
        dispatched: what it dispatches.
    """

    start: int
    stalled_at: int | None
    dispatched: Dispatched


@dataclass(slots=True)
class QueueOutcome:
    """A queue after the start.

    Attributes:
        topic: its topic.
        queue_id: its number.
        batch: whether it is a batch consume queue.
        found_max_offset: max offset as the files have it, before recovery of the log.
        min_offset: min offset that the broker reports once it has started.
        max_offset: max offset that it reports; the next message gets it.
        appended: units appended by the start.
        misplaced: those of them that land at another place than their queue offset.
        dropped: records dispatched in vain, because the queue has passed their queue offset.
        missing: records in the log that have no unit and get none.
    """

    topic: str
    queue_id: int
    batch: bool
    found_max_offset: int
    min_offset: int
    max_offset: int
    appended: int
    misplaced: int
    dropped: int
    missing: int


@dataclass(slots=True)
class IndexFileOutcome:
    """An index file after the start.

    Attributes:
        file: path relative to the store; None for one that the start creates.
        items: entries in it.
        end_phy_offset: endPhyOffset of its header.
    """

    file: str | None
    items: int
    end_phy_offset: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a broker of one release will do.

    Attributes:
        store: path of the evidence.
        release: whose rules apply.
        refusals: why it does not start; empty if it does.
        recovery: which recovery runs; None when loading is refused before.
        cut: where it ends the log; None for a log without files.
        lost: intact records after the cut, by topic.
        log_losses: messages that the log has lost already; None for a log without files.
        lost_messages: all messages that are lost, added up; None unless they are requested one by one.
        deleted_files: files it deletes, relative to the store.
        dispatched_by_recovery: what recovery dispatches.
        reput: what is dispatched after recovery; None if it does not come to that.
        queues: the queues afterwards.
        index: the index files afterwards, in order.
        ignored_index_files: entries of the index directory that the broker skips.
        missing_index_entries: index entries that the log requires, but that do not exist and are not put.
        not_served: messages in log and queue that no pull delivers, at most: pulls skip them.
        forgets: files of settings in which it finds nothing.
        hazards: whole sentences on what else will go wrong.
    """

    schema: ClassVar = "rmqtool.prediction/1"
    store: str
    release: Release
    refusals: tuple[Refusal, ...] = ()
    recovery: Recovery | None = None
    cut: Cut | None = None
    lost: tuple[Loss, ...] = ()
    log_losses: LogLosses | None = None
    lost_messages: LostTotals | None = None
    deleted_files: tuple[str, ...] = ()
    dispatched_by_recovery: Dispatched = field(default_factory=Dispatched)
    reput: Reput | None = None
    queues: tuple[QueueOutcome, ...] = ()
    index: tuple[IndexFileOutcome, ...] = ()
    ignored_index_files: tuple[str, ...] = ()
    missing_index_entries: int = 0
    not_served: int = 0
    forgets: tuple[Forgotten, ...] = ()
    hazards: tuple[str, ...] = ()

    @property
    def loads(self) -> bool:
        """Whether the store loads."""
        return not self.refusals

    @property
    def starts(self) -> bool:
        """Whether the broker gets through its start; a 4.9 broker waits for its reput."""
        return self.loads and (self.reput is None or self.reput.stalled_at is None)


RECOVER_FILES = 10

"""commitLogRecoverMaxNum where it is not set, or not positive (``CommitLog#recoverNormally``, 5.4.0+)."""


@dataclass(frozen=True, slots=True)
class RecoverySwitches:
    """A broker's settings for its recovery.

    Attributes:
        check_crc: ``checkCRCOnRecover``.
        index_safe: ``messageIndexSafe``, which counts where there is an index.
        window: files that are walked back at most (``commitLogRecoverMaxNum``); None without a limit.
        check_offsets: ``checkCommitLogOffsetOnRecover``: a PHYSICALOFFSET outside its file ends the log.
        accelerated: ``enableAcceleratedRecovery``: an unclean start reads from the checkpoint's offset on.
        check_property: ``forceVerifyPropCRC``: the property ``__CRC32#`` is checked in place of the body, and
            a record without one fails.
        confirmed_only: ``duplicationEnable``: only what lies before the confirm offset is dispatched.
        check_dup_info: the same in 5.x: a record whose properties lack ``DUP_INFO`` of two parts fails.
    """

    check_crc: bool = True
    index_safe: bool = False
    window: int | None = None
    check_offsets: bool = False
    accelerated: bool = False
    check_property: bool = False
    confirmed_only: bool = False
    check_dup_info: bool = False

    @property
    def check_body(self) -> bool:
        """Whether bodies are checked."""
        return self.check_crc and not self.check_property

    @classmethod
    def from_settings(cls, settings: Settings, release: Release) -> RecoverySwitches:
        """Return the switches of a broker of ``release`` that has a store's settings."""

        def is_on(name: str) -> bool:
            return bool(settings[name].value)

        return cls(
            check_crc=is_on("checkCRCOnRecover"),
            index_safe=is_on("messageIndexEnable") and is_on("messageIndexSafe"),
            window=recover_window(settings, release),
            check_offsets=release.checks_stored_offset and is_on("checkCommitLogOffsetOnRecover"),
            accelerated=release.accelerated_recovery and is_on("enableAcceleratedRecovery"),
            check_property=release.verifies_property
            and is_on("checkCRCOnRecover")
            and is_on("forceVerifyPropCRC"),
            confirmed_only=is_on("duplicationEnable"),
            check_dup_info=is_on("duplicationEnable") and not release.reputs_from_queues,
        )


def recover_window(settings: Settings, release: Release) -> int | None:
    """Return how many of the log's files a start walks back at most; None without a limit."""
    if not release.recover_window:
        return None
    files = settings["commitLogRecoverMaxNum"].value
    return files if isinstance(files, int) and files > 0 else RECOVER_FILES


@dataclass
class PredictionDraft:
    """Draft of a `Prediction`, with its fields."""

    store: str
    release: Release
    refusals: list[Refusal] = field(default_factory=list)
    recovery: Recovery | None = None
    cut: Cut | None = None
    lost: list[Loss] = field(default_factory=list)
    log_losses: LogLosses | None = None
    lost_messages: LostTotals | None = None
    deleted_files: list[str] = field(default_factory=list)
    dispatched_by_recovery: Dispatched = field(default_factory=Dispatched)
    reput: Reput | None = None
    queues: list[QueueOutcome] = field(default_factory=list)
    index: list[IndexFileOutcome] = field(default_factory=list)
    ignored_index_files: list[str] = field(default_factory=list)
    missing_index_entries: int = 0
    not_served: int = 0
    forgets: list[Forgotten] = field(default_factory=list)
    hazards: list[str] = field(default_factory=list)

    @property
    def loads(self) -> bool:
        """Whether the store loads, as far as is known yet."""
        return not self.refusals

    def finish(self) -> Prediction:
        """Return the finished prediction."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return Prediction(**values | lists)
