"""The runs of many files by queue, and their units: sorted in one go or by ranges, read together or apart."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rmqtool.kernels.rows import KEY_ROW
from rmqtool.reput import queues, units
from rmqtool.reput.chain import ScanJob
from rmqtool.reput.dispatcher import KnownQueues
from rmqtool.reput.queues import plan_queues
from rmqtool.reput.units import by_queue, units_of
from rmqtool.scan.log_pass import SplitTask, plan_splits, read_split
from tests.broker_model.reput import Sizes
from tests.builders import POLICY_5, LogBuilder, build, memory_log, staging
from tests.strategies import BATCH_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store.staging import StagingHandle

SIZE = 1000
POLICIES = {
    "plain": POLICY_5,
    "ext": POLICY_5._replace(ext=True),
    "batch": POLICY_5._replace(batch_topics=frozenset({BATCH_TOPIC, "T3"})),
}
Rows = dict[tuple[str, int], list[tuple[int, ...]]]


def many_queues() -> LogBuilder:
    """Seven files; queues in some of them, one with a gap, one whose offsets begin again in a file."""
    log = LogBuilder(SIZE)
    offsets: dict[int, int] = {}
    for number in range(40):
        queue = (number * 7) % 11 if number % 3 else number % 5
        offset = offsets[queue] = offsets.get(queue, -1) + 1
        if queue == 4 and offset > 2:
            offset += 7
        if queue == 1 and offset > 1:
            offset -= 2
        log.add(topic=f"T{queue % 4}".encode(), queueId=queue // 4, queueOffset=offset, body=b"x")
    return log


@contextmanager
def scanned(policy: DispatchPolicy) -> Iterator[tuple[list[Block], StagingHandle]]:
    with staging() as handle:
        splits = plan_splits(memory_log(many_queues().files()), 1 << 62)
        assert len(splits) >= 5
        yield [read_split(SplitTask(ScanJob(policy, handle), split)).block for split in splits], handle


def rows_of(plan: QueuePlan, pieces: list[units.QueueUnits], policy: DispatchPolicy) -> list[tuple[Any, ...]]:
    """Return all columns of some units, row by row."""
    names = ["units", "queue_offsets", *(["store_timestamps", "batch_sizes"] if policy.wide else [])]
    columns = [np.concatenate([piece.column(name) for piece in pieces]).tolist() for name in names]
    assert plan.units == len(columns[0])
    return list(zip(*columns, strict=True))


def expected(blocks: list[Block], policy: DispatchPolicy) -> Rows:
    """Read every run of every block by itself."""
    found: Rows = {}
    names = ["store_timestamps", "batch_sizes"] if policy.wide else []
    for block in blocks:
        topics = block.read("names").tobytes()
        for run, key in zip(block.read("runs"), block.read("keys"), strict=True):
            place = int(run["first_row"]), int(run["count"])
            offsets = np.arange(run["first_queue_offset"], run["first_queue_offset"] + run["count"])
            if block.count("queue_offsets"):
                offsets = block.read("queue_offsets", *place)
            columns = [block.read("units", *place), offsets, *(block.read(name, *place) for name in names)]
            topic = topics[key["name_start"] : key["name_start"] + key["name_length"]].decode()
            rows = zip(*(column.tolist() for column in columns), strict=True)
            found.setdefault((topic, int(key["queue_id"])), []).extend(rows)
    return found


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("range_runs", [1, 3, 7, 1 << 19])
def test_queues_have_all_their_units_in_log_order(policy: DispatchPolicy, range_runs: int) -> None:
    """However many runs are sorted at a time; queues come by topic and id."""
    with scanned(policy) as (blocks, handle):
        plans = plan_queues(blocks, policy, handle, range_runs)
        rows = {
            (plan.topic, plan.queue_id): rows_of(plan, [units_of(plan, blocks)], policy) for plan in plans
        }
        assert rows == expected(blocks, policy)
        assert list(rows) == sorted(rows)
        assert len(rows) == 11
        assert {(plan.topic, plan.queue_id) for plan in plans if not plan.joined} == {("T0", 1), ("T1", 0)}
        assert all(plan.batch == (plan.topic in policy.batch_topics) for plan in plans)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize(("long_run", "group", "piece"), [(1, 1, 1), (2, 5, 2), (100, 9, 4), (100, 99, 99)])
def test_units_are_the_same_read_together_or_apart(
    policy: DispatchPolicy, long_run: int, group: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "_LONG_RUN_UNITS", long_run)
    monkeypatch.setattr(units, "_GROUP_UNITS", group)
    monkeypatch.setattr(units, "_LEAST_READ_UNITS", 0)
    monkeypatch.setattr(units, "_PIECE_UNITS", piece)
    with scanned(policy) as (blocks, handle):
        plans = plan_queues(blocks, policy, handle)
        rows = {
            (plan.topic, plan.queue_id): rows_of(plan, list(pieces), policy)
            for plan, pieces in by_queue(plans, blocks)
        }
        assert rows == expected(blocks, policy)


def test_neighbours_in_a_block_are_read_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues are taken in the order that they have in every block: one read of each block for all."""
    with scanned(POLICY_5) as (blocks, handle):
        plans = plan_queues(blocks, POLICY_5, handle)
        read: list[int] = []
        rows = type(blocks[0]).rows

        def noted(block: Block, column: str, first: int, count: int) -> object:
            read.append(count)
            return rows(block, column, first, count)

        monkeypatch.setattr(type(blocks[0]), "rows", noted)
        for _, pieces in by_queue(plans, blocks):
            assert all(len(piece.column("units")) for piece in pieces)
        assert len(read) == len(blocks)
        assert sum(read) == sum(plan.units for plan in plans)


def test_digests_that_are_half_alike_are_told_apart() -> None:
    """Somebody may look for names whose digests begin alike; their queues stay apart."""
    keys = np.zeros(6, KEY_ROW)
    keys["high"] = [5, 5, 9, 5, 5, 9]
    keys["low"] = [2, 1, 0, 1, 2, 0]
    assert queues._order(keys).tolist() == [1, 3, 0, 4, 2, 5]
    keys["low"] = 0
    assert queues._order(keys).tolist() == [0, 1, 3, 4, 2, 5]


def test_no_queue_at_all() -> None:
    with staging() as handle:
        assert plan_queues([], POLICY_5, handle) == []
        empty = memory_log({0: bytes(SIZE)})
        blocks = [
            read_split(SplitTask(ScanJob(POLICY_5, handle), split)).block
            for split in plan_splits(empty, SIZE)
        ]
        assert plan_queues(blocks, POLICY_5, handle) == []


def test_output_is_the_same_in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    log, sizes = memory_log(many_queues().files()), Sizes(consumequeue=60, items=4)
    whole = build(log, SIZE, POLICY_5, sizes=sizes)
    monkeypatch.setattr(units, "_GROUP_UNITS", 5)
    monkeypatch.setattr(units, "_LEAST_READ_UNITS", 0)
    monkeypatch.setattr(queues.plan_queues, "__defaults__", (2,))
    ranges = build(log, SIZE, POLICY_5, sizes=sizes)
    assert (ranges.queues, ranges.index, ranges.result.skipped_units) == (
        whole.queues,
        whole.index,
        whole.result.skipped_units,
    )
    assert len(whole.queues) > 11


def test_known_queues_are_copies() -> None:
    known = KnownQueues()
    assert known.of(POLICY_5) is None
    with staging() as handle:
        log = memory_log(many_queues().files())
        (first, second, *_) = plan_splits(log, 1 << 62)
        read_split(SplitTask(ScanJob(POLICY_5, handle), first))
        again = read_split(SplitTask(ScanJob(POLICY_5, handle), second)).block
        other = read_split(SplitTask(ScanJob(POLICY_5._replace(lmq=False), handle), second)).block
        assert np.array_equal(again.read("runs"), other.read("runs"))
        assert np.array_equal(again.read("keys"), other.read("keys"))
        assert np.array_equal(again.read("units"), other.read("units"))


@pytest.mark.parametrize("name", [b"..", b"a/b"])
def test_every_split_tells_of_names_that_are_no_directory(name: bytes) -> None:
    with staging() as handle:
        log = LogBuilder(SIZE)
        for number in range(12):
            log.add(topic=name, queueOffset=number)
        splits = plan_splits(memory_log(log.files()), 1 << 62)
        reports = [read_split(SplitTask(ScanJob(POLICY_5, handle), split)) for split in splits]
        assert len(reports) > 1
        assert all(report.unsafe == [(name.decode(), 0)] for report in reports)
        clean = read_split(
            SplitTask(ScanJob(POLICY_5, handle), plan_splits(memory_log(many_queues().files()), SIZE)[0])
        )
        assert clean.unsafe == []
