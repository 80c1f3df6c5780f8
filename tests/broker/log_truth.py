"""What a broker must serve of a log: read from its records alone, with the plain reader."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.formats import message
from rmqtool.javacompat import decode_utf8
from tests.broker.log_damage import LogCopy

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.releases import Release


@dataclass
class LogTruth:
    """Where messages must be found.

    Attributes:
        places: Physical offset by topic, queue id and queue offset; those of LMQs are left out.
        extras: Physical offsets by name and id of the extra queues of multi dispatch, in order.
        keys: Physical offsets by topic and key or unique key, in log order.
        tags: Physical offsets by topic and TAGS, likewise.
    """

    places: dict[tuple[str, int, int], int] = field(default_factory=dict)
    extras: defaultdict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    keys: defaultdict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    tags: defaultdict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))


def read_truth(root: Path, release: Release) -> LogTruth:
    """Read an undamaged log that one release dispatched."""
    truth, log = LogTruth(), LogCopy(root)
    for places in log.records:
        for place in places:
            _note(truth, log, place, release)
    return truth


def _note(truth: LogTruth, log: LogCopy, place: int, release: Release) -> None:
    head = log.head(place)
    if head.physical_offset != place:
        return  # a copy of an older record, after the end of a log that is written by whole pages
    topic_at, properties_at = log.topic_at(place), log.properties_length_at(place)
    topic = decode_utf8(log.read(topic_at, properties_at - topic_at))
    raw = decode_utf8(log.read(properties_at + 2, place + head.total_size - properties_at - 2))
    properties = dict(piece.split("\x01", 1) for piece in raw.split("\x02") if "\x01" in piece)
    transaction = head.sys_flag & message.TRANSACTION_MASK
    if transaction == message.TRANSACTION_ROLLBACK:
        return
    for key in {properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")} - {""}:
        truth.keys[topic, key].append(place)
    if properties.get("TAGS"):
        truth.tags[topic, properties["TAGS"]].append(place)
    if transaction == message.TRANSACTION_PREPARED:
        return
    truth.places[topic, head.queue_id, head.queue_offset] = place
    if topic.startswith(release.no_multi_dispatch) or "INNER_MULTI_QUEUE_OFFSET" not in properties:
        return
    # One that is named twice gets one unit: the second lies where the first does.
    for name in filter(None, dict.fromkeys(properties.get("INNER_MULTI_DISPATCH", "").split(","))):
        truth.extras[name, 0 if name.startswith("%LMQ%") else head.queue_id].append(place)
