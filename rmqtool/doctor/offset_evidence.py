"""Offsets of groups by other evidence than ``consumerOffset.json``: messages sent back, clients' files.

A group that sends a message back has received it: the copy names topic, group, and the message itself by its
offset id (``AbstractSendMessageProcessor#consumerSendMsgBack``, 4.9.8, 5.3.3). So its offset was after that
message, or was to be as soon as those before it, which it had received, too, were consumed.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import EnvironmentFailureError
from rmqtool.javacompat import decode_offset_id
from rmqtool.store.broker_json import OffsetPlace
from rmqtool.topics import RETRY_PREFIX, SCHEDULE_TOPIC, group_of, is_own_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.doctor import Document
    from rmqtool.doctor.choices import QueueEnds
    from rmqtool.scan.records import Record
    from rmqtool.store import Store
    from rmqtool.store.broker_json import Offsets
    from rmqtool.store.segments import Segment

_TABLE = "offsetTable"
_MARK, _SEARCHED_BYTES = b"ORIGIN_MESSAGE_ID", 1 << 20
_LARGEST_ID = (1 << 31) - 1
_CLIENTS_ENTRY = re.compile(r"(\{[^{}]*\})\s*:\s*(\d{1,19})(?=\s*[,}])")


def sent_back_offsets(store: Store, ends: QueueEnds) -> Offsets:
    """Return a lower bound for each queue of which a group has sent messages back, and of its retry queues.

    It is one past the last message of which a copy exists; the queue's start where there is no such message.
    Every copy is read: of a topic without an entry a group would skip all that is there.
    """
    copies = [*_copies(store, ends)]
    times: dict[tuple[str, str], int] = defaultdict(int)
    for copy in copies:
        times[copy.group, copy.identity] = max(copy.times, times[copy.group, copy.identity])
    read: dict[tuple[str, str], dict[int, str | None]] = {}
    for copy in copies:
        retries = read.setdefault((copy.group, RETRY_PREFIX + copy.group), {})
        if copy.is_retry and copy.times < times[copy.group, copy.identity]:  # it was sent back again
            retries[copy.physical_offset] = copy.unique
        originals, named = read.setdefault((copy.group, copy.topic), {}), decode_offset_id(copy.identity)
        if named is not None:
            originals[named.physical_offset] = copy.unique
    offsets: Offsets = {}
    for (group, topic), messages in read.items():
        for queue_id in ends.queue_ids(topic):
            if (bounds := ends.bounds(topic, queue_id)) is not None:
                after = _after_newest(store, topic, queue_id, messages)
                offset = min(max(after, bounds.min_offset), bounds.max_offset)
                offsets[OffsetPlace(_TABLE, f"{topic}@{group}", str(queue_id))] = offset
    return offsets


def client_offsets(text: str, group: str) -> dict[str, Document]:
    """Return what a client's own ``offsets.json`` says of a group, by broker, as in ``consumerOffset.json``.

    Its keys are objects, so it is no JSON (``OffsetSerializeWrapper``, 4.9.7, 5.3.3, 5.5.0); of a cut one
    the whole entries count. A broadcasting client keeps it in ``~/.rocketmq_offsets/CLIENT/GROUP/``.
    """
    documents: dict[str, Document] = {}
    for key, number in _CLIENTS_ENTRY.findall(text):
        queue = None
        with suppress(ValueError, RecursionError):
            queue = json.loads(key)
        if not isinstance(queue, dict):
            continue
        broker, topic, queue_id = (queue.get(name) for name in ("brokerName", "topic", "queueId"))
        is_id = type(queue_id) is int and 0 <= queue_id <= _LARGEST_ID
        if isinstance(broker, str) and isinstance(topic, str) and is_id:
            table = documents.setdefault(broker, {_TABLE: {}})[_TABLE]
            table.setdefault(f"{topic}@{group}", {})[str(queue_id)] = int(number)
    return documents


class _Copy(NamedTuple):
    """A message that was sent back: whose ``identity`` is its original's offset id."""

    physical_offset: int
    is_retry: bool
    group: str
    topic: str
    identity: str
    unique: str | None
    times: int


def _copies(store: Store, ends: QueueEnds) -> Iterator[_Copy]:
    """Yield those of all groups; other delayed messages are passed over by their bytes."""
    from rmqtool.derived.queues import find_queue  # loads numpy, for stores that need it
    from rmqtool.scan.records import record_at

    for topic in [name for name, _ in ends.topics() if name == SCHEDULE_TOPIC or group_of(name) is not None]:
        for queue_id in ends.queue_ids(topic):
            with suppress(EnvironmentFailureError):  # the check of that queue reports it
                queue = find_queue(store, topic, queue_id)
                for units in () if queue is None else queue.units():
                    columns = units.physical_offsets.tolist(), units.sizes.tolist()
                    for place, size in zip(*columns, strict=True):
                        is_copy = _can_be_copy(store.commitlog.segment_at(place), place, size)
                        record = record_at(store.commitlog, place) if is_copy else None
                        if record is not None and record.topic == topic:
                            yield from _copy_of(record)


def _can_be_copy(segment: Segment | None, place: int, size: int) -> bool:
    """Whether a record's bytes have the property of copies; a long one is decoded at once."""
    if segment is None or size > _SEARCHED_BYTES:
        return segment is not None
    return _MARK in segment.read_at(place - segment.start, size, [])


def _copy_of(record: Record) -> Iterator[_Copy]:
    properties = record.properties
    group = group_of(properties.get("REAL_TOPIC", record.topic))
    topic, identity = properties.get("RETRY_TOPIC"), properties.get(_MARK.decode())
    if group and topic and identity and not is_own_group(group):
        names = group, topic, identity, properties.get("UNIQ_KEY")
        is_retry = record.topic.startswith(RETRY_PREFIX)
        yield _Copy(record.physical_offset, is_retry, *names, record.head.reconsume_times)


def _after_newest(store: Store, topic: str, queue_id: int, messages: Mapping[int, str | None]) -> int:
    """Return the queue offset after the newest of some messages, by place and unique key; 0 without one."""
    import numpy as np

    from rmqtool.derived.queues import find_queue
    from rmqtool.scan.records import record_at

    places = np.fromiter(messages, np.int64, len(messages))
    with suppress(EnvironmentFailureError):  # as above
        queue = find_queue(store, topic, queue_id)
        for units in () if queue is None else queue.newest_units():
            chosen = units.only(np.isin(units.physical_offsets, places))
            for number, place in zip(
                chosen.keys[::-1].tolist(), chosen.physical_offsets[::-1].tolist(), strict=True
            ):
                record = record_at(store.commitlog, place)
                if record is None or record.properties.get("UNIQ_KEY") != messages[place]:
                    continue
                if (record.topic, record.head.queue_id) == (topic, queue_id):
                    return int(number) + 1
    return 0
