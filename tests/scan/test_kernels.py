"""The scan kernels against the broker model and the record reader: same records, same ends, on any bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats import message
from rmqtool.formats.message import Outcome
from rmqtool.kernels.rows import rules_of
from rmqtool.releases import DEFAULT, RELEASES
from rmqtool.scan.records import check_record
from rmqtool.scan.walk import SegmentWalk
from tests.broker_model.messages import ByteBuffer, CheckMessageBuffer, check_message
from tests.builders import POLICY_4_9, POLICY_5, POLICY_5_5, memory_segment, properties
from tests.scan.log_builder import blank, record
from tests.scan.walks import by_kernels, by_model
from tests.store.fixture_stores import STORE_ROOTS
from tests.strategies import FILE_SIZE, damaged_records, examples, logs, patched, patches

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.dispatch.policy import DispatchPolicy
    from tests.builders import LogBuilder, MemorySegment

SEGMENTS = [path for root in STORE_ROOTS for path in sorted(root.glob("commitlog/*"))]
EXAMPLES = examples(50)


@pytest.fixture(params=[POLICY_4_9, POLICY_5, POLICY_5_5], ids=["4.9.8", "5.3.3", "5.5.1"])
def policy(request: pytest.FixtureRequest) -> DispatchPolicy:
    chosen: DispatchPolicy = request.param
    return chosen


policies = st.sampled_from([POLICY_4_9, POLICY_5, POLICY_5_5])


def agree(segment: MemorySegment, start: int, policy: DispatchPolicy) -> None:
    walked = by_kernels(segment, start, segment.stop, policy.release)
    assert walked == by_model(segment, start, segment.stop, policy)


def segment_of(path: Path) -> MemorySegment:
    return memory_segment(path.read_bytes(), int(path.name))


def record_places(segment: MemorySegment, policy: DispatchPolicy) -> list[int]:
    walked = by_model(segment, segment.start, segment.stop, policy)
    return [one[0] for one in walked.messages] or [segment.start]


def test_there_are_segments_of_real_brokers() -> None:
    assert len(SEGMENTS) > 100


def test_segments_of_real_brokers(policy: DispatchPolicy) -> None:
    """Every record of every fixture is read as the broker reads it, to the segment's end."""
    for path in SEGMENTS:
        agree(segment_of(path), int(path.name), policy)


@pytest.mark.full
@EXAMPLES
@given(logs(hostile=True, damage=True, lies=True), policies)
def test_logs_of_any_content(log: LogBuilder, policy: DispatchPolicy) -> None:
    """Host variants, V1 and V2, all properties, sizes that lie, numbers that are none: all as in Java."""
    for start, data in log.files().items():
        agree(memory_segment(data, start), start, policy)


@EXAMPLES
@given(damaged_records(), st.binary(max_size=200), policies)
def test_one_record_whose_lengths_lie(raw: bytes, after: bytes, policy: DispatchPolicy) -> None:
    """Outcome and bytes read are the broker's, whatever lies after the record or ends with it."""
    agree(memory_segment(raw + after), 0, policy)


@EXAMPLES
@given(damaged_records(), st.binary(max_size=60), st.integers(0, 200))
def test_the_record_reader_agrees_with_the_model(raw: bytes, after: bytes, kept: int) -> None:
    """The two plain readers, written apart, find the same of every record: so neither hides a slip."""
    segment = memory_segment(raw + after)
    for policy in (POLICY_4_9, POLICY_5, POLICY_5_5):
        rules = policy.release.records
        checked = check_record(segment, 0, rules, kept=min(kept, rules.kept_array))
        answer = check_message(ByteBuffer(segment.data), policy, CheckMessageBuffer(kept))
        assert (checked.success, checked.size) == (answer.success, answer.size)
        if checked.record is not None and answer.request is not None:
            assert checked.record.topic == answer.request.topic
            assert checked.record.properties == answer.request.properties


@examples(300)
@given(st.data(), st.sampled_from(SEGMENTS), policies)
def test_damaged_segments_of_real_brokers(data: st.DataObject, path: Path, policy: DispatchPolicy) -> None:
    """Flipped bytes, zeroed ranges and overwritten numbers near any record end the walk where Java's ends."""
    segment = segment_of(path)
    start = data.draw(st.sampled_from(record_places(segment, policy)))
    at = start - segment.start
    near = [(at + place, piece) for place, piece in data.draw(patches(700))]
    agree(memory_segment(patched(segment.data, near), segment.start), start, policy)


@examples(100)
@given(st.data(), st.sampled_from(SEGMENTS), policies)
def test_cut_segments_of_real_brokers(data: st.DataObject, path: Path, policy: DispatchPolicy) -> None:
    """A file that ends anywhere is read up to the record that the end cuts."""
    segment = segment_of(path)
    start = data.draw(st.sampled_from(record_places(segment, policy)))
    length = start - segment.start + data.draw(st.integers(0, 400))
    agree(memory_segment(segment.data[:length], segment.start), start, policy)


def test_every_length_of_a_cut_record(policy: DispatchPolicy) -> None:
    """From no byte to all of them: only the whole record is one."""
    raw = record(0, sysFlag=message.BORN_HOST_V6, topic=b"T", properties=b"")
    for length in range(1, len(raw) + 1):
        agree(memory_segment(raw[:length]), 0, policy)
    assert len(by_kernels(memory_segment(raw), 0, len(raw), policy.release).messages) == 1


def test_a_totalsize_too_small_for_what_is_read_through_it(policy: DispatchPolicy) -> None:
    """Hosts, topic and properties go through an array of TOTALSIZE bytes: each has its own least size."""
    for variant in message.VARIANTS:
        for topic, some in (
            (b"", b""),
            (b"T" * 9, b""),
            (b"T" * 30, b""),
            (b"", b"k" * 30),
            (b"T", b"k" * 9),
        ):
            for total_size in (*range(-1, 36), 90, 91, 103, 115):
                raw = record(0, topic=topic, properties=some, sysFlag=variant, body=b"", totalSize=total_size)
                agree(memory_segment(raw + bytes(40)), 0, policy)


@pytest.mark.parametrize("longest", [100, 115, 200, 1 << 20, (1 << 20) + 1])
def test_parts_longer_than_totalsize_behind_a_longer_record(longest: int, policy: DispatchPolicy) -> None:
    """5.5.1 reads what fits the array that its thread keeps, of up to 1 MiB; others know only TOTALSIZE."""
    before = record(0, topic=b"T", properties=b"", body=b"")
    before = record(0, topic=b"T", properties=b"", body=bytes(longest - len(before)))
    after = record(0, topic=b"T", properties=b"")
    for total_size in (-1, 0, 7, 8, 19, 20, 91):
        for topic, some in ((0, 0), (99, 0), (100, 0), (101, 0), (0, 115), (0, 116), (0, 200), (0, 201)):
            raw = record(0, topic=b"T" * topic, properties=b"k" * some, body=b"", totalSize=total_size)
            agree(memory_segment(before + raw + after), 0, policy)
    raw = record(0, topic=b"T" * 100, properties=b"", body=b"", totalSize=20)
    walked = by_kernels(memory_segment(before + raw + after), 0, len(before + raw + after), policy.release)
    reads = policy is POLICY_5_5 and longest <= 1 << 20
    assert (len(walked.messages), len(walked.mismatches)) == ((2, 1) if reads else (1, 0))


def test_what_4_9_does_not_know() -> None:
    """V2 is an illegal magic to it, inner batches mean nothing, TOTALSIZE is not held against the room."""
    v2 = record(0, magic=message.MAGIC_V2)
    inner = record(0, properties=properties({"INNER_NUM": "x", "INNER_BASE": "1"}))
    huge_blank = blank(64, total_size=65)
    for data, end_4_9, end_5 in (
        (v2, "FAILURE", "STOP"),
        (inner, "STOP", "FAILURE"),
        (huge_blank, "BLANK", "FAILURE"),
    ):
        segment = memory_segment(data)
        assert by_kernels(segment, 0, len(data), RELEASES["4.9.8"]).end == end_4_9
        assert by_kernels(segment, 0, len(data), DEFAULT).end == end_5


def test_a_number_that_is_none_matters_where_java_parses_it(policy: DispatchPolicy) -> None:
    """DELAY only in the schedule topic, and before the lengths are compared; INNER_NUM only after that."""
    delay = properties({"DELAY": "soon"})
    inner = properties({"INNER_NUM": "many", "INNER_BASE": "0"})
    schedule = b"SCHEDULE_TOPIC_XXXX"
    outcomes = {}
    cases: dict[str, dict[str, Any]] = {
        "elsewhere": {"properties": delay},
        "schedule": {"properties": delay, "topic": schedule},
        "schedule, longer": {"properties": delay, "topic": schedule, "totalSize": 400},
        "inner, longer": {"properties": inner, "totalSize": 400},
    }
    for name, fields in cases.items():
        segment = memory_segment(record(0, **fields).ljust(500, b"\0"))
        walk = SegmentWalk(segment, rules_of(policy.release.records))
        found = sum(len(batch.rows) for batch in walk.batches(0, 1))
        outcomes[name] = found, walk.outcome, len(walk.mismatches)
    assert outcomes == {
        "elsewhere": (1, Outcome.STOP, 0),
        "schedule": (0, Outcome.BAD_NUMBER, 0),
        "schedule, longer": (0, Outcome.BAD_NUMBER, 0),
        "inner, longer": (0, Outcome.STOP, 1),
    }


def test_body_and_checksum_are_told() -> None:
    """The body's range, length and stored CRC are those of the record; a negative length is none."""
    segment = memory_segment(record(0, body=b"hello") + record(0, body=b"", bodyCrc=7))
    batch = next(SegmentWalk(segment, rules_of(DEFAULT.records)).batches(0, segment.stop))
    start, length = int(batch.rows["body_start"][0]), int(batch.rows["body_length"][0])
    assert batch.buffer[start : start + length].tobytes() == b"hello"
    assert batch.rows["body_crc"].tolist() == [0x3610A686 & 0x7FFFFFFF, 7]
    assert batch.rows["body_length"].tolist() == [5, 0]


# --- find_record ---


def true_starts(segment: MemorySegment, policy: DispatchPolicy) -> list[tuple[int, Outcome]]:
    """Return every place of a true record or BLANK, tried byte by byte."""
    found: list[tuple[int, Outcome]] = []
    for position in range(len(segment.data) - 7):
        buffer = ByteBuffer(segment.data)
        buffer.position = position
        answer = check_message(buffer, policy)
        place = segment.start + position
        if answer.request is not None and answer.request.physical_offset == place:
            found.append((place, Outcome.RECORD))
        left = len(segment.data) - position
        if (
            answer.success
            and answer.size == 0
            and segment.data[position : position + 4] == left.to_bytes(4, "big")
        ):
            found.append((place, Outcome.FILE_END))
    return found


def all_found(segment: MemorySegment, policy: DispatchPolicy) -> list[tuple[int, Outcome]]:
    walk = SegmentWalk(segment, rules_of(policy.release.records))
    found: list[tuple[int, Outcome]] = []
    place = segment.start
    while (outcome := walk.find(place, segment.stop)) != Outcome.STOP:
        found.append((walk.log_offset, outcome))
        place = walk.log_offset + 1
    return found


@pytest.mark.full
@examples(60)
@given(logs(hostile=True, damage=True, lies=True, most=8), policies)
def test_every_true_record_is_found(log: LogBuilder, policy: DispatchPolicy) -> None:
    """A search finds exactly the records that lie where they say and the BLANKs that fill their file."""
    for start, data in log.files().items():
        segment = memory_segment(data, start)
        assert all_found(segment, policy) == true_starts(segment, policy)


def test_records_inside_bodies_are_found_only_where_they_say_they_lie() -> None:
    """A stored copy of another record is a ghost; one with the right PHYSICALOFFSET cannot be told apart."""
    head = message.HEAD_SIZES[0]
    for claimed, expected in ((head, [0, head]), (head + 1, [0])):
        data = record(0, body=record(claimed)).ljust(FILE_SIZE, b"\0")
        assert [place for place, _ in all_found(memory_segment(data), POLICY_5)] == expected


def test_a_search_stops_where_it_is_told() -> None:
    data = record(0) + record(len(record(0)))
    walk = SegmentWalk(memory_segment(data), rules_of(DEFAULT.records))
    second = len(record(0))
    assert walk.find(1, second) == Outcome.STOP
    assert walk.find(1, second + 1) == Outcome.RECORD
    assert walk.log_offset == second
