"""Hazards of a start, in whole sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings.model import counted
from rmqtool.scan.classify import PAGE_BYTES
from rmqtool.store.setting import Origin
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.recovery.model import PredictionDraft
    from rmqtool.releases import Release
    from rmqtool.store import Setting, Settings

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
