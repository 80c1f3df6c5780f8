"""The check of a split: damage that the kernel passes is told as damage that Python steps over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.check.splits import CheckJob
from rmqtool.scan import gap_walk
from rmqtool.scan.log_pass import Split, SplitTask, read_split
from rmqtool.scan.walk import SegmentWalk
from tests.builders import POLICY_4_9, POLICY_5, memory_segment, staging
from tests.scan.log_builder import record
from tests.scan.walks import windows
from tests.strategies import examples, logs, patched, patches

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rmqtool.check.splits import RecordRun
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.scan.records import Gap
    from rmqtool.store.segments import Segment
    from tests.builders import LogBuilder

    Said = tuple[list[RecordRun | Gap], tuple[Any, ...]]


def said_of(data: bytes, start: int, policy: DispatchPolicy) -> Said:
    """Return what a check says of a file."""
    segment = memory_segment(data, start)
    with staging() as area:
        report = read_split(SplitTask(CheckJob(policy, area, 9), Split(segment, start, segment.stop)))
    ends = (
        report.records,
        report.outcome,
        report.log_offset,
        report.ghosts,
        report.more_gaps,
        report.more_steps,
    )
    return report.parts, (*ends, report.findings.counts, report.illegal_queues)


def said_step_by_step(data: bytes, start: int, policy: DispatchPolicy) -> Said:
    """Return what a check says whose walk ends at each damage."""

    def walk(segment: Segment, rules: npt.NDArray[np.int64], **_: bool) -> SegmentWalk:
        return SegmentWalk(segment, rules, stops_at_mismatch=True)

    with mock.patch.object(gap_walk, "SegmentWalk", walk):
        return said_of(data, start, policy)


@pytest.mark.full
@examples(60)
@given(
    logs(hostile=True, damage=True, lies=True, most=12),
    st.data(),
    st.sampled_from([POLICY_4_9, POLICY_5]),
    st.sampled_from([64, 300, 1 << 20]),
)
def test_damage_passed_in_the_kernel(
    log: LogBuilder, draw: st.DataObject, policy: DispatchPolicy, window: int
) -> None:
    """Runs, gaps, findings and the end are the same, whatever the window shows of a gap."""
    for start, whole in log.files().items():
        data = whole
        for _ in range(draw.draw(st.integers(0, 3))):
            data = patched(data, draw.draw(patches(len(data))))
        with windows(window, 1 << 20):
            assert said_of(data, start, policy) == said_step_by_step(data, start, policy)


def test_a_torn_log_is_checked_window_by_window() -> None:
    """Python is asked once for a window, not once for each damaged record."""
    data = b""
    for number in range(2000):
        data += record(len(data), magic=0x11) if number % 2 else record(len(data))
    with mock.patch.object(SegmentWalk, "find", autospec=True, side_effect=SegmentWalk.find) as find:
        parts, (records, *_) = said_of(data, 0, POLICY_5)
    assert (len(parts), records, find.call_count) == (2000, 1000, 1)
