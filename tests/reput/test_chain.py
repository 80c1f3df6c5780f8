"""The way through damaged logs: what is dispatched, what is skipped, and that it always ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats.message import Outcome
from rmqtool.progress import NullProgress
from rmqtool.reput.blocks import UNIT_DTYPE
from rmqtool.reput.chain import Skip
from rmqtool.store.segments import FileQueue
from tests.broker_model.reput import BrokerModel
from tests.builders import (
    POLICY_4_9,
    POLICY_5,
    InlineEngine,
    LogBuilder,
    build,
    memory_log,
    memory_segment,
    plan_of,
    staging,
)
from tests.reput.comparing import assert_as_the_model
from tests.scan.log_builder import blank, record
from tests.store.fixture_stores import STORE_ROOTS
from tests.strategies import FILE_SIZE, examples, logs, patched, patches

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.dispatch.policy import DispatchPolicy
    from tests.builders import Built

policies = st.sampled_from([POLICY_4_9, POLICY_5])
split_sizes = st.one_of(st.just(1 << 28), st.integers(200, 5000))


@pytest.fixture(params=[POLICY_4_9, POLICY_5], ids=["4.9.8", "5.3.3"])
def policy(request: pytest.FixtureRequest) -> DispatchPolicy:
    chosen: DispatchPolicy = request.param
    return chosen


def log_of(root: Path) -> dict[int, bytes]:
    return {int(path.name): path.read_bytes() for path in sorted(root.glob("commitlog/*"))}


def run(files: dict[int, bytes], policy: DispatchPolicy, file_size: int = FILE_SIZE) -> Built:
    return assert_as_the_model(files, file_size, policy)


def three_files() -> tuple[LogBuilder, list[int]]:
    """Give a log of three files and the places of its records."""
    log = LogBuilder(FILE_SIZE)
    places: list[int] = []
    while len(log.files()) < 3 or len(log.data) % FILE_SIZE < 900:
        places.append(log.add(body=bytes(100), queueOffset=len(places)))
    return log, places


# --- damage made by chance ---


@pytest.mark.full
@examples(40)
@given(st.data(), st.sampled_from(STORE_ROOTS), policies, split_sizes)
def test_damaged_logs_of_real_brokers(
    data: st.DataObject, root: Path, policy: DispatchPolicy, split_bytes: int
) -> None:
    """Flipped bytes, zeroed pages and numbers written over others: the broker's messages, in its order."""
    files = log_of(root)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.sampled_from(sorted(files)))
        files[start] = patched(files[start], data.draw(patches(len(files[start]))))
    file_size = max(map(len, files.values()))
    assert_as_the_model(files, file_size, policy, split_bytes=split_bytes)


@pytest.mark.full
@examples(30)
@given(st.data(), logs(damage=True, halves=True, most=12), policies, split_sizes)
def test_logs_that_miss_a_file(
    data: st.DataObject, log: LogBuilder, policy: DispatchPolicy, split_bytes: int
) -> None:
    """The way ends at a gap, unless a counter that came apart jumps over it."""
    files = log.files()
    del files[data.draw(st.sampled_from(sorted(files)))]
    if files:
        assert_as_the_model(files, FILE_SIZE, policy, split_bytes=split_bytes)


@examples(30)
@given(
    st.lists(st.tuples(st.integers(0, 900), st.binary(max_size=400)), max_size=4),
    st.integers(1, 300),
    st.data(),
)
def test_files_that_overlap_or_differ_in_size_always_come_to_an_end(
    raw: list[tuple[int, bytes]], split_bytes: int, data: st.DataObject
) -> None:
    """No broker makes such a log; whatever is made of it is the same for all splits, and goes forward."""
    record_bytes = record(data.draw(st.integers(0, 500)), body=b"")
    segments = tuple(
        memory_segment(content + record_bytes, start) for start, content in sorted(dict(raw).items())
    )
    built = build(FileQueue((), segments), 256, POLICY_5, split_bytes=split_bytes)
    whole = build(FileQueue((), segments), 256, POLICY_5)
    assert (built.queues, built.index, built.index_names) == (whole.queues, whole.index, whole.index_names)
    assert (built.result.chain.skips, built.result.chain.stop) == (
        whole.result.chain.skips,
        whole.result.chain.stop,
    )
    places = [report.first_log_offset for report in built.result.chain.reports]
    assert places == sorted(places, key=lambda place: -1 if place is None else place)


# --- damage by name ---


def test_bytes_that_are_no_record_skip_the_rest_of_their_file(policy: DispatchPolicy) -> None:
    log, places = three_files()
    log.data[places[3] + 4] ^= 1
    chain = run(log.files(), policy).result.chain
    assert chain.skips[0] == Skip(places[3], FILE_SIZE - places[3], Outcome.BAD_MAGIC)
    assert chain.stop == 3 * FILE_SIZE


def test_a_zeroed_page_skips_the_rest_of_its_file(policy: DispatchPolicy) -> None:
    log, places = three_files()
    log.data[places[2] : places[2] + 512] = bytes(512)
    chain = run(log.files(), policy).result.chain
    assert chain.skips[0] == Skip(places[2], FILE_SIZE - places[2], Outcome.BAD_MAGIC)


@pytest.mark.parametrize("more", [-40, -1, 1, 100, 700])
def test_a_record_whose_lengths_do_not_add_up_parts_the_counters(policy: DispatchPolicy, more: int) -> None:
    """The file is read on after it; after BLANK the offset rolls from where the second counter stands."""
    log, places = three_files()
    size = places[2] - places[1]
    log.data[places[1] : places[1] + 4] = (size + more).to_bytes(4, "big")
    chain = run(log.files(), policy).result.chain
    assert chain.skips[0] == Skip(places[1], size, Outcome.MISMATCH)


def test_records_side_by_side_whose_lengths_do_not_add_up_are_one_skip(policy: DispatchPolicy) -> None:
    """A torn log has hundreds of thousands of them."""
    log, places = three_files()
    for place, after in ((places[1], places[2]), (places[2], places[3]), (places[4], places[5])):
        log.data[place : place + 4] = (after - place + 1).to_bytes(4, "big")
    for split_bytes in (1 << 28, 300):
        built = build(memory_log(log.files()), FILE_SIZE, policy, split_bytes=split_bytes)
        assert built.result.chain.skips[:2] == [
            Skip(places[1], places[3] - places[1], Outcome.MISMATCH),
            Skip(places[4], places[5] - places[4], Outcome.MISMATCH),
        ]


def test_both_kinds_of_damage_in_one_file_move_the_next_region_into_the_next_file(
    policy: DispatchPolicy,
) -> None:
    """What the second counter has not seen as good is added, so the next file is entered in its middle."""
    log, places = three_files()
    size = places[2] - places[1]
    log.data[places[1] : places[1] + 4] = (size + 7).to_bytes(4, "big")
    log.data[places[4] + 4] ^= 1
    chain = run(log.files(), policy).result.chain
    assert Skip(FILE_SIZE, size + 7, Outcome.STOP) in chain.skips


def test_a_region_that_begins_at_a_record_by_chance_is_read(policy: DispatchPolicy) -> None:
    """TOTALSIZEs that sum up to a record's place in the next file let the broker go on right there."""
    log, places = three_files()
    second_file = [place for place in places if FILE_SIZE <= place < 2 * FILE_SIZE]
    target = second_file[2] - FILE_SIZE
    log.data[places[1] : places[1] + 4] = target.to_bytes(4, "big")
    log.data[places[4] + 4] ^= 1
    chain = run(log.files(), policy).result.chain
    assert second_file[2] in [report.first_log_offset for report in chain.reports]


def test_without_blank_the_file_ends_where_the_last_record_does(policy: DispatchPolicy) -> None:
    """A file that records fill to its last byte goes over into the next one without any skip."""
    size = len(record(0))
    first = record(0) + record(size, body=bytes(FILE_SIZE - 2 * size + 4))
    assert len(first) == FILE_SIZE
    files = {0: first, FILE_SIZE: record(FILE_SIZE).ljust(FILE_SIZE, b"\0")}
    chain = run(files, policy).result.chain
    assert [skip.log_offset for skip in chain.skips] == [FILE_SIZE + size]


def test_a_blank_that_comes_early_or_says_nonsense_rolls(policy: DispatchPolicy) -> None:
    log, places = three_files()
    log.data[places[2] : places[2] + 8] = blank(8, total_size=3)[:8]
    chain = run(log.files(), policy).result.chain
    assert chain.skips[0] == Skip(places[2], FILE_SIZE - places[2], Outcome.FILE_END)
    assert chain.stop == 3 * FILE_SIZE


def test_the_field_decides_where_a_unit_points_and_the_place_where_the_way_goes(
    policy: DispatchPolicy,
) -> None:
    """Records copied to another place are dispatched with the offset they claim."""
    log = LogBuilder(FILE_SIZE)
    for number, claimed in enumerate((0, 5000, 100, 5000, 6000)):
        log.add(physicalOffset=claimed, queueOffset=number)
    built = run(log.files(), policy)
    (queue,) = built.queues.values()
    units = np.frombuffer(queue, UNIT_DTYPE)["physicalOffset"]
    assert units[:4].tolist() == [0, 5000, 6000, 0]
    assert (built.result.messages, built.result.unindexed) == (5, 1)


def test_the_last_file_of_5_3_is_read_as_if_the_log_went_on() -> None:
    """5.3.3 also stops where the second counter passes the log's end, which moves while a broker runs.

    A known difference: after a record in the last file that says to be longer than it is, the last records
    before the end are dispatched here, and by a 5.3.3 only once the log has gone on.
    """
    log = LogBuilder(FILE_SIZE)
    log.add(totalSize=len(record(0)) + 700)
    for number in range(9):
        log.add(body=bytes(60), queueOffset=number)
    files = {0: log.files()[0]}
    assert run(files, POLICY_5).result.messages == 9
    model = BrokerModel(POLICY_5)
    model.reput(files, FILE_SIZE, end=FILE_SIZE)
    assert len(model.dispatched) < 9


# --- where it ends ---


def test_an_offset_that_stalls_the_broker_ends_the_way(policy: DispatchPolicy) -> None:
    """What was put before the record fails stays; nothing after it is dispatched."""
    lmq = b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x010,x"
    stalling = LogBuilder(FILE_SIZE)
    stalling.add(topic=b"Before")
    at = stalling.add(topic=b"Stalls", properties=lmq)
    stalling.add(topic=b"After")
    built = run(stalling.files(), policy)
    assert (built.result.chain.stalled, built.result.chain.stop) == (True, at)
    assert {name.split("/")[1] for name in built.queues} == {"Before", "Stalls", "%LMQ%a"}


def test_until_offset_ends_the_way_at_a_record(policy: DispatchPolicy) -> None:
    """Records that begin at the offset or after it are not taken, whatever split they are in."""
    log, places = three_files()
    for until in (1, places[3], places[3] + 1, FILE_SIZE + 5, places[-1]):
        expected = sum(place < until for place in places)
        for split_bytes in (1 << 28, 500, 300):
            built = build(
                memory_log(log.files()), FILE_SIZE, policy, split_bytes=split_bytes, until_offset=until
            )
            assert built.result.messages == expected


def test_a_dry_run_writes_nothing(policy: DispatchPolicy) -> None:
    from rmqtool.reput.pipeline import run_reput

    log, places = three_files()
    with staging() as handle:
        plan = plan_of(memory_log(log.files()), FILE_SIZE, policy, handle)
        result = run_reput(plan, InlineEngine(), NullProgress(), emit=False)
        assert result.messages == len(places)
        assert list(handle.result.iterdir()) == []


def test_an_empty_log_makes_nothing(policy: DispatchPolicy) -> None:
    built = build(FileQueue((), ()), FILE_SIZE, policy)
    assert (built.queues, built.index, built.result.messages) == ({}, [], 0)
