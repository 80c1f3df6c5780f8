"""Folding of findings, and the exit status that they lead to."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import ExitStatus
from rmqtool.findings import CATALOG, FailOn, Finding, FindingLog, Severity, Structure, codes, exit_status
from rmqtool.projection import json_object

FINDINGS = st.builds(
    Finding,
    code=st.sampled_from(sorted(CATALOG.values(), key=lambda code: code.code)),
    position=st.integers(0, 9),
)


def test_json_has_every_field_and_null_for_the_absent() -> None:
    finding = Finding(code=codes.CL_CRC, file="commitlog/0", position=12, expected="aa", observed="bb")
    assert json_object(finding) == {
        "type": "finding",
        "code": "CL-CRC",
        "severity": "error",
        "file": "commitlog/0",
        "position": 12,
        "length": None,
        "topic": None,
        "queueId": None,
        "queueOffset": None,
        "physicalOffset": None,
        "expected": "aa",
        "observed": "bb",
        "message": codes.CL_CRC.title,
        "brokerEffect": codes.CL_CRC.broker_effect,
        "remedy": codes.CL_CRC.remedy,
    }


@pytest.mark.parametrize(
    ("found", "fail_on", "status"),
    [
        ([], "error", ExitStatus.CLEAN),
        ([codes.CL_TAIL_ZERO], "warning", ExitStatus.CLEAN),
        ([codes.CQ_MISPLACED], "error", ExitStatus.NEGATIVE),
        ([codes.CL_CRC], "error", ExitStatus.LOG_DAMAGED),
        ([codes.CQ_MISPLACED, codes.CL_CRC], "error", ExitStatus.LOG_DAMAGED),
        ([codes.CL_TAIL_DIRTY], "error", ExitStatus.CLEAN),
        ([codes.CL_TAIL_DIRTY], "warning", ExitStatus.LOG_DAMAGED),
        ([codes.CL_TAIL_DIRTY, codes.CQ_MISPLACED], "error", ExitStatus.NEGATIVE),
        ([codes.CL_CRC, codes.CQ_MISPLACED], "never", ExitStatus.CLEAN),
    ],
)
def test_exit_status(found: list, fail_on: str, status: ExitStatus) -> None:  # type: ignore[type-arg]
    assert exit_status([Finding(code=code) for code in found], fail_on) is status


def test_a_finding_can_count_for_another_structure_and_severity() -> None:
    """An unreadable range of the log is damage of the log."""
    finding = Finding(code=codes.IO_UNREADABLE, structure_override=Structure.COMMITLOG)
    assert exit_status([finding]) is ExitStatus.LOG_DAMAGED
    milder = Finding(code=codes.CL_CRC, severity_override=Severity.INFO)
    assert exit_status([milder]) is ExitStatus.CLEAN
    assert json_object(milder)["severity"] == "info"


def test_first_findings_are_kept_and_the_rest_counted() -> None:
    log = FindingLog(max_per_code=2)
    log.extend(Finding(code=codes.CL_CRC, position=position) for position in range(5))
    log.add(Finding(code=codes.CQ_MISPLACED), count=7)
    assert [finding.position for finding in log] == [0, 1, None]
    assert log.counts == {"CL-CRC": 5, "CQ-MISPLACED": 7}
    assert (log.suppressed("CL-CRC"), log.suppressed("CQ-MISPLACED"), len(log)) == (3, 6, 12)


def test_nothing_kept_still_fails() -> None:
    log = FindingLog(max_per_code=0)
    log.add(Finding(code=codes.CL_CRC))
    assert list(log) == []
    assert log.exit_status(FailOn.ERROR) is ExitStatus.LOG_DAMAGED
    assert log.exit_status(FailOn.NEVER) is ExitStatus.CLEAN


def test_a_count_of_zero_adds_nothing() -> None:
    log = FindingLog()
    log.add(Finding(code=codes.CL_CRC), count=0)
    assert not log.counts
    assert log.exit_status() is ExitStatus.CLEAN


@given(st.lists(FINDINGS), st.lists(FINDINGS), st.integers(0, 4))
def test_parts_merge_to_the_whole(first: list[Finding], second: list[Finding], cap: int) -> None:
    """What parallel tasks found, joined in order, is what one task would have found."""
    whole, one, two = (FindingLog(cap) for _ in range(3))
    whole.extend([*first, *second])
    one.extend(first)
    two.extend(second)
    one.merge(pickle.loads(pickle.dumps(two)))
    assert sorted(map(repr, one)) == sorted(map(repr, whole))
    assert one.counts == whole.counts
    for fail_on in FailOn:
        assert (
            one.exit_status(fail_on) == whole.exit_status(fail_on) == exit_status([*first, *second], fail_on)
        )


def test_findings_are_softened_whether_kept_or_counted() -> None:
    log = FindingLog(max_per_code=1)
    log.extend([Finding(code=codes.CL_CRC, position=1), Finding(code=codes.CL_CRC, position=2)])
    log.soften(codes.CL_CRC, Severity.WARNING)
    log.soften(codes.CQ_MISPLACED, Severity.INFO)  # of which there are none
    assert [finding.severity for finding in log] == [Severity.WARNING]
    assert log.counts == {"CL-CRC": 2}
    assert log.exit_status() is ExitStatus.CLEAN
    assert log.exit_status(FailOn.WARNING) is ExitStatus.LOG_DAMAGED


def test_one_finding_can_stand_for_all_of_a_code() -> None:
    """What was folded counts once, in the exit status too."""
    log = FindingLog(2)
    log.add(Finding(code=codes.CQ_MISPLACED), count=7)
    log.add(Finding(code=codes.CL_TAIL_ZERO))
    log.fold(codes.CQ_MISPLACED.code, Finding(code=codes.CQ_MISPLACED, severity_override=Severity.WARNING))
    assert log.counts == {codes.CQ_MISPLACED.code: 1, codes.CL_TAIL_ZERO.code: 1}
    assert len(log) == 2
    assert log.exit_status() == ExitStatus.CLEAN
    assert log.exit_status(FailOn.WARNING) == ExitStatus.NEGATIVE
