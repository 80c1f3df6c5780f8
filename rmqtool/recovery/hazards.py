"""What else goes wrong at a start, in whole sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.dispatch.policy import SCHEDULE_TOPIC
from rmqtool.findings.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.recovery.model import Prediction


def hazards_of(prediction: Prediction) -> list[str]:
    """Return what a prediction implies beyond its numbers."""
    return [*_delayed(prediction), *_queues(prediction), *_reput(prediction), *_cut(prediction)]


def _delayed(prediction: Prediction) -> Iterator[str]:
    """4.9.2 to 4.9.8 read the delay table behind recovery (``ScheduleMessageService#load``)."""
    recovery = prediction.recovery
    if not prediction.release.delay_table_after_recovery or recovery is None or recovery.kind != "abnormal":
        return
    before_reput = prediction.recovered.units
    count = sum(queue.appended for queue in prediction.queues if queue.topic == SCHEDULE_TOPIC)
    if count and before_reput:
        yield (
            f"Up to {counted(count, 'delayed message')}: a tag's hash instead of the deliver time, as 4.9"
            " reads messageDelayLevel only behind recovery. What gets it is delivered at once."
        )


def _queues(prediction: Prediction) -> Iterator[str]:
    misplaced = sum(queue.misplaced for queue in prediction.queues)
    if misplaced:
        units = counted(misplaced, "unit lands", "units land")
        yield f"{units} elsewhere in the queue than the queue offset says."
    dropped = sum(queue.dropped for queue in prediction.queues)
    if dropped:
        records = counted(dropped, "record is", "records are")
        yield f"{records} dispatched in vain: the queue has passed the queue offset."
    missing = sum(queue.missing for queue in prediction.queues)
    if missing:
        records = counted(missing, "record of the log has", "records of the log have")
        yield f"{records} no consume queue unit, and none will come: consumers see nothing of it."


def _reput(prediction: Prediction) -> Iterator[str]:
    if prediction.reput is not None and prediction.reput.stalled_at is not None:
        yield (
            f"The dispatch never gets past physical offset {prediction.reput.stalled_at}: the broker hangs"
            " while it starts."
        )


def _cut(prediction: Prediction) -> Iterator[str]:
    cut = prediction.cut
    if cut is not None and cut.code == "CL-HUGE-SIZE" and not prediction.release.records.checks_room:
        place = cut.physical_offset
        yield f"The record size at {place} may exhaust the heap: then the broker does not start."
