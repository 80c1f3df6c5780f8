"""Windows of the segment walk: their size shows in no row, and what cannot be read is said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats import message
from rmqtool.formats.message import Outcome
from rmqtool.io.location import UnreadableRange
from rmqtool.kernels.rows import rules_of
from rmqtool.kernels.walk import walk_over_damage
from rmqtool.releases import DEFAULT
from rmqtool.scan import walk as walk_module
from rmqtool.scan.walk import SegmentWalk
from tests.builders import POLICY_4_9, POLICY_5, memory_segment
from tests.scan.log_builder import blank, record
from tests.scan.walks import by_kernels, by_model, windows
from tests.store.fixture_stores import STORE_ROOTS
from tests.strategies import FILE_SIZE, examples, logs

if TYPE_CHECKING:
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.releases import Release
    from tests.builders import LogBuilder, MemorySegment

SEGMENTS = [path for root in STORE_ROOTS for path in sorted(root.glob("commitlog/*"))]
RULES = rules_of(DEFAULT.records)


def finds(data: bytes, start: int, release: Release = DEFAULT) -> list[tuple[int, Outcome]]:
    """Return what repeated searches find."""
    segment = memory_segment(data, start)
    walk = SegmentWalk(segment, rules_of(release.records))
    found: list[tuple[int, Outcome]] = []
    place = segment.start
    while (outcome := walk.find(place, segment.stop)) != Outcome.STOP:
        found.append((walk.log_offset, outcome))
        place = walk.log_offset + 1
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize(("first", "largest"), [(64, 512), (100, 700), (512, 512), (513, 1024)])
def test_windows_of_any_size_read_the_segments_of_real_brokers(first: int, largest: int) -> None:
    """Records that cross windows, and records longer than any, give the rows of one large window."""
    for path in SEGMENTS[::2]:
        segment = memory_segment(path.read_bytes(), int(path.name))
        expected = by_kernels(segment, segment.start, segment.stop, DEFAULT)
        with windows(first, largest):
            assert by_kernels(segment, segment.start, segment.stop, DEFAULT) == expected


@pytest.mark.full
@examples(80)
@given(
    logs(hostile=True, damage=True, lies=True, most=8),
    st.integers(1, 600),
    st.integers(1024, 1600),  # room for any head with its properties, as the largest has
    st.sampled_from([POLICY_4_9, POLICY_5]),
)
def test_windows_of_any_size_read_any_log(
    log: LogBuilder, first: int, largest: int, policy: DispatchPolicy
) -> None:
    """The window shows in nothing: neither in rows, nor in ends, nor in what a search finds."""
    version = policy.release
    for start, data in log.files().items():
        segment = memory_segment(data, start)
        expected = by_kernels(segment, start, segment.stop, version)
        expected_finds = finds(data, start, version)
        with windows(min(first, largest), largest):
            assert by_kernels(segment, start, segment.stop, version) == expected
            assert finds(data, start, version) == expected_finds


def test_a_torn_log_is_walked_window_by_window() -> None:
    """Records whose lengths do not add up are passed in the kernel, not one call for each."""
    data = b""
    for number in range(2000):
        data += record(len(data), totalSize=len(record(0)) + 1 - number % 2)
    with mock.patch.object(walk_module, "walk_over_damage", wraps=walk_over_damage) as kernel:
        walked = by_kernels(memory_segment(data), 0, len(data), DEFAULT)
    assert (len(walked.messages), len(walked.mismatches)) == (1000, 1000)
    assert kernel.call_count < 10


def long_record(place: int, body_bytes: int) -> bytes:
    return record(place, body=bytes(body_bytes), sysFlag=message.STORE_HOST_V6)


def test_bodies_longer_than_the_largest_window_are_never_read() -> None:
    """Only head, topic and properties of a long record are read; the chain goes on after it."""
    parts = [record(0)]
    for size in (5000, 10, 3000, 2000):
        parts.append(long_record(sum(map(len, parts)), size))
    data = b"".join(parts)
    segment = memory_segment(data + blank(100))
    expected = by_model(segment, 0, segment.stop, POLICY_5)
    assert len(expected.messages) == 5
    read_bytes = []

    class Counting(type(segment)):  # type: ignore[misc] # the class is a variable to mypy
        def read_into(self, position: int, buffer: memoryview, unreadable: object = None) -> int:
            count: int = super().read_into(position, buffer, unreadable)
            read_bytes.append(count)
            return count

    counting = Counting(segment.path, segment.label, segment.size_bytes, 0, data=segment.data)
    with windows(256, 1024):
        assert by_kernels(counting, 0, segment.stop, DEFAULT) == expected
    assert max(read_bytes) <= 1024


def test_a_long_record_is_the_whole_batch_and_its_body_is_not_in_the_window() -> None:
    data = long_record(0, 5000) + record(len(long_record(0, 5000)))
    with windows(256, 1024):
        batches = [
            (batch.rows["log_offset"].tolist(), batch.rows["total_size"].tolist(), len(batch.buffer))
            for batch in SegmentWalk(memory_segment(data), RULES).batches(0, len(data))
        ]
    assert [places for places, _, _ in batches] == [[0], [len(long_record(0, 5000))]]
    assert batches[0][1] == [len(long_record(0, 5000))]
    assert all(size <= 1024 for _, _, size in batches)


@pytest.mark.parametrize("lie", [-1, 1])
def test_a_long_record_whose_lengths_do_not_add_up_is_passed_by_what_was_read(lie: int) -> None:
    long = long_record(0, 5000)
    lying = record(0, body=bytes(5000), sysFlag=message.STORE_HOST_V6, totalSize=len(long) + lie)
    segment = memory_segment(lying + record(len(lying)) + bytes(50))
    expected = by_model(segment, 0, segment.stop, POLICY_5)
    assert expected.mismatches == [(0, len(long) + lie, len(long))]
    with windows(256, 1024):
        assert by_kernels(segment, 0, segment.stop, DEFAULT) == expected


def test_a_search_meets_long_records_true_and_false() -> None:
    """A true long record is found; one whose tail contradicts its size is passed, and the next one found."""
    long = long_record(0, 3000)
    broken = bytearray(long)
    broken[0:4] = (len(long) + 7).to_bytes(4, "big")
    after = len(broken)
    data = bytes(broken) + long_record(after, 3000) + record(after + len(long)) + bytes(99)
    expected = finds(data, 0)
    assert [place for place, _ in expected] == [after, after + len(long)]
    with windows(256, 1024):
        assert finds(data, 0) == expected


def test_a_long_record_that_the_file_cuts_is_a_failure() -> None:
    """Wherever the file ends inside a long record, nothing is taken and nothing hangs."""
    long = long_record(0, 3000)
    for length in (200, 1024, 3000, len(long) - 40, len(long) - 1):
        segment = memory_segment(long[:length])
        with windows(256, 1024):
            walked = by_kernels(segment, 0, segment.stop, DEFAULT)
            assert (walked.messages, walked.end, walked.place) == ([], "FAILURE", 0)
            assert finds(long[:length], 0) == []


@pytest.mark.parametrize("first", [64, 1 << 20])
def test_a_file_that_shrank_since_it_was_listed_ends_the_walk(first: int) -> None:
    """What the listing promises and the file no longer has is a failure at the record that misses bytes."""
    data = record(0) + record(len(record(0)))
    for length in range(len(data)):
        segment = memory_segment(data[:length], size_bytes=FILE_SIZE)
        whole = length // len(record(0))
        with windows(first, 1 << 20):
            walked = by_kernels(segment, 0, segment.stop, DEFAULT)
            assert (len(walked.messages), walked.end) == (whole, "FAILURE")
            assert walked.place == whole * len(record(0))
            walk = SegmentWalk(segment, RULES)
            assert walk.find(walked.place + 1, segment.stop) == Outcome.STOP


def test_an_empty_file_holds_nothing() -> None:
    segment = memory_segment(b"")
    walk = SegmentWalk(segment, RULES)
    assert list(walk.batches(0, 100)) == []
    assert (walk.outcome, walk.log_offset) == (Outcome.STOP, 0)
    assert walk.find(0, 100) == Outcome.STOP


def with_bad_sectors(data: bytes, *bad: tuple[int, int]) -> MemorySegment:
    return replace(memory_segment(data), bad=bad)


def test_ranges_that_the_disk_does_not_deliver_are_zeros_and_are_said() -> None:
    """A bad sector ends the chain as zeros do; what was read around it is there, the range is reported."""
    first = record(0, body=bytes(600))
    data = first + record(len(first), body=bytes(600)) + bytes(800)
    segment = with_bad_sectors(data, (len(first), len(first) + 512))
    walk = SegmentWalk(segment, RULES)
    places = [int(place) for batch in walk.batches(0, len(data)) for place in batch.rows["log_offset"]]
    assert places == [0]
    assert (walk.outcome, walk.log_offset) == (Outcome.BAD_MAGIC, len(first))
    assert walk.unreadable == [UnreadableRange(len(first), 512)]


def test_a_bad_range_that_several_windows_meet_is_said_once() -> None:
    """A bad sector in a body hurts no row; windows that overlap on it do not multiply it."""
    data = b""
    for _ in range(6):
        data += record(len(data), body=bytes(400))
    segment = with_bad_sectors(data, (200, 300), (700, 712), (1300, 1400))
    with windows(256, 1024):
        walk = SegmentWalk(segment, RULES)
        assert sum(len(batch.rows) for batch in walk.batches(0, len(data))) == 6
    assert walk.unreadable == [
        UnreadableRange(200, 100),
        UnreadableRange(700, 12),
        UnreadableRange(1300, 100),
    ]


@pytest.mark.full
@examples(60)
@given(logs(most=10), st.data())
def test_a_walk_can_begin_and_end_anywhere_on_the_chain(log: LogBuilder, data: st.DataObject) -> None:
    """Records that begin at the stop or after it are not taken; the place is where the next walk begins."""
    start, content = next(iter(log.files().items()))
    segment = memory_segment(content, start)
    whole = by_kernels(segment, start, segment.stop, DEFAULT)
    stop = data.draw(st.integers(start, segment.stop))
    head = by_kernels(segment, start, stop, DEFAULT)
    tail = by_kernels(segment, head.place, segment.stop, DEFAULT)
    assert head.messages == [one for one in whole.messages if one[0] < stop]
    if head.end == "STOP":
        assert head.place >= min(stop, whole.place)
        assert head.messages + tail.messages == whole.messages
        assert (tail.end, tail.place) == (whole.end, whole.place)
