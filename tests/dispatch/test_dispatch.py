"""Messages to units and entries: rules by name, growing tables, and queues whose names are one to Java."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.dispatch.policy import QueueTable
from rmqtool.formats import message
from rmqtool.javacompat import index_key_hash, string_hash
from rmqtool.kernels.queues import find_queue
from rmqtool.kernels.rows import UNIT_ROW, Trait
from rmqtool.kernels.units import RUN_ROW, measure_runs, order_by_queue
from rmqtool.reput import dispatcher
from rmqtool.reput.chain import ScanJob, SplitReport
from rmqtool.scan.log_pass import Split, SplitTask, read_split
from rmqtool.store.names import safe_component
from tests.broker_model.index import IndexService
from tests.broker_model.messages import Request
from tests.broker_model.reput import BrokerModel, Sizes
from tests.builders import POLICY_4_9, POLICY_5, POLICY_5_5, LogBuilder, memory_segment, properties, staging
from tests.dispatch.test_append import describe
from tests.scan.log_builder import STORE_TIMESTAMP_MS
from tests.strategies import BATCH_TOPIC, examples, logs

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.reput.blocks import Block

SIZE = 1 << 20
Units = dict[tuple[str, int], list[dict[str, int]]]


@pytest.fixture(params=[POLICY_4_9, POLICY_5, POLICY_5_5], ids=["4.9.8", "5.3.3", "5.5.1"])
def policy(request: pytest.FixtureRequest) -> DispatchPolicy:
    chosen: DispatchPolicy = request.param
    return chosen


def units_of(block: Block) -> Units:
    """Read a block's units by queue, all columns of them."""
    found: Units = {}
    names = block.read("names").tobytes()
    for run, key in zip(block.read("runs"), block.read("keys"), strict=True):
        first, count = int(run["first_row"]), int(run["count"])
        units = block.read("units", first, count)
        offsets: Int64s = np.arange(int(run["first_queue_offset"]), int(run["first_queue_offset"]) + count)
        if block.count("queue_offsets"):
            offsets = block.read("queue_offsets", first, count)
        topic = names[key["name_start"] : key["name_start"] + key["name_length"]].decode()
        found[topic, int(key["queue_id"])] = [
            {
                "queue_offset": int(offset),
                "physical_offset": int(unit["physicalOffset"]),
                "tags_code": int(unit["tagsCode"]),
            }
            for unit, offset in zip(units, offsets, strict=True)
        ]
    return found


def scanned(log: LogBuilder, policy: DispatchPolicy) -> tuple[SplitReport, Units, list[tuple[int, int]]]:
    """Scan a log of one file; return the report, the units and the entries' hashes and places."""
    with staging() as handle:
        segment = memory_segment(bytes(log.data), log.start)
        report = read_split(SplitTask(ScanJob(policy, handle), Split(segment, segment.start, segment.stop)))
        entries = report.block.read("entries")
        keys = list(zip(entries["key_hash"].tolist(), entries["physical_offset"].tolist(), strict=True))
        return report, units_of(report.block), keys


def one(policy: DispatchPolicy, **fields: Any) -> tuple[SplitReport, Units, list[tuple[int, int]]]:  # noqa: ANN401 - any field of the schema
    log = LogBuilder(SIZE)
    log.add(**fields)
    return scanned(log, policy)


def light(names: str, offsets: str) -> bytes:
    return properties({"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets})


def offsets_by_queue(units: Units) -> dict[tuple[str, int], list[int]]:
    return {queue: [unit["queue_offset"] for unit in rows] for queue, rows in units.items()}


# --- by chance ---


@pytest.mark.full
@examples(25)
@given(logs(hostile=True, lies=True, most=8), st.sampled_from([POLICY_4_9, POLICY_5, POLICY_5_5]))
def test_entries_are_what_the_index_service_puts(log: LogBuilder, policy: DispatchPolicy) -> None:
    """In order, with all transaction types, and none below the offset indexed before."""
    model = BrokerModel(policy, Sizes(items=100_000))
    model.reput(log.files(), log.file_size)
    expected = [(item[0], item[1]) for file in model.index.files for item in file.items]
    merged: list[tuple[int, int]] = []
    end = 0
    for start, data in log.files().items():
        part = LogBuilder(log.file_size, start, bytearray(data))
        report, _, keys = scanned(part, policy)
        merged += [key for key in keys if key[1] >= end]
        end = max(end, report.end_phy_offset)
        if report.stalled:
            break
    assert merged == expected


@pytest.mark.few(1)
@pytest.mark.parametrize("first_rows", [1, 2, 5])
def test_output_arrays_grow_as_they_must(first_rows: int, policy: DispatchPolicy) -> None:
    """Long messages and many of them find room whatever the arrays began with; nothing is put twice."""
    log = LogBuilder(SIZE)
    names = ",".join(f"%LMQ%{number}" for number in range(700))
    offsets = ",".join(["1"] * 700)
    keys = " ".join(f"k{number}" for number in range(900))
    for number in range(6):
        log.add(properties=light(names, offsets), queueOffset=number)
        log.add(properties=properties({"KEYS": keys, "UNIQ_KEY": "u"}), queueOffset=number, queueId=1)
        log.add(properties=b"", queueOffset=number, queueId=2)
    whole = scanned(log, policy)
    with mock.patch.object(dispatcher, "_FIRST_ROWS", first_rows):
        small = scanned(log, policy)
    assert small[1:] == whole[1:]
    assert (small[0].messages, len(small[2]), len(small[1])) == (18, 6 * 901, 703)


# --- by name ---


def test_transactions_decide_where_a_message_goes(policy: DispatchPolicy) -> None:
    """Prepared messages are indexed but have no unit; rolled back ones have neither."""
    outcomes = {
        name: tuple(map(len, one(policy, sysFlag=flag, properties=b"KEYS\x01k")[1:]))
        for name, flag in {
            "none": message.TRANSACTION_NONE,
            "prepared": message.TRANSACTION_PREPARED,
            "commit": message.TRANSACTION_COMMIT,
            "rollback": message.TRANSACTION_ROLLBACK,
        }.items()
    }
    assert outcomes == {"none": (1, 1), "prepared": (0, 1), "commit": (1, 1), "rollback": (0, 0)}


def test_keys_are_the_unique_one_and_then_the_others(policy: DispatchPolicy) -> None:
    _, _, keys = one(policy, properties=properties({"KEYS": " a  b\ta ", "UNIQ_KEY": "u"}))
    assert [key for key, _ in keys] == [index_key_hash("TopicTest", key) for key in ("u", "a", "b\ta")]


def test_a_hash_that_has_no_absolute_value_is_zero(policy: DispatchPolicy) -> None:
    _, _, keys = one(policy, properties=properties({"KEYS": "tbaekxa"}))
    assert keys == [(0, 0)]


@pytest.mark.parametrize(
    ("level", "expected"),
    [("1", 1000), ("18", 7_200_000), ("19", 7_200_000), ("2147483647", 7_200_000), ("0", None), ("-1", None)],
)
def test_delay_levels(policy: DispatchPolicy, level: str, expected: int | None) -> None:
    """The deliver time stands in for the tags code, in the schedule topic only; level 0 has none."""
    fields = {"properties": properties({"DELAY": level, "TAGS": "TagA"})}
    schedule = one(policy, topic=b"SCHEDULE_TOPIC_XXXX", **fields)[1]["SCHEDULE_TOPIC_XXXX", 0]
    other = one(policy, **fields)[1]["TopicTest", 0]
    tag = string_hash("TagA")
    assert [unit["tags_code"] for unit in other] == [tag]
    assert [unit["tags_code"] for unit in schedule] == [
        tag if expected is None else STORE_TIMESTAMP_MS + expected
    ]


def test_a_level_without_an_entry_waits_a_second(policy: DispatchPolicy) -> None:
    """``messageDelayLevel`` that was read to its third piece only, of which a fourth was malformed."""
    gap = policy._replace(delay_levels_ms={1: 5, 4: 7})
    fields = {"topic": b"SCHEDULE_TOPIC_XXXX", "properties": properties({"DELAY": "2"})}
    (unit,) = one(gap, **fields)[1]["SCHEDULE_TOPIC_XXXX", 0]
    assert unit["tags_code"] == STORE_TIMESTAMP_MS + 1000


@pytest.mark.parametrize(
    ("names", "offsets", "expected"),
    [
        ("%LMQ%a,%LMQ%b", "3,4", {"%LMQ%a": [3], "%LMQ%b": [4]}),
        ("%LMQ%a,%LMQ%a", "3,4", {"%LMQ%a": [3, 4]}),
        ("%LMQ%a,,", "3", {"%LMQ%a": [3]}),  # Java drops empty last pieces
        ("%LMQ%a", "3,,,", {"%LMQ%a": [3]}),
        ("%LMQ%a,%LMQ%b", "3", {}),
        ("%LMQ%a", "3,4", {}),
        (",%LMQ%a", "1,3", {"%LMQ%a": [3]}),  # an empty name is a piece, but no directory
        (",,", ",", {}),
        (" ", "x", {}),
        ("%LMQ%a", "\t", {}),
        ("\u3000\u2028", "x", {}),
        ("%LMQ%a", "-3", {"%LMQ%a": [-3]}),
        ("%LMQ%a", "+3", {"%LMQ%a": [3]}),
    ],
)
def test_light_queues(
    policy: DispatchPolicy, names: str, offsets: str, expected: dict[str, list[int]]
) -> None:
    """One unit a name at its offset, with queue id 0; nothing where the lists do not match or are blank."""
    report, units, _ = one(policy, properties=light(names, offsets), queueId=5, queueOffset=9)
    found = offsets_by_queue(units)
    assert found.pop(("TopicTest", 5)) == [9]
    assert found == {(name, 0): rows for name, rows in expected.items()}
    assert not report.stalled


def test_only_light_names_have_queue_id_0_and_only_with_lmq(policy: DispatchPolicy) -> None:
    fields = {"properties": light("%LMQ%a,other", "3,4"), "queueId": 5}
    with_lmq = offsets_by_queue(one(policy, **fields)[1])
    without = offsets_by_queue(one(policy._replace(lmq=False), **fields)[1])
    assert with_lmq == {("TopicTest", 5): [0], ("%LMQ%a", 0): [3], ("other", 5): [4]}
    assert without == {("TopicTest", 5): [0], ("%LMQ%a", 5): [3], ("other", 5): [4]}


def test_no_multi_dispatch_where_it_is_switched_off(policy: DispatchPolicy) -> None:
    off = policy._replace(multi_dispatch=False)
    assert set(one(off, properties=light("%LMQ%a", "x"))[1]) == {("TopicTest", 0)}


@pytest.mark.parametrize("topic", ["%RETRY%g", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX"])
def test_topics_without_multi_dispatch_in_5(topic: str) -> None:
    """5.1.1+ leaves them out; 4.9 does not."""
    fields = {"topic": topic.encode(), "properties": light("%LMQ%a", "3")}
    assert set(one(POLICY_5, **fields)[1]) == {(topic, 0)}
    assert set(one(POLICY_4_9, **fields)[1]) == {(topic, 0), ("%LMQ%a", 0)}


@pytest.mark.parametrize("topic", ["%DLQ%group", "SCHEDULE_TOPIC_XXXXX"])
def test_topics_of_nearly_such_names_have_it(policy: DispatchPolicy, topic: str) -> None:
    """5.5 assigns no offsets to dead letters; where a record has some, all brokers put its units."""
    fields = {"topic": topic.encode(), "properties": light("%LMQ%a", "3")}
    assert set(one(policy, **fields)[1]) == {(topic, 0), ("%LMQ%a", 0)}


def test_names_with_a_separator_are_passed_before_their_offset_is_read_in_5() -> None:
    """5.1.2+ skips them, so their offset may be anything; 4.9 fails on it."""
    fields = {"properties": light("a/b,%LMQ%a", "x,3")}
    report, units, _ = one(POLICY_5, **fields)
    assert (report.stalled, ("%LMQ%a", 0) in units) == (False, True)
    assert one(POLICY_4_9, **fields)[0].stalled


def test_an_offset_that_is_no_number_stalls(policy: DispatchPolicy) -> None:
    """Units put before it stay, the message is not indexed, and nothing after it is looked at."""
    log = LogBuilder(SIZE)
    log.add(queueOffset=0, properties=b"KEYS\x01k")
    at = log.add(queueOffset=1, properties=light("%LMQ%a,%LMQ%b,%LMQ%c", "3,4.0,5") + b"\x02KEYS\x01k")
    log.add(queueOffset=2, properties=b"KEYS\x01k")
    report, units, keys = scanned(log, policy)
    assert (report.stalled, report.log_offset, report.messages) == (True, at, 1)
    assert offsets_by_queue(units) == {("TopicTest", 0): [0, 1], ("%LMQ%a", 0): [3]}
    assert [place for _, place in keys] == [0]


def test_inner_batches_take_base_and_number_in_batch_queues_only() -> None:
    batch = POLICY_5._replace(batch_topics=frozenset({BATCH_TOPIC}))
    fields = {"properties": properties({"INNER_NUM": "3", "INNER_BASE": "7"}), "queueOffset": 1}
    assert offsets_by_queue(one(batch, topic=BATCH_TOPIC.encode(), **fields)[1]) == {(BATCH_TOPIC, 0): [7]}
    assert offsets_by_queue(one(batch, **fields)[1]) == {("TopicTest", 0): [1]}
    negative = {
        "properties": properties({"INNER_NUM": "-3", "INNER_BASE": "7"}),
        "topic": BATCH_TOPIC.encode(),
    }
    assert one(batch, **negative)[1] == {}


# --- queues ---


def test_malformed_names_that_java_reads_alike_are_one_queue(policy: DispatchPolicy) -> None:
    """Units of all spellings stand in one queue, in log order; keys hash alike, too."""
    log = LogBuilder(SIZE)
    spellings = [b"a\xff", b"a\x80", "a\ufffd".encode(), b"a\xed\xa0\x80", b"a\xff"]
    for number, topic in enumerate(spellings):
        log.add(topic=topic, queueOffset=number, properties=b"KEYS\x01k")
    _, units, keys = scanned(log, policy)
    assert offsets_by_queue(units) == {("a\ufffd", 0): [0, 1, 2, 3, 4]}
    assert {key for key, _ in keys} == {index_key_hash("a\ufffd", "k")}


def test_unsafe_topics_are_indexed_but_have_no_unit(policy: DispatchPolicy) -> None:
    report, units, keys = one(policy, topic=b"..", properties=b"KEYS\x01k", queueId=3)
    assert (units, len(keys), report.unsafe) == ({}, 1, [("..", 3)])


def test_a_choice_of_topics_is_as_if_the_others_were_not_there(policy: DispatchPolicy) -> None:
    log = LogBuilder(SIZE)
    for number, topic in enumerate((b"OrderA", b"Pay", b"OrderB")):
        log.add(topic=topic, properties=b"KEYS\x01k", storeTimestamp=STORE_TIMESTAMP_MS + number)
    some = policy._replace(topics=("Order*",), exclude_topics=("*B",))
    report, units, keys = scanned(log, some)
    assert (report.messages, set(units), len(keys)) == (1, {("OrderA", 0)}, 1)
    early = policy._replace(until_timestamp_ms=STORE_TIMESTAMP_MS + 1)
    assert set(scanned(log, early)[1]) == {("OrderA", 0), ("Pay", 0)}


def test_a_queue_table_finds_what_was_put_and_nothing_else() -> None:
    """Thousands of queues, ids of all signs, names that are each other's beginnings: numbers by arrival."""
    table = QueueTable(POLICY_5, safe_component)
    keys = [(b"T%d" % number, queue_id) for number in range(1500) for queue_id in (0, -1, 0x7FFFFFFF)]
    for number, key in enumerate(keys):
        table.add(*key)
        assert table.key(number) == key
    assert len(table) == len(keys)

    def find(name: bytes, queue_id: int) -> int:
        buffer = np.frombuffer(b"xx" + name + b"yy", np.uint8).copy()
        stop = 2 + len(name)
        return int(find_queue(buffer, 2, stop, queue_id, table.arrays))

    assert [find(*key) for key in keys[::7]] == list(range(len(keys)))[::7]
    assert [find(b"T", 0), find(b"T1", 1), find(b"T1500", 0), find(b"", 0)] == [-1] * 4


def test_traits_of_topics() -> None:
    policy = POLICY_5._replace(batch_topics=frozenset({"B"}), topics=("B", "S*"))
    assert policy.traits("B", unsafe=False) == Trait.BATCH
    assert policy.traits("SCHEDULE_TOPIC_XXXX", unsafe=False) == Trait.SCHEDULE | Trait.NO_MULTI_DISPATCH
    assert policy.traits("..", unsafe=True) == Trait.EXCLUDED | Trait.UNSAFE
    assert (policy.partial, policy.wide) == (True, True)
    assert (POLICY_5.partial, POLICY_5.wide) == (False, False)


# --- grouping ---


@examples(100)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(-2, 6), st.integers(0, 200), st.integers(1, 30)), max_size=40
    )
)
def test_grouping_keeps_the_order_and_describes_the_runs(rows: list[tuple[int, int, int, int]]) -> None:
    """Units by queue, each queue's in log order; a run says what its units look like."""
    units = np.zeros(len(rows), UNIT_ROW)
    for unit, (queue, queue_offset, physical_offset, size) in zip(units, rows, strict=True):
        unit["queue"], unit["queue_offset"] = queue, queue_offset
        unit["physical_offset"], unit["size"] = physical_offset, size
    queues = [4, 0, 2, 5, 1, 3]
    order, starts = order_by_queue(units, np.array(queues))
    assert order.tolist() == sorted(range(len(rows)), key=lambda number: queues.index(rows[number][0]))
    runs = np.zeros(6, RUN_ROW)
    count = measure_runs(units, order, starts, runs)
    parts = [[row[1:] for row in rows if row[0] == queue] for queue in queues]
    firsts = [sum(map(len, parts[:place])) for place in range(7)]
    assert starts.tolist() == firsts
    assert runs[:count].tolist() == [
        describe(part, firsts[place], place) for place, part in enumerate(parts) if part
    ]


def test_the_model_indexes_as_the_source_says() -> None:
    """The judge itself: the values of a real broker's file with a follow-up file, by hand."""
    service = IndexService(50, 3)
    for number, time in enumerate((1000, 3500, 6000)):
        request = Request("T", b"T", 0, 100 * number, 10, 0, time, number, 0, {"UNIQ_KEY": "u"})
        service.build(request)
    one_file, two = service.files
    assert [item[2] for item in one_file.items] == [0, 2]
    assert [item[2] for item in two.items] == [2]  # against the end of the file before
    assert (two.begin_timestamp, two.begin_phy) == (6000, 200)
