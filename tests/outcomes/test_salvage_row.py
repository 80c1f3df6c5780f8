"""What verify foretells of a salvage is what the salvaged store then has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.actions.foresight import foresee
from rmqtool.findings import FindingLog
from rmqtool.outcomes import Action, outcome_of
from tests.damage.cases import load_cases
from tests.damage.edits import edited
from tests.damage.running import damaged_copy
from tests.recovery.states import is_not_predicted
from tests.runs import run_line
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from tests.damage.cases import Case

_CASES = [case for case in load_cases() if not is_not_predicted(case) and not case.manifest]


@pytest.mark.few(1, each="CL-[A-Z]+(-[A-Z]+)*")
@pytest.mark.parametrize("case", _CASES, ids=[f"{case.code}: {case.name}" for case in _CASES])
def test_a_salvage_is_as_foretold(case: Case, tmp_path: Path) -> None:
    root = damaged_copy(case, tmp_path)
    conf = root / "broker.conf"
    given = conf if conf.exists() else None
    store = rmqtool.open(root, broker_conf=given, properties=case.properties)
    row = outcome_of(store.verify(jobs=1).outcomes, Action.SALVAGE)
    if row is None or row.refused is not None:
        return
    report = store.salvage(tmp_path / "out", jobs=1)
    lost = report.lost
    assert (row.lost, row.placeholders) == (lost.proven + lost.damaged + lost.undecided, lost.placed)
    made = rmqtool.open(tmp_path / "out", broker_conf=given, properties=case.properties)
    start = foresee(made.files, store.files.settings.release, FindingLog(), is_suspect=True)[0]
    assert (start.starts, start.lost) == (row.starts, 0)
    assert {*row.forgets} == {*start.forgets}
    if not row.starts:
        return
    served = (start.served or 0) - row.placeholders
    assert (row.served, row.wrong, row.unserved) == (served, start.wrong, start.unserved)


def test_a_plan_shows_what_verify_foretells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = fixture("plain-5.3.3")
    root = edited(source, tmp_path / "store", [{"record": 30, "field": "body", "flip": 1}])
    words = [root, "-c", source / "broker.conf", "--format", "json"]
    plan = run_line(capsys, "salvage", *words, "--plan", tmp_path / "plan.json").document
    verified = run_line(capsys, "verify", *words).document
    assert plan["outcomes"] == verified["outcomes"] != []
    shown = run_line(capsys, "salvage", *words[:3], "--plan", tmp_path / "again.json")
    assert "salvage *" in shown.out
    assert f"Next: rmqtool salvage {root} -c {source}/broker.conf --out {root}.salvaged" in shown.err
