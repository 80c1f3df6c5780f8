"""A walk over one segment, by the kernels and by the broker model, told in the same words."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

from rmqtool.formats.message import Outcome
from rmqtool.javacompat import decode_utf8
from rmqtool.kernels.rows import MessageBatch, Property, rules_of
from rmqtool.scan import walk as walk_module
from rmqtool.scan.walk import SegmentWalk
from tests.broker_model.messages import ByteBuffer, CheckMessageBuffer, check_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.releases import Release
    from tests.builders import MemorySegment

NAMES = [name.name for name in Property]


@dataclass
class Walked:
    """What a walk met.

    Attributes:
        messages: place and fields of each.
        mismatches: place, TOTALSIZE and bytes read of records whose lengths do not add up.
        end: ``BLANK``, ``STOP`` or ``FAILURE``.
        place: physical offset of the end.
    """

    messages: list[tuple[Any, ...]] = field(default_factory=list)
    mismatches: list[tuple[int, int, int]] = field(default_factory=list)
    end: str = "STOP"
    place: int = 0


@contextmanager
def windows(first: int, largest: int) -> Iterator[None]:
    """Let walks begin with a window of ``first`` bytes and grow it to ``largest``."""
    with mock.patch.multiple(walk_module, WINDOW_BYTES=first, WINDOW_MAX_BYTES=largest):
        yield


def by_kernels(segment: MemorySegment, start: int, stop: int, release: Release) -> Walked:
    walk = SegmentWalk(segment, rules_of(release.records))
    walked = Walked()
    for batch in walk.batches(start, stop):
        walked.messages += [_message(batch, number) for number in range(len(batch.rows))]
    walked.mismatches = walk.mismatches.tolist()
    ends = {Outcome.STOP: "STOP", Outcome.FILE_END: "BLANK"}
    walked.end, walked.place = ends.get(walk.outcome, "FAILURE"), walk.log_offset
    return walked


def _message(batch: MessageBatch, number: int) -> tuple[Any, ...]:
    row, values = batch.rows[number], batch.values[number]
    data = batch.buffer
    known = {
        name: decode_utf8(data[start:stop].tobytes())
        for name, (start, stop) in zip(NAMES, values.tolist(), strict=True)
        if start >= 0
    }
    topic = data[row["topic_start"] : row["topic_stop"]].tobytes()
    numbers = (
        "log_offset",
        "physical_offset",
        "queue_offset",
        "store_timestamp_ms",
        "total_size",
        "queue_id",
        "sys_flag",
    )
    return *(int(row[name]) for name in numbers), topic, known


def by_model(segment: MemorySegment, start: int, stop: int, policy: DispatchPolicy) -> Walked:
    buffer = ByteBuffer(segment.data.ljust(segment.size_bytes, b"\0"))
    walked, thread = Walked(place=start), CheckMessageBuffer()
    while walked.place < min(stop, segment.stop):
        buffer.position = walked.place - segment.start
        answer = check_message(buffer, policy, thread)
        if answer.request is not None:
            one = answer.request
            known = {name: one.properties[name] for name in NAMES if name in one.properties}
            numbers = one.physical_offset, one.queue_offset, one.store_timestamp_ms, one.size
            walked.messages.append((walked.place, *numbers, one.queue_id, one.sys_flag, one.raw_topic, known))
        elif answer.size > 0:
            read_length = segment.start + buffer.position - walked.place
            walked.mismatches.append((walked.place, answer.size, read_length))
        else:
            walked.end = "BLANK" if answer.success else "FAILURE"
            return walked
        walked.place = segment.start + buffer.position
    return walked
