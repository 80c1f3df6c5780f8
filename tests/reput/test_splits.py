"""Where a log is cut shows in no byte: cuts between every two bytes of small logs of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.formats import message
from rmqtool.genuine.records import read_copy
from rmqtool.reput.chain import ScanJob, follow
from rmqtool.reput.queues import plan_queues
from rmqtool.reput.units import units_of
from rmqtool.scan.log_pass import LogPass, ReadJob, Split, SplitTask, plan_splits, read_split
from tests.broker_model.reput import Sizes
from tests.builders import (
    POLICY_4_9,
    POLICY_5,
    POLICY_5_5,
    InlineEngine,
    LogBuilder,
    build,
    memory_log,
    properties,
    staging,
)
from tests.reput.comparing import assert_as_the_model
from tests.scan.log_builder import record
from tests.strategies import BATCH_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.reput.chain import SplitReport
    from rmqtool.store.segments import FileQueue, Segment
    from rmqtool.store.staging import StagingHandle

SIZE = 600
Streams = tuple[Any, ...]


def plain() -> LogBuilder:
    log = LogBuilder(SIZE)
    for number in range(6):
        log.add(queueOffset=number // 2, queueId=number % 2, body=b"xy")
    return log


def damaged() -> LogBuilder:
    """A half record, and in the next file rubbish; records around both."""
    log = LogBuilder(SIZE)
    size = len(record(0, body=b""))
    for number, more in enumerate((0, 9, 0, 0)):
        log.add(body=b"", queueOffset=number, totalSize=size + more)
    log.add(body=b"", queueOffset=4)
    log.add_raw(b"\xda\xa3\x20\xa7" * 5)
    log.add(body=b"", queueOffset=5)
    log.add_raw(bytes(SIZE - len(log.data) % SIZE))
    log.add(body=b"", queueOffset=6)
    return log


def light() -> LogBuilder:
    log = LogBuilder(SIZE)
    for number in range(4):
        multi = {
            "INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b",
            "INNER_MULTI_QUEUE_OFFSET": f"{number},{2 * number}",
        }
        log.add(properties=properties({"UNIQ_KEY": "u"} | multi), body=b"", queueOffset=number)
    return log


def record_in_body() -> LogBuilder:
    """A body that holds a whole record with the right PHYSICALOFFSET for its place; then one with a wrong."""
    log = LogBuilder(SIZE)
    log.add(body=b"")
    inside = log.place + message.HEAD_SIZES[0]
    log.add(body=record(inside, body=b"", queueOffset=77, topic=b"Ghost"), queueOffset=1)
    log.add(body=record(5, body=b"", topic=b"Ghost"), queueOffset=2)
    log.add(body=b"", queueOffset=3)
    return log


def ghost_behind_blank() -> LogBuilder:
    """A true old record in what BLANK covers, as pooled buffers leave it."""
    log = LogBuilder(SIZE)
    log.add(body=b"")
    log.add(body=bytes(100), queueOffset=1)
    log.add(body=bytes(150), queueOffset=2)
    ghost_at = log.data.index(b"\xcb\xd4\x31\x94") + 4
    ghost = record(ghost_at, body=b"", topic=b"Ghost")
    log.data[ghost_at : ghost_at + len(ghost)] = ghost
    log.add(body=b"", queueOffset=3)
    return log


def batches() -> LogBuilder:
    log = LogBuilder(SIZE)
    for number in range(4):
        inner = properties({"INNER_NUM": "3", "INNER_BASE": str(3 * number)})
        log.add(topic=BATCH_TOPIC.encode(), properties=inner, body=b"", queueOffset=3 * number)
    return log


def longer_than_they_say() -> LogBuilder:
    """Parts longer than TOTALSIZE: before any longer record, after one, and at the start of a file."""
    log = LogBuilder(SIZE)
    short: dict[str, Any] = {"topic": b"T" * 40, "totalSize": 20}
    long: dict[str, Any] = {"topic": b"T" * 50}
    files: list[list[dict[str, Any]]] = [[short], [long, {}], [short, {}, short | {"totalSize": 0}, {}], [{}]]
    for number, records in enumerate(files):
        for fields in records:
            log.add(body=b"", queueOffset=number, **fields)
        log.add_raw(bytes(SIZE - len(log.data) % SIZE))
    for fields in (long, short, {}):
        log.add(body=b"", queueOffset=9, **fields)
    return log


LOGS = {
    "plain": (plain, POLICY_4_9),
    "damaged": (damaged, POLICY_4_9),
    "damaged-5": (damaged, POLICY_5),
    "longer than they say": (longer_than_they_say, POLICY_5_5),
    "light": (light, POLICY_5),
    "ext": (plain, POLICY_5._replace(ext=True)),
    "record in a body": (record_in_body, POLICY_5),
    "ghost after BLANK": (ghost_behind_blank, POLICY_5),
    "batches": (batches, POLICY_5._replace(batch_topics=frozenset({BATCH_TOPIC}))),
}
by_log = pytest.mark.parametrize(
    ("log", "policy"), [(make(), policy) for make, policy in LOGS.values()], ids=LOGS
)


def placed(
    reports: list[SplitReport], log: FileQueue, policy: DispatchPolicy, handle: StagingHandle
) -> Streams:
    """Follow the chain through scanned splits; return the streams of units and entries, and the way."""
    splits = [report.split for report in reports]
    scan: LogPass[ScanJob, SplitReport]
    scan = LogPass(InlineEngine(), ScanJob(policy, handle), splits, read_split)
    scan.results = reports
    chain = follow(log, SIZE, 1 << 62, scan)
    blocks = [report.block for report in chain.reports]
    queues: dict[tuple[str, int], list[Any]] = {}
    for plan in plan_queues(blocks, policy, handle):
        units = units_of(plan, blocks)
        more = ["store_timestamps", "batch_sizes"] if policy.wide else []
        columns = [units.column(name).tolist() for name in ("queue_offsets", "units", *more)]
        queues[plan.topic, plan.queue_id] = list(zip(*columns, strict=True))
    entries = [entry for block in blocks for entry in block.read("entries").tolist()]
    return (
        queues,
        entries,
        chain.skips,
        chain.end,
        chain.stop,
        sum(report.messages for report in chain.reports),
    )


@pytest.mark.few(1)
@by_log
def test_a_cut_anywhere(log: LogBuilder, policy: DispatchPolicy) -> None:
    """Two splits in place of one give the same units, entries and way, wherever the cut is."""
    whole = memory_log(log.files())
    with staging() as handle:

        def scanned(segment: Segment, start: int, stop: int) -> SplitReport:
            return read_split(SplitTask(ScanJob(policy, handle), Split(segment, start, stop)))

        uncut = [scanned(one, one.start, one.stop) for one in whole]
        expected = placed(uncut, whole, policy, handle)
        assert expected[5] >= 4
        for number, segment in enumerate(whole):
            for cut in _cuts(log, segment):
                two = [scanned(segment, segment.start, cut), scanned(segment, cut, segment.stop)]
                reports = uncut[:number] + two + uncut[number + 1 :]
                assert placed(reports, whole, policy, handle) == expected, cut


def _cuts(log: LogBuilder, segment: Segment) -> list[int]:
    """Return every third place inside a segment, of the zeros after the log's end only some.

    Fields are 1, 2, 4 or 8 bytes long, and records of any length: cuts fall on every byte of each kind.
    """
    end = min(segment.stop, log.place + 20)
    return [*range(segment.start + 1, end, 3), *range(end, segment.stop, 50)]


@pytest.mark.few(5)
@by_log
@pytest.mark.parametrize("split_bytes", [3, 100, 191])
def test_whole_files_of_many_small_splits(log: LogBuilder, policy: DispatchPolicy, split_bytes: int) -> None:
    """The files are the same bytes with hundreds of splits, most of which hold no record's start."""
    sizes = Sizes(consumequeue=60, items=4)
    one = build(memory_log(log.files()), SIZE, policy, sizes=sizes)
    many = build(memory_log(log.files()), SIZE, policy, sizes=sizes, split_bytes=split_bytes)
    assert (many.queues, many.index, many.index_names) == (one.queues, one.index, one.index_names)
    assert many.result.chain.skips == one.result.chain.skips
    assert one.queues
    assert not any("Ghost" in name for name in one.queues)


@pytest.mark.parametrize("split_bytes", [100, 1 << 28])
@pytest.mark.parametrize("policy", [POLICY_5, POLICY_5_5], ids=["5.3.3", "5.5.1"])
def test_the_kept_array_goes_from_file_to_file(policy: DispatchPolicy, split_bytes: int) -> None:
    """A file that begins with a part longer than TOTALSIZE is read on after files of longer records."""
    log = longer_than_they_say()
    built = assert_as_the_model(log.files(), SIZE, policy, split_bytes=split_bytes)
    assert built.result.messages == (5 if policy is POLICY_5_5 else 4)


def test_splits_cover_the_log_without_overlap() -> None:
    log = memory_log(plain().files())
    for split_bytes in (1, 100, SIZE - 1, SIZE, SIZE + 1, 1 << 28):
        splits = plan_splits(log, 1 << 62, split_bytes)
        assert [split.start for split in splits] == [0, *(split.stop for split in splits[:-1])]
        assert splits[-1].stop == log.stop
        assert all(split.stop - split.start <= split_bytes for split in splits)
    assert [(one.start, one.stop) for one in plan_splits(log, 150, 100)] == [(0, 100), (100, 150)]


class Restless(ReadJob[Any]):
    """A job that every reading revises, as records of a hostile log can have it."""

    def __init__(self, readings: int = 1) -> None:
        self.readings = readings

    def walk(self, segment: Segment) -> Any:  # noqa: ANN401 - a `Walk`
        """Return nothing: there is no split."""

    def sink(self, split: Split, walk: Any) -> Any:  # noqa: ANN401 - a `Sink`
        """Return nothing: there is no split."""

    def revised(self, results: Sequence[object]) -> Restless:
        """Return another job."""
        return Restless(self.readings + 1)


def test_a_log_is_read_again_once() -> None:
    reading: LogPass[Restless, Any] = LogPass(InlineEngine(), Restless(), [], read_split)
    reading.run()
    assert reading.job.readings == 2


class Counting(InlineEngine):
    """An engine that counts how often it is given work."""

    calls = 0

    def map(self, *args: Any, **kwargs: Any) -> list[Any]:  # noqa: ANN401 - those of any engine
        """Count a call."""
        self.calls += 1
        return super().map(*args, **kwargs)


@pytest.mark.parametrize(("policy", "calls"), [(POLICY_4_9, 1), (POLICY_5, 2)], ids=["4.9.8", "5.3.3"])
def test_inner_batches_have_a_log_read_again_where_there_are_batch_queues(
    policy: DispatchPolicy, calls: int
) -> None:
    """Brokers before 5.0.0 have none: a second reading would find what the first one did."""
    log = LogBuilder(1 << 12)
    inner = properties({"INNER_NUM": "3", "INNER_BASE": "0"})
    log.add(topic=b"Unlisted", properties=inner, sysFlag=0x80)
    engine = Counting()
    read_copy(memory_log(log.files()), policy, engine)
    assert engine.calls == calls
