"""PREDICTION: what a broker of a given release does with a store when it starts.

``loaded`` is the store in its memory with its queues (``unit_queue``, ``batch_queue``), read from files
(``loading``) and fed by dispatch. ``log_recovery`` is the log as recovery reads it, ``entry_recovery`` one of
DLedger, ``losses`` counts lost records, missing units and messages that no pull delivers, and ``predict``
runs all of it in the broker's order. Here are the prediction, its meaning for the operator, and hazards.
Nothing is written.

Settings count as the broker's release knows them. With ``recheckReputOffsetFromCq``, with
``duplicationEnable`` and ``readUnCommitted``, or with the former and DLedger, there is no prediction. It
assumes a master without controller; of a member of a DLedger group, that it leads and gets a message.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from rmqtool.findings import Finding, FindingLog, codes, counted
from rmqtool.scan.classify import PAGE_BYTES
from rmqtool.store.broker_conf import BROKER_VERSION, DEFINITIONS, Origin, conf_text
from rmqtool.store.kinds import DIRECTORY_NAMES, PathKind
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.account import LogLosses
    from rmqtool.account.lost import LostTotals
    from rmqtool.releases import Release
    from rmqtool.store import Settings


class Refusal(NamedTuple):
    """A reason why the broker does not start.

    Attributes:
        file: path relative to the store.
        reason: the end of a sentence that begins with the path.
        remedy: a whole sentence on what cures it; None where only that of the finding is known.
    """

    file: str
    reason: str
    remedy: str | None = None


class Forgotten(NamedTuple):
    """A file of settings in which a start finds nothing.

    Attributes:
        file: path relative to the store.
        loses: what the broker has forgotten then, as a sentence goes on.
    """

    file: str
    loses: str


class Recovery(NamedTuple):
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


class Cut(NamedTuple):
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


class Loss(NamedTuple):
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


class Reput(NamedTuple):
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
    """Next start of a broker of one release.

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
        assumes: settings that are not given, and that the files may have from elsewhere than the broker.
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
    assumes: tuple[str, ...] = ()

    @property
    def loads(self) -> bool:
        """Whether the store loads."""
        return not self.refusals

    @property
    def starts(self) -> bool:
        """Whether the broker gets through its start; a 4.9 broker waits for its reput."""
        return self.loads and (self.reput is None or self.reput.stalled_at is None)


@dataclass(frozen=True, slots=True)
class Change:
    """Change of a store before a start.

    Attributes:
        queues: queues are put in that a rebuild makes.
        index: the index is put in that a rebuild makes.
        is_clean: ``abort`` is set aside.
        checkpoint: the times of the log's end are written to the checkpoint.
        aside: labels of files that are set aside, or replaced by ones that a broker reads.
        settings: names and values, as in broker.conf.
        keeps_expired: queues stay that a rebuild does not have, as all their messages are expired.
    """

    queues: bool = False
    index: bool = False
    is_clean: bool = False
    checkpoint: bool = False
    aside: frozenset[str] = frozenset()
    settings: tuple[tuple[str, str], ...] = ()
    keeps_expired: bool = False

    def without_derived(self) -> Change:
        """Return what is left of it where queues and index stay, and with them ``abort`` and checkpoint."""
        return replace(self, queues=False, index=False, is_clean=False, checkpoint=False)


NO_CHANGE = Change()


class PredictionDraft:
    """A prediction in the making: ``made`` is what is known yet."""

    def __init__(self, made: Prediction) -> None:
        self.made = made

    def set(self, **fields: Any) -> None:  # noqa: ANN401 - those of a `Prediction`
        """Change fields."""
        self.made = replace(self.made, **fields)

    def add(self, **more: Iterable[Any]) -> None:
        """Append to fields that list something."""
        self.set(**{name: (*getattr(self.made, name), *values) for name, values in more.items()})


_DERIVED = tuple(f"{name}/" for kind, name in DIRECTORY_NAMES.items() if kind is not PathKind.COMMITLOG)


class StartOutcome(IntEnum):
    """Effects of a start, from harmless to grave."""

    WHOLE = 0  # all is kept as it is
    REBUILDS = 1  # derived files are deleted or built again
    FORGETS = 2  # settings: topics and their queues, or offsets
    LOSES = 3  # intact records are cut off
    HANGS = 4
    REFUSED = 5


def outcome_of(prediction: Prediction) -> StartOutcome:
    """Return the gravest effect of a start."""
    if not prediction.loads:
        return StartOutcome.REFUSED
    if not prediction.starts:
        return StartOutcome.HANGS
    if prediction.lost:
        return StartOutcome.LOSES
    if prediction.forgets:
        return StartOutcome.FORGETS
    return StartOutcome.REBUILDS if _changes(prediction) else StartOutcome.WHOLE


def lost_messages(prediction: Prediction) -> int:
    """Return how many intact records a start cuts off."""
    return sum(loss.messages for loss in prediction.lost)


def start_findings(prediction: Prediction) -> Iterator[Finding]:
    """Yield the findings of a start; none for one that keeps everything as it is."""
    broker = f"a {prediction.release.name} broker"
    for refusal in prediction.refusals:
        message = f"{broker} does not start: {refusal.file} {refusal.reason}"
        yield Finding(
            code=codes.NS_REFUSED, file=refusal.file, message=message, remedy_override=refusal.remedy
        )
    outcome = outcome_of(prediction)
    if outcome is StartOutcome.HANGS and prediction.reput is not None:
        place = prediction.reput.stalled_at
        message = f"{broker} never finishes its start: it repeats the record at {place} for ever"
        yield Finding(code=codes.NS_REFUSED, physical_offset=place, message=message)
    if prediction.lost and prediction.cut is not None:
        lost, cut = lost_messages(prediction), prediction.cut
        yield Finding(
            code=codes.NS_LOSES,
            file=cut.file,
            position=cut.position,
            physical_offset=cut.physical_offset,
            expected=0,
            observed=lost,
            message=f"{broker} ends the log here and loses {counted(lost, 'message')} after it",
        )
    for forgotten in prediction.forgets if prediction.starts else ():
        message = f"{broker} reads nothing from {forgotten.file} and forgets {forgotten.loses}"
        yield Finding(code=codes.NS_FORGETS, file=forgotten.file, message=message)
    if outcome is StartOutcome.REBUILDS:
        losses = prediction.log_losses
        none = "no more messages" if losses is not None and losses.messages else "no message"
        message = f"{broker} starts, loses {none}, and {' and '.join(_changes(prediction))}"
        yield Finding(code=codes.NS_REBUILDS, message=message)


def add_skipped(findings: FindingLog, reason: object) -> None:
    """Add the finding that there is no prediction, unless it is there."""
    if codes.NS_SKIPPED.code not in findings.counts:
        findings.add(Finding(code=codes.NS_SKIPPED, message=f"prediction skipped: {reason}"))


def _changes(prediction: Prediction) -> list[str]:
    """Return what happens to derived files; ends of the log that hold no record do not matter."""
    deleted = sum(name.startswith(_DERIVED) for name in prediction.deleted_files)
    dispatched = [
        prediction.dispatched_by_recovery,
        *([prediction.reput.dispatched] if prediction.reput else ()),
    ]
    messages = sum(replay.messages for replay in dispatched if replay.units or replay.index_entries)
    changes = []
    if deleted:
        changes.append(f"deletes {counted(deleted, 'file')} of queues and index")
    if messages:
        changes.append(f"puts {counted(messages, 'message')} into queues and index again")
    return changes


_SHOWN_BY_FILES = (
    "maxHashSlotNum",
    "maxIndexNum",
    "enableConsumeQueueExt",
    "enableMultiDispatch",
    "enableLmq",
)
"""Settings that stop no start where the files show others: keys or queues are missed after it."""


def hazards_of(prediction: Prediction) -> list[str]:
    """Return the hazards that a prediction implies."""
    return [*_delayed(prediction), *_queues(prediction), *_reput(prediction), *_cut(prediction)]


def window_hazards(prediction: Prediction, window: int | None, log_files: int) -> list[str]:
    """Return the hazards of a start that reads ``window`` files at most, for a log with more."""
    if window is None or log_files <= window:
        return []
    seen = f"the newest {window} of the log's {log_files} files (commitLogRecoverMaxNum)"
    cure = (
        f"rebuild the queues and the index first (rmqtool rebuild), or set it to {log_files} for this start"
    )
    if any(queue.missing or queue.misplaced for queue in prediction.queues):
        return [f"The start reads only {seen}: {cure}."]
    return [f"Deleting consumequeue/ before this start is no cure, as the start reads only {seen}: {cure}."]


def settings_hazards(settings: Settings, shown: Settings, release: Release) -> list[str]:
    """Return the hazards of the settings alone; ``shown`` are those that the store's files show."""
    hazards = [sentence if sentence.endswith("?") else f"{sentence}." for sentence in settings.unknown_names]
    for name in _SHOWN_BY_FILES:
        setting, other = settings[name], shown[name]
        if other.origin is Origin.INFERRED and setting.value != other.value:
            hazards.append(
                f"The files show {name}={conf_text(other.value)};"
                f" the broker has {conf_text(setting.value)}, {setting.note}."
            )
    size = settings.commitlog_file_size
    if release.writes_whole_pages and settings["writeWithoutMmap"].value and size % PAGE_BYTES:
        hazards.append(
            f"With writeWithoutMmap a file of the log that fills grows over its {size} bytes, which are no"
            f" multiple of {PAGE_BYTES}: the start after that refuses it."
        )
    if settings["duplicationEnable"].value:
        hazards.append(
            "With duplicationEnable a broker dispatches nothing that it stores after its start: consumers get"
            " none of it."
        )
    if release.rocksdb and (settings["indexRocksDBEnable"].value or settings["transRocksDBEnable"].value):
        hazards.append(
            "This assumes that what rocksdbstore/ holds is as far as the consume queues, as it cannot be"
            " read; if it is not, the start reads more of the log and puts index entries twice."
        )
    return hazards


def assumptions(shown: Settings, release: Release) -> tuple[str, ...]:
    """Return what a start rests on that no file decides: the release, and sizes that rebuilt files may have.

    Those are the default, where the broker set others.
    """
    version, sentences = shown[BROKER_VERSION], []
    is_open = shown.of_all_candidates(lambda one: one.tag_items) is None
    if is_open and version.value == release.name:
        sentences.append(f"the release, {release.name} ({version.note}); --predict-recovery all shows each")
    sizes = [size for size in shown.used_sizes() if size.origin is Origin.INFERRED]
    usual = [size for size in sizes if size.value == DEFINITIONS[size.name].configured(release)]
    if len(usual) < len(sizes) and not shown.has_conf:
        why = "the default, as the files have it; the broker set other sizes, -c broker.conf shows all"
        sentences += [f"{size.name}={size.value}: {why}" for size in usual]
    return tuple(sentences)


def _delayed(prediction: Prediction) -> Iterator[str]:
    """4.9.2 to 4.9.8 read the delay table after recovery (``ScheduleMessageService#load``)."""
    recovery = prediction.recovery
    if not prediction.release.delay_table_after_recovery or recovery is None or recovery.kind != "abnormal":
        return
    before_reput = prediction.dispatched_by_recovery.units
    count = sum(queue.appended for queue in prediction.queues if queue.topic == SCHEDULE_TOPIC)
    if count and before_reput:
        yield (
            f"Up to {counted(count, 'delayed message')}: a tag's hash instead of the deliver time, as 4.9"
            " reads messageDelayLevel only after recovery. What gets it is delivered at once."
        )


def _queues(prediction: Prediction) -> Iterator[str]:
    misplaced = sum(queue.misplaced for queue in prediction.queues)
    if misplaced:
        units = counted(misplaced, "unit lands", "units land")
        yield f"{units} in a slot other than the queue offset."
    dropped = sum(queue.dropped for queue in prediction.queues)
    if dropped:
        records = counted(dropped, "record is", "records are")
        yield f"{records} dispatched in vain: the queue has passed the queue offset."
    missing = sum(queue.missing for queue in prediction.queues)
    if missing:
        records = counted(missing, "record of the log has", "records of the log have")
        yield f"{records} no consume queue unit, and none will come: no consumer gets them."


def _reput(prediction: Prediction) -> Iterator[str]:
    if prediction.reput is not None and prediction.reput.stalled_at is not None:
        yield (
            f"The dispatch never gets past physical offset {prediction.reput.stalled_at}: the broker hangs"
            " while it starts."
        )


def _cut(prediction: Prediction) -> Iterator[str]:
    cut = prediction.cut
    if cut is not None and cut.code == "CL-HUGE-SIZE" and not prediction.release.records.checks_room:
        log_offset = cut.physical_offset
        yield f"The record size at {log_offset} may exhaust the heap: then the broker does not start."
