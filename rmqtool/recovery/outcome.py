"""Meaning of a prediction for the operator who decides about the start: one word, findings, hazards."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from rmqtool.findings import Finding, codes, counted
from rmqtool.scan.classify import PAGE_BYTES
from rmqtool.store.kinds import DIRECTORY_NAMES, PathKind
from rmqtool.store.setting import Origin
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.recovery import Prediction, PredictionDraft
    from rmqtool.releases import Release
    from rmqtool.store import Setting, Settings


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
    for one in prediction.forgets if prediction.starts else ():
        message = f"{broker} reads nothing from {one.file} and forgets {one.loses}"
        yield Finding(code=codes.NS_FORGETS, file=one.file, message=message)
    if outcome is StartOutcome.REBUILDS:
        losses = prediction.log_losses
        none = "no more messages" if losses is not None and losses.messages else "no message"
        message = f"{broker} starts, loses {none}, and {' and '.join(_changes(prediction))}"
        yield Finding(code=codes.NS_REBUILDS, message=message)


def skipped(reason: str) -> Finding:
    """Return the finding that there is no prediction."""
    return Finding(code=codes.NS_SKIPPED, message=f"prediction skipped: {reason}")


def _changes(prediction: Prediction) -> list[str]:
    """Return what happens to derived files; ends of the log that hold no record do not matter."""
    deleted = sum(name.startswith(_DERIVED) for name in prediction.deleted_files)
    dispatched = [
        prediction.dispatched_by_recovery,
        *([prediction.reput.dispatched] if prediction.reput else ()),
    ]
    messages = sum(one.messages for one in dispatched if one.units or one.index_entries)
    found = []
    if deleted:
        found.append(f"deletes {counted(deleted, 'file')} of queues and index")
    if messages:
        found.append(f"puts {counted(messages, 'message')} into queues and index again")
    return found


_SHOWN_BY_FILES = (
    "maxHashSlotNum",
    "maxIndexNum",
    "enableConsumeQueueExt",
    "enableMultiDispatch",
    "enableLmq",
)

"""Settings that stop no start where the files show others: keys or queues are missed after it."""


def hazards_of(prediction: PredictionDraft) -> list[str]:
    """Return the hazards that a prediction implies."""
    return [*_delayed(prediction), *_queues(prediction), *_reput(prediction), *_cut(prediction)]


def window_hazards(prediction: PredictionDraft, window: int | None, log_files: int) -> list[str]:
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
        one, other = settings[name], shown[name]
        if other.origin is Origin.INFERRED and one.value != other.value:
            hazards.append(f"The files show {name}={_text(other)}; the broker has {_text(one)}, {one.note}.")
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


def _text(setting: Setting) -> str:
    value = setting.value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _delayed(prediction: PredictionDraft) -> Iterator[str]:
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


def _queues(prediction: PredictionDraft) -> Iterator[str]:
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
        yield f"{records} no consume queue unit, and none will come: consumers see nothing of it."


def _reput(prediction: PredictionDraft) -> Iterator[str]:
    if prediction.reput is not None and prediction.reput.stalled_at is not None:
        yield (
            f"The dispatch never gets past physical offset {prediction.reput.stalled_at}: the broker hangs"
            " while it starts."
        )


def _cut(prediction: PredictionDraft) -> Iterator[str]:
    cut = prediction.cut
    if cut is not None and cut.code == "CL-HUGE-SIZE" and not prediction.release.records.checks_room:
        log_offset = cut.physical_offset
        yield f"The record size at {log_offset} may exhaust the heap: then the broker does not start."
