"""Placing: names of index files, cutting the stream of entries, messages that go backwards, sizes refused."""

from __future__ import annotations

from datetime import UTC
from itertools import pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import UsageError
from rmqtool.kernels.rows import ENTRY_ROW, KEYLESS_ROW
from rmqtool.reput.indexes import IndexNames, without_backward_messages
from tests.broker_model.reput import Sizes
from tests.builders import POLICY_4_9, POLICY_5, LogBuilder, build, memory_log, properties
from tests.reput.comparing import assert_as_the_model
from tests.scan.log_builder import STORE_TIMESTAMP_MS
from tests.strategies import BATCH_TOPIC, FILE_SIZE, examples

if TYPE_CHECKING:
    from rmqtool.dispatch.policy import DispatchPolicy

_LONGEST = (1 << 63) - 1


# --- names ---


@examples(200)
@given(
    st.lists(
        st.one_of(
            st.integers(-_LONGEST - 1, _LONGEST),
            st.integers(0, 10).map(lambda ms: 1_650_000_000_000 + ms),
            st.sampled_from([253402300799998, 253402300799999, 253402300800000, -62135596800000, 0, -1]),
        ),
        max_size=30,
    ),
    st.sampled_from(["UTC", "Asia/Shanghai", "Europe/Berlin"]),
)
def test_names_always_ascend(times: list[int], zone: str) -> None:
    """Whatever the store times say, names are 17 digits, and each sorts after the one before."""
    names = IndexNames(ZoneInfo(zone))
    found = [names.next(time) for time in times]
    assert all(len(name) == 17 and name.isdigit() for name in found)
    assert all(one < two for one, two in pairwise(found))


def test_a_name_is_the_time_in_the_brokers_zone() -> None:
    assert IndexNames(ZoneInfo("Asia/Shanghai")).next(1_650_000_000_123) == "20220415132000123"


def test_ties_and_steps_back_are_one_millisecond_on() -> None:
    """Over the end of a second, an hour, a year; and where summer time ends, an hour comes twice."""
    names = IndexNames(UTC)
    new_year = 1_640_995_200_000
    assert [names.next(new_year - 1) for _ in range(3)] == [
        "20211231235959999",
        "20220101000000000",
        "20220101000000001",
    ]
    assert names.next(new_year - 5000) == "20220101000000002"
    berlin = IndexNames(ZoneInfo("Europe/Berlin"))
    before_fall_back = 1_635_640_200_000  # 02:30 summer time
    assert berlin.next(before_fall_back) == "20211031023000000"
    assert berlin.next(before_fall_back + 1_800_000) == "20211031023000001"  # 02:00 winter time


# --- entries ---


@examples(200)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), max_size=25),
    st.integers(0, 60),
    st.integers(0, 25),
)
def test_messages_below_an_earlier_end_are_dropped_as_in_one_pass(
    messages: list[tuple[int, int]], end: int, cut: int
) -> None:
    """Filtering a split afterwards gives what one pass over both splits gives: entries and idle messages."""
    first, second = messages[:cut], messages[cut:]
    expected = one_pass(messages, 0)
    done = one_pass(first, 0)
    end = max((entry[0] for entry in done[0]), default=0)
    entries, keyless = rows_of(*one_pass(second, 0, start_time=len(first)))
    kept, moved = without_backward_messages(entries, keyless, end)
    merged = done[0] + [tuple(row) for row in kept[["physical_offset", "store_timestamp_ms"]].tolist()]
    assert merged == expected[0]
    later = {place + len(done[0]): time for place, time in moved.tolist()}
    assert expected[1] == dict(sorted({**later, **done[1]}.items()))


def one_pass(
    messages: list[tuple[int, int]], end: int, start_time: int = 0
) -> tuple[list[tuple[int, int]], dict[int, int]]:
    """Index messages of (physical offset, number of keys); times are their numbers.

    Returns:
        Entries, and by the entries before it the first message that put none.
    """
    entries: list[tuple[int, int]] = []
    keyless: dict[int, int] = {}
    for time, (physical_offset, keys) in enumerate(messages, start_time):
        if physical_offset >= end and keys:
            entries += [(physical_offset, time)] * keys
            end = physical_offset
        else:
            keyless.setdefault(len(entries), time)
    return entries, keyless


def rows_of(
    entries: list[tuple[int, int]], keyless: dict[int, int]
) -> tuple[np.ndarray[tuple[int], np.dtype[np.void]], np.ndarray[tuple[int], np.dtype[np.void]]]:
    entry_rows, idle_rows = np.zeros(len(entries), ENTRY_ROW), np.zeros(len(keyless), KEYLESS_ROW)
    for row, (physical_offset, time) in zip(entry_rows, entries, strict=True):
        row["physical_offset"], row["store_timestamp_ms"] = physical_offset, time
    for row, (before, time) in zip(idle_rows, keyless.items(), strict=True):
        row["entries_before"], row["store_timestamp_ms"] = before, time
    return entry_rows, idle_rows


@examples(60)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.sampled_from([0, 0, 0, 12]), st.sampled_from([None, None, None, 0, 300])
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(2, 6),
    st.sampled_from([1 << 28, 100, 333]),
    st.sampled_from([POLICY_4_9, POLICY_5]),
)
def test_index_files_row_by_row(
    rows: list[tuple[int, int, int | None]], items: int, split_bytes: int, policy: DispatchPolicy
) -> None:
    """Files that fill in the middle of a message, last files that nothing fills, log offsets that go back."""
    log = LogBuilder(FILE_SIZE)
    for number, (keys, transaction, claimed) in enumerate(rows):
        text = " ".join(f"k{key}" for key in range(keys))
        lie = {} if claimed is None else {"physicalOffset": claimed}
        log.add(
            properties=properties({"KEYS": text}) if text else b"",
            sysFlag=transaction,
            queueOffset=number,
            storeTimestamp=STORE_TIMESTAMP_MS + 700 * number,
            **lie,
        )
    sizes = Sizes(items=items, slots=3)
    assert_as_the_model(log.files(), FILE_SIZE, policy, sizes=sizes, split_bytes=split_bytes)


def test_index_files_are_named_by_the_message_that_made_the_broker_create_them() -> None:
    """That is the first message dispatched when the last file is full, with or without keys of its own."""
    log = LogBuilder(FILE_SIZE)
    for second, keys in enumerate(("a b", "", "c", "d e f")):
        fields = {"properties": properties({"KEYS": keys}) if keys else b""}
        log.add(storeTimestamp=STORE_TIMESTAMP_MS + 1000 * second, queueOffset=second, **fields)
    built = build(memory_log(log.files()), FILE_SIZE, POLICY_5, sizes=Sizes(items=3))
    # a b | c (created by the message without keys) d | e f; nothing came to create the next one
    assert [name[-5:] for name in built.index_names] == ["00000", "01000", "03000"]


def test_a_file_that_was_created_and_never_used() -> None:
    """Its header holds where the file before ended; indexCount is 1 where a 5.x stopped cleanly, else 0."""
    log = LogBuilder(FILE_SIZE)
    log.add(properties=b"KEYS\x01a b")
    log.add(properties=b"", queueOffset=1)
    counts = {}
    for policy in (POLICY_4_9, POLICY_5):
        built = assert_as_the_model(log.files(), FILE_SIZE, policy, sizes=Sizes(items=3))
        counts[policy.release.name] = int.from_bytes(built.index[1][36:40], "big")
    assert counts == {"4.9.8": 0, "5.3.3": 1}


# --- sizes ---


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        (Sizes(items=1), "maxIndexNum"),
        (Sizes(ext=23), "mappedFileSizeConsumeQueueExt"),
        (Sizes(batch=45), "mapperFileSizeBatchConsumeQueue"),
        (Sizes(batch=47), "mapperFileSizeBatchConsumeQueue"),
    ],
)
def test_sizes_that_hold_nothing_are_refused(sizes: Sizes, name: str) -> None:
    """They would make files without end, or cut units in two."""
    log = LogBuilder(FILE_SIZE)
    log.add()
    log.add(topic=BATCH_TOPIC.encode())
    policy = POLICY_5._replace(ext=True, batch_topics=frozenset({BATCH_TOPIC}))
    with pytest.raises(UsageError, match=name):
        build(memory_log(log.files()), FILE_SIZE, policy, sizes=sizes)
