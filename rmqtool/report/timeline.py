"""Events of a store as lines of JSON that Timesketch imports.

Timesketch requires ``message``, ``datetime`` and ``timestamp_desc``; all other members are attributes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rmqtool.check.picture import Content, LogPicture
from rmqtool.findings import counted
from rmqtool.recovery import lost_messages
from rmqtool.report.output import to_json
from rmqtool.report.sentences import finding_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.commands.report import StoreReport

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CHECKPOINT = (
    ("physic_msg_timestamp_ms", "the log was flushed up to messages of this time"),
    ("logics_msg_timestamp_ms", "the consume queues were flushed up to messages of this time"),
    ("index_msg_timestamp_ms", "the index was flushed up to messages of this time"),
)


Event = tuple[int, dict[str, object]]
"""Epoch milliseconds of an event, and its members: sentence, meaning of the time, and attributes."""


def timeline_bytes(report: StoreReport) -> tuple[bytes, int, int]:
    """Return the lines in the order of time, their number, and the number of events without a date.

    A number outside of the years 1 to 9999 comes from damage; 0 means "never" to a broker.
    """
    lines, undated = [], 0
    for moment_ms, members in sorted(_events(report), key=lambda one: one[0]):
        moment = _moment(moment_ms)
        if moment is None:
            undated += 1
            continue
        found = {
            "message": members.pop("message"),
            "datetime": moment,
            "timestamp_desc": members.pop("timestamp_desc"),
            "timestamp": moment_ms * 1000,
            "data_type": "rocketmq:store",
            "store": report.store,
        }
        lines.append(to_json(found | members))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"), len(lines), undated


def _moment(moment_ms: int) -> str | None:
    if moment_ms <= 0:
        return None
    try:
        return (_EPOCH + timedelta(milliseconds=moment_ms)).isoformat("T", "milliseconds")
    except OverflowError:
        return None


def _event(moment_ms: int, message: str, description: str, **more: object) -> Event:
    """Return an event; Timesketch groups by the description, which says what the time is of."""
    return moment_ms, {"message": message, "timestamp_desc": description, **more}


def _events(report: StoreReport) -> Iterator[Event]:
    yield from _of_files(report)
    yield from _of_findings(report)
    picture = report.verification.picture
    if picture is not None:
        yield from _of_segments(picture)
        yield from _of_topics(picture)
        yield from _of_clock_steps(picture)
    for prediction in report.predictions:
        if report.cut_ms is not None and prediction.cut is not None:
            lost = counted(lost_messages(prediction), "message")
            sentence = f"the next start of a {prediction.release.name} broker ends the log here: loses {lost}"
            place = {"file": prediction.cut.file, "physicalOffset": prediction.cut.physical_offset}
            yield _event(report.cut_ms, sentence, "First message that the next start cuts off", **place)


def _of_files(report: StoreReport) -> Iterator[Event]:
    for one in report.times:
        name, description = one.file.rpartition("/")[2], "File modified"
        message = f"{one.file} was changed last"
        if name == "abort":
            message, description = "abort was written: a broker started", "Broker started"
        elif name in {"consumerOffset.json", "lmqConsumerOffset.json", "delayOffset.json"}:
            message = f"{one.file} was written: consumer offsets are as of this time"
        yield _event(one.modified_ms, message, description, file=one.file, size=one.size_bytes)
    if report.checkpoint is not None:
        for name, sentence in _CHECKPOINT:
            moment_ms = getattr(report.checkpoint, name)
            yield _event(moment_ms, f"checkpoint: {sentence}", "Checkpoint", file="checkpoint")


def _of_findings(report: StoreReport) -> Iterator[Event]:
    times = report.finding_times or {}
    for one in report.verification.findings:
        offset = one.physical_offset
        if offset is None or offset not in times:
            continue
        place = {"physicalOffset": offset, "file": one.file, "topic": one.topic, "queueId": one.queue_id}
        kind = {"code": one.code.code, "severity": one.severity.value}
        found = {name: value for name, value in place.items() if value is not None}
        sentence = f"{one.code.code}: {finding_sentence(one)}"
        yield _event(times[offset], sentence, f"Finding ({one.severity.value})", **kind, **found)


def _of_segments(picture: LogPicture) -> Iterator[Event]:
    for file in picture.files:
        runs = [one for one in file.stretches if one.what is Content.RECORDS]
        if not runs:
            continue
        for moment, which, at in (
            (runs[0].first_ms, "first", runs[0].start),
            (runs[-1].last_ms, "last", runs[-1].stop),
        ):
            if moment is not None:
                place: dict[str, object] = {"file": file.file, "physicalOffset": at}
                sentence = f"{which} record of {file.file} was stored"
                yield _event(moment, sentence, f"{which.capitalize()} record of a log file", **place)


def _of_topics(picture: LogPicture) -> Iterator[Event]:
    for one in picture.census.topics:
        ends = (
            (one.oldest_ms, one.oldest_offset, "first"),
            (one.newest_ms, one.newest_offset, "last"),
        )
        for moment, offset, which in ends:
            sentence = f"{which} message of topic {one.topic} in the log was stored"
            place = {"topic": one.topic, "physicalOffset": offset, "messages": one.messages}
            yield _event(moment, sentence, f"{which.capitalize()} message of a topic", **place)


def _of_clock_steps(picture: LogPicture) -> Iterator[Event]:
    for step in picture.clock_steps:
        back, before = step.before_ms - step.after_ms, _moment(step.before_ms) or step.before_ms
        sentence = f"the clock was set back by {back} ms: stored after a record of {before}"
        yield _event(step.after_ms, sentence, "Clock set back", physicalOffset=step.physical_offset)
