"""A baseline knows findings by place; what it cannot know for certain fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rmqtool.commands.verify import Baseline, identity, load_baseline
from rmqtool.errors import EnvironmentFailureError, ExitStatus, UsageError
from rmqtool.findings import Finding, FindingLog, Severity, codes
from rmqtool.projection import json_object

if TYPE_CHECKING:
    from pathlib import Path


def at(position: int, message: str = "") -> Finding:
    return Finding(
        code=codes.CL_CRC, file="commitlog/00000000000000000000", position=position, message=message
    )


def log_of(*findings: Finding, cap: int = 100) -> FindingLog:
    log = FindingLog(cap)
    log.extend(findings)
    return log


def baseline_of(*findings: Finding, counted: int | None = None) -> Baseline:
    baseline = Baseline()
    for finding in findings:
        baseline.listed[identity(json_object(finding))] += 1
    baseline.counts["CL-CRC"] = len(findings) if counted is None else counted
    return baseline


def summary(counts: dict[str, int]) -> str:
    return json.dumps({"type": "summary", "schema": "rmqtool.verify/1", "counts": counts})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "baseline"


def test_known_findings_do_not_fail() -> None:
    comparison = baseline_of(at(1), at(2)).compare(log_of(at(1, "worded otherwise"), at(2)))
    assert comparison.known == (True, True)
    assert comparison.new.exit_status() is ExitStatus.CLEAN
    assert (comparison.known_count, comparison.gone) == (2, 0)


@pytest.mark.parametrize(
    "other",
    [
        at(3),
        Finding(code=codes.CQ_MISSING_MSG, topic="T", queue_id=0, queue_offset=1),
        Finding(code=codes.CL_CRC, file="commitlog/00000000000000008192", position=1),
    ],
)
def test_another_place_or_code_is_new(other: Finding) -> None:
    comparison = baseline_of(at(1)).compare(log_of(at(1), other))
    assert comparison.known == (True, False)
    assert list(comparison.new) == [other]
    assert comparison.new.exit_status() is not ExitStatus.CLEAN


def test_the_same_place_twice_is_known_once() -> None:
    comparison = baseline_of(at(1)).compare(log_of(at(1), at(1)))
    assert comparison.known == (True, False)
    assert comparison.new.counts == {"CL-CRC": 1}


def test_what_was_repaired_is_gone() -> None:
    assert baseline_of(at(1), at(2)).compare(log_of(at(2))).gone == 1


def test_findings_beyond_the_cap_are_new_and_weigh_as_much_as_the_listed_ones() -> None:
    comparison = baseline_of(at(1)).compare(log_of(at(1), at(2), at(3), cap=1))
    assert comparison.known == (True,)
    assert comparison.new.counts == {"CL-CRC": 2}
    assert comparison.new.exit_status() is ExitStatus.LOG_DAMAGED
    assert comparison.known_count == 1


def test_findings_that_the_baseline_only_counts_are_known_by_number() -> None:
    comparison = baseline_of(at(1), counted=3).compare(log_of(at(1), at(2), at(3), cap=1))
    assert comparison.by_number == {"CL-CRC": 2}
    assert comparison.new.exit_status() is ExitStatus.CLEAN


def test_one_more_than_the_number_fails() -> None:
    comparison = baseline_of(at(1), counted=3).compare(log_of(*map(at, range(1, 5)), cap=1))
    assert comparison.new.counts == {"CL-CRC": 3}
    assert comparison.new.exit_status() is ExitStatus.LOG_DAMAGED


def test_severity_of_the_finding_decides_not_that_of_the_code() -> None:
    harmless = Finding(code=codes.CL_CRC, position=9, severity_override=Severity.WARNING)
    assert Baseline().compare(log_of(harmless)).new.exit_status() is ExitStatus.CLEAN


def test_largest_is_the_room_that_known_findings_need() -> None:
    assert Baseline().largest == 0
    assert baseline_of(at(1), at(1), at(2)).largest == 3


def test_json_and_ndjson_of_a_run_are_read(file: Path) -> None:
    findings = [json_object(at(1)), json_object(Finding(code=codes.ST_ABORT, file="abort"))]
    counts = {"CL-CRC": 5, "ST-ABORT": 1}
    file.write_text(json.dumps({"schema": "rmqtool.verify/1", "findings": findings, "counts": counts}))
    from_json = load_baseline(file)
    lines = [*map(json.dumps, findings), json.dumps({"type": "prediction"}), summary(counts)]
    file.write_text("\n".join(lines) + "\n")
    from_ndjson = load_baseline(file)
    assert from_json == from_ndjson
    assert from_json.counts == counts
    assert from_json.listed.total() == 2


def test_one_line_of_ndjson_is_no_document(file: Path) -> None:
    file.write_text(summary({}) + "\n")
    assert load_baseline(file) == Baseline()
    file.write_text(json.dumps(json_object(at(1))))
    assert load_baseline(file).listed.total() == 1


def test_findings_without_a_summary_are_all_there_are(file: Path) -> None:
    """As after ``grep CL-CRC``: nothing is known by number."""
    file.write_text("".join(json.dumps(json_object(at(position))) + "\n" for position in (1, 2)))
    assert load_baseline(file).counts == {"CL-CRC": 2}


def test_empty_file_knows_nothing(file: Path) -> None:
    file.write_text("")
    assert load_baseline(file) == Baseline()


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        "3",
        '{"type": "message"}',
        '{"type": "finding", "code": "CL-NOTHING"}',
        '{"type": "finding"}',
        '{"type": "finding", "code": ["CL-CRC"]}',
        '{"counts": {"CL-CRC": "many"}}',
        '{"counts": {}, "findings": 7}',
        '{"counts": {}, "findings": [7]}',
        '{"type": "finding", "code": "CL-CRC", "position": [1]}',
        '{"stores": [{"counts": {}}, {"counts": {}}]}',
        '{"stores": 1}',
        "[" * 100_000,
        "\x00\xff",
    ],
    ids=lambda text: text[:40],
)
def test_anything_else_is_a_usage_error_that_names_the_file(file: Path, text: str) -> None:
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match="baseline: no baseline"):
        load_baseline(file)


def test_file_that_is_not_there(file: Path) -> None:
    with pytest.raises(EnvironmentFailureError, match="cannot be read"):
        load_baseline(file)
