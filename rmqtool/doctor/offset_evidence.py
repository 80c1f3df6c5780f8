"""Offsets of groups by other evidence than ``consumerOffset.json``: messages sent back, clients' files.

A group that sends a message back has received it: the copy names topic, group, and the message itself by its
offset id (``AbstractSendMessageProcessor#consumerSendMsgBack``, 4.9.8, 5.3.3). So its offset was after that
message, or was to be as soon as those before it, which it had received, too, were consumed.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from rmqtool.doctor.choices import OffsetPlace
from rmqtool.errors import EnvironmentFailureError
from rmqtool.javacompat import decode_offset_id
from rmqtool.topics import RETRY_PREFIX, SCHEDULE_TOPIC, group_of, is_own_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.doctor import Document
    from rmqtool.doctor.choices import Offsets, QueueEnds
    from rmqtool.scan.records import Record
    from rmqtool.store import Store

_NEWEST = 200
"""Messages of each queue that are examined: any of them is a lower bound."""
_TABLE = "offsetTable"
_LARGEST_ID = (1 << 31) - 1
_CLIENTS_ENTRY = re.compile(r"(\{[^{}]*\})\s*:\s*(\d{1,19})(?=\s*[,}])")


def sent_back_offsets(store: Store, ends: QueueEnds) -> Offsets:
    """Return a lower bound for each queue of which a group has sent messages back, and of its retry queues.

    It is one past the last message of which a copy exists; the queue's start where there is no such message.
    """
    offsets: Offsets = {}
    times: dict[tuple[str, str], int] = {}
    for record in _copies(store, ends):
        properties, count = record.properties, record.head.reconsume_times
        group = group_of(properties.get("REAL_TOPIC", record.topic))
        topic, identity = properties.get("RETRY_TOPIC"), properties.get("ORIGIN_MESSAGE_ID")
        if not group or not topic or not identity or is_own_group(group):
            continue
        for name in (topic, RETRY_PREFIX + group):
            for queue_id in ends.queue_ids(name):
                bounds = ends.bounds(name, queue_id)
                if bounds is not None:
                    offsets.setdefault(_place(name, group, queue_id), bounds.min_offset)
        is_again = record.topic.startswith(RETRY_PREFIX) and count < times.get((group, identity), count)
        times[group, identity] = max(count, times.get((group, identity), count))
        for read in (_original(store, topic, identity, record), record if is_again else None):
            place = None if read is None else _place(read.topic, group, read.head.queue_id)
            if read is None or place not in offsets:
                continue
            bounds = ends.bounds(read.topic, read.head.queue_id)
            if bounds is not None and offsets[place] <= read.head.queue_offset < bounds.max_offset:
                offsets[place] = read.head.queue_offset + 1
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


def _place(topic: str, group: str, queue_id: int) -> OffsetPlace:
    return OffsetPlace(_TABLE, f"{topic}@{group}", str(queue_id))


def _original(store: Store, topic: str, identity: str, copy: Record) -> Record | None:
    """Return the record that a broker made a copy of; None if it is missing, or a client made the copy."""
    from rmqtool.scan.records import record_at

    named = decode_offset_id(identity)
    record = None if named is None else record_at(store.commitlog, named.physical_offset)
    if record is None or record.topic != topic:
        return None
    return record if record.properties.get("UNIQ_KEY") == copy.properties.get("UNIQ_KEY") else None


def _copies(store: Store, ends: QueueEnds) -> Iterator[Record]:
    """Yield messages that were sent back, the newest of each queue first; of retry topics last."""
    from rmqtool.derived.queues import find_queue  # loads numpy, for stores that need it
    from rmqtool.scan.records import record_at

    topics = [name for name, _ in ends.topics() if name == SCHEDULE_TOPIC or group_of(name) is not None]
    for topic in sorted(topics, key=lambda name: (name.startswith(RETRY_PREFIX), name)):
        for queue_id in ends.queue_ids(topic):
            with suppress(EnvironmentFailureError):  # the check of that queue reports it
                queue = find_queue(store, topic, queue_id)
                units = () if queue is None else queue.newest_units()
                for place in islice(
                    (place for unit in units for place in unit.physical_offsets[::-1]), _NEWEST
                ):
                    record = record_at(store.commitlog, int(place))
                    if record is not None and record.topic == topic:
                        yield record
