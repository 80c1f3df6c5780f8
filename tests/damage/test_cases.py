"""Every case of ``fixtures/damage``: verified once, and all that follows from it held against the store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.damage.cases import load_cases
from tests.damage.running import (
    codes,
    damaged_copy,
    first_of,
    foreseen_once,
    install_rebuilt,
    places_of,
    rebuild_differences,
    verified,
    with_manifest,
)
from tests.outcomes.following import assert_next_ends, assert_no_contradiction, assert_salvaged_as_foretold
from tests.recovery.states import is_not_predicted

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool import VerifyReport
    from tests.damage.cases import Case

CASES = load_cases()
ONE_OF_SEVERAL = re.compile(
    r"\b1 ((pre-blank|good|queue|index|deliver|ext) )?"
    r"(bytes|units|items|records|entries|offsets|messages|slots|queues|files|times)\b"
)


@pytest.mark.few(1, each="[A-Z]+(-[A-Z]+)*")
@pytest.mark.parametrize("case", CASES, ids=[f"{case.code}: {case.name}" for case in CASES])
def test_damage(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = damaged_copy(case, tmp_path)
    with foreseen_once():
        report = verified(root, case.properties)
        if not (case.manifest or is_not_predicted(case)):
            assert_no_contradiction(root, case, report.outcomes, capsys)
    if not (case.manifest or is_not_predicted(case)):
        out = assert_salvaged_as_foretold(root, case, report.outcomes, tmp_path / "salvaged")
        (again := tmp_path / "again").mkdir()
        changed = damaged_copy(case, again)
        assert_next_ends(changed, case, report.outcomes, out)
    assert_as_described(root, case, with_manifest(root, report) if case.manifest else report)


def assert_as_described(root: Path, case: Case, report: VerifyReport) -> None:
    """It has its code, its place and its exit status, and nothing is said that does not follow from it.

    What is left when the derived files are rebuilt is the log's own; another rebuild changes nothing.
    """
    assert codes(report) == (case.base_codes | {case.code, *case.also}) - {*case.gone}
    first = first_of(report, case.code, places_of(case.store))
    assert {key: first[key] for key in case.first} == case.first
    assert report.exit_status() == case.status
    assert [one.message for one in report.findings if ONE_OF_SEVERAL.search(one.message)] == []
    if case.no_rebuild:
        return
    rebuilt = install_rebuilt(root, case.properties)
    assert not (rebuilt.outcomes and report.outcomes) or rebuilt.outcomes == report.outcomes
    mended = verified(root, case.properties)
    assert codes(mended) - case.base_codes == set(case.rebuilt)
    assert mended.exit_status() == case.rebuilt_status
    assert rebuild_differences(root, case.properties) == []


def test_every_case_says_why() -> None:
    for case in CASES:
        assert case.why.endswith(".")
        assert case.name[0].islower() or case.name.split()[0] in {"KEYS", "TAGS", "BLANK"}


def test_names_are_unique() -> None:
    names = [(case.code, case.name) for case in CASES]
    assert len(names) == len(set(names))


def test_no_finding_of_an_error_is_left_where_the_log_is_sound() -> None:
    """Derived files can always be rebuilt: only damage of the log, or of other files, survives it."""
    for case in CASES:
        if case.status == 1 and case.code.startswith(("CQ-", "BQ-", "IX-")):
            assert case.rebuilt_status == 0, case.name
