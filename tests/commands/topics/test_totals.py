"""What ``topics`` adds up is what ``dump`` shows, and every byte of the log has its place."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool import rows
from rmqtool.commands.dump import DumpRequest
from rmqtool.commands.dump.run import dump_log
from rmqtool.commands.topics import Lag, TopicOrder, TopicsReport, TopicsRequest, topics_of
from rmqtool.kernels.rows import rules_of
from rmqtool.kernels.totals import QueueTotals
from rmqtool.releases import LENIENT
from rmqtool.scan import file_pass
from rmqtool.scan.walk import SegmentWalk
from rmqtool.store import open_store
from rmqtool.topics import TopicKind, kind_of
from tests.builders import memory_segment
from tests.commands.rebuilding import Listener
from tests.damage.cases import Case, load_cases
from tests.damage.mutations import Mutator
from tests.damage.running import damaged_copy
from tests.scan.log_builder import STORE_TIMESTAMP_MS, record
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

STORES: tuple[str, ...] = (
    "plain-5.3.3",
    "plain-4.9.8",
    "transaction-5.3.3",
    "lmq-5.5.1",
    "v2-5.3.3",
    "unicode-4.9.8",
)
STORES += ("pagecopies-5.5.1", "segments-5.3.3", "batch-5.3.3", "delay-4.9.8", "crash-5.3.3")
CASES = [case for case in load_cases() if case.code.startswith(("CL-", "IO-")) and not case.properties]
_SPLIT_BYTES = 2500


def shown_by_dump(root: Path) -> dict[tuple[str, int], list[rows.Message]]:
    found: dict[tuple[str, int], list[rows.Message]] = {}
    for row in dump_log(open_store(root), DumpRequest(), Listener()):
        if isinstance(row, rows.Message):
            found.setdefault((row.topic, row.queue_id), []).append(row)
    return found


def totals(root: Path, split_bytes: int = 1 << 26) -> TopicsReport:
    request = TopicsRequest(open_store(root), by_queue=True, split_bytes=split_bytes)
    return topics_of(request, Listener())


def check(root: Path) -> TopicsReport:
    """Hold the totals against a dump, and the parts against the files; return them."""
    report = totals(root)
    wanted = shown_by_dump(root)
    assert {(row.topic, row.queue_id) for row in report} == set(wanted)
    for row in report:
        messages = wanted[row.topic, row.queue_id or 0]
        assert (row.messages, row.bytes) == (len(messages), sum(one.total_size for one in messages))
        times = [one.store_timestamp_ms for one in messages]
        assert (row.oldest_timestamp_ms, row.newest_timestamp_ms) == (min(times), max(times))
        # A record in a swapped file says another place than where it lies.
        places = {int(one.file[-20:]) + one.position: one.total_size for one in messages}
        largest = max(places, key=lambda place: (places[place], -place))
        assert (row.largest_bytes, row.largest_physical_offset) == (places[largest], largest)
    log = report.log
    assert log.message_bytes == sum(row.bytes for row in report)
    parts = log.message_bytes + log.blank_bytes + log.zero_bytes + log.stale_bytes + log.damaged_bytes
    assert parts == log.size_bytes == open_store(root).own_log.size_bytes
    again = totals(root, _SPLIT_BYTES)
    assert (again.rows, again.log) == (report.rows, report.log)
    assert list(again.findings) == list(report.findings)
    return report


@pytest.mark.parametrize("store", STORES)
def test_a_sound_log(store: str) -> None:
    report = check(fixture(store))
    assert report.log.damaged_bytes == 0
    assert sum(row.share for row in report) == pytest.approx(1, abs=1e-4)


@pytest.mark.few(3)
@pytest.mark.parametrize("case", CASES, ids=[f"{case.code}: {case.name}" for case in CASES])
def test_damage_cases(case: Case, tmp_path: Path) -> None:
    check(damaged_copy(case, tmp_path))


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(12))
def test_random_damage(seed: int, tmp_path: Path) -> None:
    mutator, chance = Mutator(fixture("plain-5.3.3")), random.Random(seed)
    targets = [
        one
        for one in mutator.targets
        if one.startswith(("commitlog", "record", "whole record", "BLANK", "log tail"))
    ]
    mutations = (mutator.mutate(chance.choice(targets), chance) for _ in iter(int, 1))
    mutation = next(one for one in mutations if one is not None)
    root = tmp_path / "store"
    for label, data in (mutator.files | mutation.contents).items():
        if data is not None and label.startswith("commitlog/"):
            (root / label).parent.mkdir(parents=True, exist_ok=True)
            (root / label).write_bytes(data)
    check(root)


def test_more_gaps_than_are_told_apart_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are damaged bytes like the others."""
    log = b""
    for number in range(40):
        log += record(len(log), queueOffset=number) + (b"\xff" * 7 if number % 2 else b"")
    folder = tmp_path / "store" / "commitlog"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(log.ljust(16384, b"\0"))
    monkeypatch.setattr(file_pass, "MAX_GAPS", 3)
    report = totals(tmp_path / "store")
    assert (report.log.messages, report.log.damaged_bytes) == (40, 7 * 20)
    assert report.findings.counts["CL-HALF-RECORD"] >= 15
    assert sum(report.findings.counts.values()) >= 20


@given(st.lists(st.tuples(st.integers(0, 127), st.integers(0, 3)), min_size=1, max_size=300))
def test_the_table_grows_with_its_queues(queues: list[tuple[int, int]]) -> None:
    """Names that are long, empty, or beginnings of each other are told apart."""
    data, wanted = b"", dict[tuple[str, int], tuple[int, int]]()
    for number, (topic, queue_id) in enumerate(queues):
        name = "t" * topic
        one = record(
            len(data),
            topic=name.encode(),
            queueId=queue_id,
            queueOffset=number,
            storeTimestamp=STORE_TIMESTAMP_MS + number,
        )
        count, size = wanted.get((name, queue_id), (0, 0))
        wanted[name, queue_id] = count + 1, size + len(one)
        data += one
    found = QueueTotals()
    walk = SegmentWalk(memory_segment(data), rules_of(LENIENT))
    for batch in walk.batches(0, len(data)):
        found.add(batch)
    assert {key: (total.messages, total.bytes) for key, total in found} == wanted


def test_rows_are_sorted_cut_and_filtered() -> None:
    store = open_store(fixture("plain-5.3.3"))
    request = TopicsRequest(store)
    by = {order: topics_of(replace(request, order=order), Listener()).rows for order in TopicOrder}
    assert [row.topic for row in by[TopicOrder.NAME]] == sorted(row.topic for row in by[TopicOrder.BYTES])
    for order, value in (
        (TopicOrder.BYTES, "bytes"),
        (TopicOrder.MESSAGES, "messages"),
        (TopicOrder.NEWEST, "newest_timestamp_ms"),
        (TopicOrder.LARGEST, "largest_bytes"),
        (TopicOrder.RATE, "messages_per_second"),
    ):
        values = [getattr(row, value) for row in by[order]]
        known = [one for one in values if one is not None]
        assert values == sorted(known, reverse=True) + [None] * (len(values) - len(known))
    times = [row.oldest_timestamp_ms for row in by[TopicOrder.OLDEST]]
    assert times == sorted(times)
    cut = topics_of(replace(request, top=2), Listener())
    assert (len(cut), cut.more, cut.truncated, cut.topics) == (2, 3, True, 5)
    assert cut.log.messages == 163
    chosen = topics_of(replace(request, topics=("%RETRY%*", "Orders")), Listener())
    assert {row.topic for row in chosen} == {"%RETRY%billing", "Orders"}
    assert not chosen.truncated
    dead = topics_of(replace(request, kinds=frozenset({TopicKind.DEAD_LETTER})), Listener())
    assert [row.topic for row in dead] == ["%DLQ%billing"]


def test_the_slowest_reader_is_named() -> None:
    """By topic, lags of a reader add up over its queues; of equals the first by name counts."""
    lags = (
        Lag("TopicTest", 0, "group b", 5),
        Lag("TopicTest", 1, "group b", 6),
        Lag("TopicTest", 1, "group a", 9),
        Lag("Orders", 0, "group z", 0),
        Lag("Orders", 0, "group y", 0),
    )
    request = TopicsRequest(open_store(fixture("plain-5.3.3")), lags=lags, order=TopicOrder.BACKLOG)
    found = topics_of(request, Listener()).rows
    assert [(row.topic, row.backlog, row.slowest_reader) for row in found[:3]] == [
        ("TopicTest", 11, "group b"),
        ("Orders", 0, "group y"),
        ("%DLQ%billing", None, None),
    ]
    queues = topics_of(replace(request, by_queue=True), Listener()).rows
    slowest = {(row.topic, row.queue_id): (row.backlog, row.slowest_reader) for row in queues}
    assert slowest["TopicTest", 1] == (9, "group a")
    assert slowest["TopicTest", 0] == (5, "group b")


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("Orders", "ordinary"),
        ("%RETRY%g", "retry"),
        ("%DLQ%g", "dead-letter"),
        ("SCHEDULE_TOPIC_XXXX", "broker"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "broker"),
        ("rmq_sys_wheel_timer", "broker"),
        ("SCHEDULE", "ordinary"),
    ],
)
def test_kinds(topic: str, kind: str) -> None:
    assert kind_of(topic) == kind
