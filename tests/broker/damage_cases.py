"""What can happen to a commit log, as edits of a fixture's, with what a rebuild must say it skipped.

Every function takes an undamaged copy, edits it, and returns the skipped ranges as physical offset and
length; None where the lengths of damaged records make them depend on each other: there only the bytes are
judged.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.formats import message

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.broker.log_damage import LogCopy

    Ranges = list[tuple[int, int]] | None

PAGE_BYTES = 4096


@dataclass(frozen=True)
class Case:
    """One damaged log.

    Attributes:
        name: What happened.
        fixture: Fixture store, without version.
        damage: The edit.
        codes: Findings it must give, besides those of the log's end.
        waits: Whether the broker waits for ever: it must be killed, and nothing after is dispatched.
    """

    name: str
    fixture: str
    damage: Callable[[LogCopy], Ranges]
    codes: frozenset[str] = frozenset()
    waits: bool = False


def _rest(log: LogCopy, place: int) -> tuple[int, int]:
    return place, log.segment_size - place % log.segment_size


def _record(log: LogCopy, place: int) -> tuple[int, int]:
    return place, log.head(place).total_size


def bad_magic(log: LogCopy) -> Ranges:
    """In the middle of a segment, as its first record, and as its last."""
    places = [log.records[0][10], log.records[2][0], log.records[3][-1]]
    for place in places:
        log.put(place, "magic", 0x12345678)
    return [_rest(log, place) for place in places]


def false_blank(log: LogCopy) -> Ranges:
    place = log.records[1][10]
    log.put(place, "magic", message.BLANK_MAGIC)
    return [_rest(log, place)]


def other_magic(log: LogCopy) -> Ranges:
    """V1 against V2: another width of the topic's length."""
    for segment in (0, 2):
        log.put(log.records[segment][5], "magic", message.MAGIC_V2)
    return None


def zeroed_records(log: LogCopy) -> Ranges:
    first, after = log.records[1][5], log.records[1][15]
    log.write(first, bytes(after - first))
    return [_rest(log, first)]


def zeroed_page(log: LogCopy) -> Ranges:
    """The record that the page begins in has a good head: the two counters drift apart."""
    log.write(log.segment_size + PAGE_BYTES, bytes(PAGE_BYTES))
    return None


def zeroed_segment(log: LogCopy) -> Ranges:
    start = 2 * log.segment_size
    log.write(start, bytes(log.segment_size))
    return [_rest(log, start)]


def blank_destroyed(log: LogCopy) -> Ranges:
    log.put_magic(log.blanks[0], 0)
    log.write(log.blanks[2], bytes(8))
    return [_rest(log, log.blanks[0]), _rest(log, log.blanks[2])]


def blank_length(log: LogCopy) -> Ranges:
    """A broker never looks at it, except that it must fit since 5.3.2."""
    log.write(log.blanks[1], (8).to_bytes(4, "big"))
    return []


def total_size_larger(log: LogCopy) -> Ranges:
    """The record is skipped; what follows in its segment is read on in place."""
    place = log.records[0][10]
    log.put(place, "totalSize", log.head(place).total_size + 1)
    return [_record(log, place)]


def total_size_smaller(log: LogCopy) -> Ranges:
    place = log.records[1][10]
    log.put(place, "totalSize", log.head(place).total_size - 17)
    return [_record(log, place)]


def total_size_beyond_the_segment(log: LogCopy) -> Ranges:
    """Before 5.3.2 only the sum of the lengths tells, and the next BLANK rolls over a good segment."""
    log.put(log.records[1][10], "totalSize", log.segment_size + 100)
    return None


def total_size_not_a_size(log: LogCopy) -> Ranges:
    for segment, value in ((0, 0), (1, -1), (2, -(1 << 31)), (3, 8)):
        log.put(log.records[segment][10], "totalSize", value)
    return None


def two_half_records(log: LogCopy) -> Ranges:
    """Then a bad magic: the next region begins inside a record."""
    first, second, third = log.records[1][4], log.records[1][9], log.records[1][20]
    for place in (first, second):
        log.put(place, "totalSize", log.head(place).total_size + 3)
    log.put(third, "magic", 0)
    return None


def body_length(log: LogCopy) -> Ranges:
    for segment, change in ((0, 1), (2, -1)):
        place = log.records[segment][10]
        log.put(place, "bodyLength", log.head(place).body_length + change)
    return None


def body_length_not_a_length(log: LogCopy) -> Ranges:
    for segment, value in ((0, 0), (1, -1), (2, 0x7FFFFFFF), (3, 8192)):
        log.put(log.records[segment][10], "bodyLength", value)
    return None


def topic_length(log: LogCopy) -> Ranges:
    for segment, value in ((0, 0), (1, 127), (2, 255), (3, 1)):
        place = log.topic_at(log.records[segment][10])
        log.write(place - 1, bytes([value]))
    return None


def properties_length(log: LogCopy) -> Ranges:
    for segment, change in ((0, 1), (2, -1)):
        place = log.properties_length_at(log.records[segment][10])
        length = int.from_bytes(log.read(place, 2), "big")
        log.write(place, (length + change).to_bytes(2, "big"))
    return None


def properties_length_not_a_length(log: LogCopy) -> Ranges:
    for segment, value in ((0, 0), (1, -1), (2, 0x7FFF)):
        place = log.properties_length_at(log.records[segment][10])
        log.write(place, value.to_bytes(2, "big", signed=True))
    return None


def missing_segment(log: LogCopy) -> Ranges:
    log.remove_segment(2)
    return []


def physical_offset(log: LogCopy) -> Ranges:
    """Queues and index take it as it stands, and neither ever goes back."""
    changes = ((0, 1000), (1, -1000), (2, 10**12), (3, -(10**12)))
    for segment, change in changes:
        for number in (8, 9):
            place = log.records[segment][number]
            log.put(place, "physicalOffset", place + change, width=8)
    return []


def physical_offset_slightly_ahead(log: LogCopy) -> Ranges:
    """Every third record says it lies five further on."""
    for places in log.records[:4]:
        for place in places[::3]:
            log.put(place, "physicalOffset", place + 5, width=8)
    return []


def queue_offset(log: LogCopy) -> Ranges:
    """Gaps, repeats, 0, negative and absurd ones, in queues that have units."""
    values = (1000, -1, 0, 0, -(1 << 40), 1 << 40, 1 << 58, 7, 1, 2, 3)
    for place, value in zip(log.records[2], values, strict=False):
        log.put(place, "queueOffset", value, width=8)
    return []


def first_queue_offset(log: LogCopy) -> Ranges:
    """Of the first record of each queue: where its first file begins."""
    values = iter((13, -1, 10, 1 << 40, 9, 25, -(1 << 40), 1001))
    seen: set[tuple[bytes, int]] = set()
    for places in log.records[:4]:
        for place in places:
            topic = log.topic_at(place)
            queue = (log.read(topic, log.properties_length_at(place) - topic), log.head(place).queue_id)
            if queue not in seen and (value := next(values, None)) is not None:
                log.put(place, "queueOffset", value, width=8)
            seen.add(queue)
    return []


def queue_id(log: LogCopy) -> Ranges:
    for number, value in ((3, -1), (7, 1 << 30), (11, -(1 << 31)), (15, 3)):
        log.put(log.records[1][number], "queueId", value)
    return []


def transaction_type(log: LogCopy) -> Ranges:
    """Prepared, committed and rolled back, whatever they were."""
    for number, bits in enumerate((0x4, 0x8, 0xC) * 4):
        log.put(log.records[1][number], "sysFlag", bits)
    return []


def store_timestamp(log: LogCopy) -> Ranges:
    """Backwards, before all time and far ahead: time differences in the index."""
    for number, value in enumerate((0, -1, 1 << 60, 1, 10**15)):
        log.put(log.records[2][4 * number], "storeTimestamp", value, width=8)
    return []


def wider_host(log: LogCopy) -> Ranges:
    """A flipped SYSFLAG bit makes a host IPv6: all after it is misread."""
    log.put(log.records[0][10], "sysFlag", message.BORN_HOST_V6)
    log.put(log.records[2][10], "sysFlag", message.STORE_HOST_V6)
    return None


def delay_no_number(log: LogCopy) -> Ranges:
    """On the delay topic it is parsed, and the record fails; elsewhere nobody looks."""
    ranges = []
    name = b"\x02DELAY\x01"
    for places in log.records[:2]:
        place = next(place for place in places[4:] if name in _raw(log, place))
        log.write(place + _raw(log, place).index(name) + len(name), b"x")
        if log.read(log.topic_at(place), 14) == b"SCHEDULE_TOPIC":
            ranges.append(_rest(log, place))
    return ranges


def lmq_offset_no_number(log: LogCopy) -> Ranges:
    """The broker tries this record again and again."""
    name = b"INNER_MULTI_QUEUE_OFFSET\x01"
    place = next(place for place in log.records[1][7:] if name in _raw(log, place))
    log.write(place + _raw(log, place).index(name) + len(name), b"x")
    return None


def _raw(log: LogCopy, place: int) -> bytes:
    return log.read(place, log.head(place).total_size)


def flips(seed: str) -> Callable[[LogCopy], Ranges]:
    """Make the damage of random bits."""

    def damage(log: LogCopy) -> Ranges:
        log.flip_at_random(random.Random(seed))
        return None

    return damage


_HALF = frozenset({"CL-HALF-RECORD"})
_MISPLACED = frozenset({"CL-PHY-MISMATCH"})

CASES = (
    Case("bad magic", "plain", bad_magic, frozenset({"CL-BAD-MAGIC"})),
    Case("false BLANK", "plain", false_blank, frozenset({"CL-BLANK-LEN"})),
    Case("other magic", "plain", other_magic),
    Case("zeroed records", "plain", zeroed_records, frozenset({"CL-HOLE"})),
    Case("zeroed page", "plain", zeroed_page, _HALF),
    Case("zeroed segment", "plain", zeroed_segment, frozenset({"CL-HOLE"})),
    Case("BLANK destroyed", "segments", blank_destroyed, frozenset({"CL-BAD-MAGIC"})),
    Case("BLANK's length", "plain", blank_length),
    Case("TOTALSIZE larger", "plain", total_size_larger, _HALF),
    Case("TOTALSIZE smaller", "segments", total_size_smaller, _HALF),
    Case("TOTALSIZE beyond the segment", "plain", total_size_beyond_the_segment, _HALF),
    Case("TOTALSIZE no size", "plain", total_size_not_a_size, _HALF),
    Case("two half records", "plain", two_half_records, _HALF),
    Case("body length", "segments", body_length, _HALF),
    Case("body length no length", "plain", body_length_not_a_length, _HALF),
    Case("topic length", "plain", topic_length, _HALF),
    Case("properties length", "plain", properties_length, _HALF),
    Case("properties length no length", "plain", properties_length_not_a_length, _HALF),
    Case("missing segment", "plain", missing_segment, frozenset({"CL-GAP"}), waits=True),
    Case("PHYSICALOFFSET", "plain", physical_offset, _MISPLACED),
    Case("PHYSICALOFFSET slightly ahead", "segments", physical_offset_slightly_ahead, _MISPLACED),
    Case("QUEUEOFFSET", "plain", queue_offset),
    Case("first QUEUEOFFSET", "plain", first_queue_offset),
    Case("QUEUEID", "plain", queue_id),
    Case("transaction type", "plain", transaction_type),
    Case("STORETIMESTAMP", "plain", store_timestamp),
    Case("wider host", "plain", wider_host, _HALF),
    Case("DELAY no number", "delay", delay_no_number, frozenset({"CL-NUMBER"})),
    Case("LMQ offset no number", "lmq", lmq_offset_no_number, frozenset({"LMQ-STALL"}), waits=True),
)
RANDOM = tuple(
    Case(f"flips {fixture} {number}", fixture, flips(f"{fixture} {number}"))
    for fixture in (
        "plain",
        "segments",
        "delay",
        "transaction",
        "batch",
        "lmq",
        "ext",
        "unicode",
        "indexroll",
    )
    for number in range(2)
)
