"""The pipeline against the broker model: any log, any switches, any cutting into splits, every byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.dispatch.index_keys import TagItems
from tests.broker_model.reput import Sizes
from tests.builders import POLICY_4_9, POLICY_5, POLICY_5_5, LogBuilder, properties
from tests.reput.comparing import assert_as_the_model
from tests.strategies import BATCH_TOPIC, FILE_SIZE, examples, logs

if TYPE_CHECKING:
    from rmqtool.dispatch.policy import DispatchPolicy

split_sizes = st.one_of(st.just(1 << 28), st.integers(1, FILE_SIZE))
file_sizes = st.builds(
    Sizes,
    consumequeue=st.sampled_from([20, 60, 200]),
    ext=st.sampled_from([24, 44, 100, 103]),
    batch=st.sampled_from([46, 460]),
    slots=st.sampled_from([1, 3, 50]),
    items=st.sampled_from([2, 3, 7, 1000]),
)
tag_items = st.sets(st.integers(0, 3 * FILE_SIZE), max_size=3).map(
    lambda turns: TagItems(tuple(sorted(turns)))
)


@st.composite
def policies(draw: st.DrawFn) -> DispatchPolicy:
    policy = draw(st.sampled_from([POLICY_4_9, POLICY_5, POLICY_5_5]))
    is_5 = policy is not POLICY_4_9
    return policy._replace(
        multi_dispatch=draw(st.sampled_from([True, True, False])),
        lmq=draw(st.booleans()),
        ext=draw(st.booleans()),
        index_enabled=draw(st.sampled_from([True, True, False])),
        batch_topics=frozenset({BATCH_TOPIC}) if is_5 and draw(st.booleans()) else frozenset(),
        tag_items=draw(st.one_of(st.none(), st.none(), tag_items)),
    )


@pytest.mark.full
@examples(25)
@given(logs(most=10), policies(), file_sizes, split_sizes)
def test_ordinary_logs(log: LogBuilder, policy: DispatchPolicy, sizes: Sizes, split_bytes: int) -> None:
    """Well-formed messages of every kind become what a broker makes of them, in files of any size."""
    assert_as_the_model(log.files(), FILE_SIZE, policy, sizes=sizes, split_bytes=split_bytes)


@pytest.mark.full
@examples(25)
@given(logs(hostile=True, lies=True, most=8), policies(), file_sizes, split_sizes)
def test_hostile_logs(log: LogBuilder, policy: DispatchPolicy, sizes: Sizes, split_bytes: int) -> None:
    """Absurd offsets, times and numbers, and records that claim another place, do what Java does to them."""
    assert_as_the_model(log.files(), FILE_SIZE, policy, sizes=sizes, split_bytes=split_bytes)


@pytest.mark.full
@examples(25)
@given(logs(damage=True, lies=True, halves=True), split_sizes)
def test_damaged_logs_4_9(log: LogBuilder, split_bytes: int) -> None:
    """Over half records and rubbish the way is ``doReput``'s, with its two counters."""
    assert_as_the_model(log.files(), FILE_SIZE, POLICY_4_9, split_bytes=split_bytes)


@pytest.mark.full
@examples(25)
@given(logs(damage=True, lies=True, halves=True), split_sizes)
def test_damaged_logs_5(log: LogBuilder, split_bytes: int) -> None:
    assert_as_the_model(log.files(), FILE_SIZE, POLICY_5, split_bytes=split_bytes)


@pytest.mark.full
@examples(25)
@given(logs(damage=True, lies=True, halves=True), split_sizes)
def test_damaged_logs_5_5(log: LogBuilder, split_bytes: int) -> None:
    assert_as_the_model(log.files(), FILE_SIZE, POLICY_5_5, split_bytes=split_bytes)


def test_a_queue_of_inner_batches_takes_no_light_unit() -> None:
    """A broker takes each queue of the multi dispatch for a ``ConsumeQueue``; one of batches is none."""
    log = LogBuilder(FILE_SIZE)
    inner = properties({"INNER_BASE": "0", "INNER_NUM": "2"})
    log.add(topic=BATCH_TOPIC.encode(), properties=inner)
    log.add(
        topic=b"Plain",
        properties=properties({"INNER_MULTI_DISPATCH": BATCH_TOPIC, "INNER_MULTI_QUEUE_OFFSET": "2"}),
    )
    policy = POLICY_5_5._replace(batch_topics=frozenset({BATCH_TOPIC}))
    assert_as_the_model(log.files(), FILE_SIZE, policy)
