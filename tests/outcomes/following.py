"""What ``verify`` says of each action on a damaged store, held against what the action makes of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import rmqtool
from rmqtool.actions.foresight import foresee
from rmqtool.findings import FindingLog
from rmqtool.outcomes import Action, best, is_needed, outcome_of
from tests.runs import run_line

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from rmqtool import VerifyReport
    from rmqtool.outcomes import Outcome
    from tests.damage.cases import Case

_MOST_STEPS = 4
_WILL = re.compile(r"\bwill start\b|\bit starts\b")
_WILL_NOT = re.compile(r"will not start|stops (the|a) start|does not start|refuses to start|it refuses")


def opened(root: Path, case: Case) -> rmqtool.Store:
    """Open a store by its ``broker.conf``, and by the settings of a case."""
    return rmqtool.open(root, broker_conf=_conf(root), properties=case.properties)


def assert_no_contradiction(
    root: Path, case: Case, outcomes: tuple[Outcome, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is said of a start, in the first line, the findings and the table, is one and the same."""
    given = [word for text in case.properties for word in ("-p", text)]
    conf = _conf(root)
    words = ["verify", root, *given, *(("-c", conf) if conf else ()), "--predict-recovery"]
    findings = run_line(capsys, *words, "--format", "json").document["findings"]
    verdict = run_line(capsys, *words).out.partition("\n")[0]
    assert not (_WILL.search(verdict) and _WILL_NOT.search(verdict)), verdict
    for start in (outcome for outcome in outcomes if outcome.action == "start"):
        against = _WILL_NOT if start.starts else _WILL
        sentences = [verdict, *(finding["message"] for finding in findings)]
        assert [text for text in sentences if against.search(text)] == []
        codes = {finding["code"] for finding in findings}
        assert ("NS-REFUSED" in codes) is not start.starts
        if start.wrong_now or start.unserved:
            assert "NS-WRONG" in codes
    is_left = any(outcome.refused is None and (outcome.served or not outcome.lost) for outcome in outcomes)
    assert len([outcome for outcome in outcomes if outcome.recommended]) == is_left


def assert_salvaged_as_foretold(
    root: Path, case: Case, outcomes: tuple[Outcome, ...], out: Path
) -> Path | None:
    """What is foretold of a salvage is what the salvaged store then has; return it if there is one."""
    row = outcome_of(outcomes, Action.SALVAGE)
    if row is None or row.refused is not None:
        return None
    store = opened(root, case)
    report = store.salvage(out, jobs=1)
    lost = report.lost
    assert (row.lost, row.placeholders) == (lost.proven + lost.damaged + lost.undecided, lost.placed)
    made = rmqtool.open(out, broker_conf=_conf(root), properties=case.properties)
    start = foresee(made.files, store.files.settings.release, FindingLog(), is_suspect=True)[0]
    assert (start.starts, start.lost) == (row.starts, 0)
    assert {*row.forgets} == {*start.forgets}
    if row.starts:
        served = (start.served or 0) - row.placeholders
        assert (row.served, row.wrong, row.unserved) == (served, start.wrong, start.unserved)
    return out


def assert_next_ends(root: Path, case: Case, outcomes: tuple[Outcome, ...], salvaged: Path | None) -> None:
    """Next, followed to its end, never comes back to the same advice; ``root`` is changed."""
    seen: list[Action] = []
    while len(seen) < _MOST_STEPS:
        chosen = best(outcomes)
        if chosen is None or not is_needed(outcomes) or chosen.action in {Action.START, Action.SETTING}:
            break
        assert chosen.action not in seen, f"{chosen.action} again"
        seen.append(chosen.action)
        if chosen.action is Action.REPAIR:
            assert _repaired(root, case) == "done"
        elif chosen.action is Action.SALVAGE:
            if seen == [Action.SALVAGE] and salvaged is not None:
                root = salvaged
            else:
                with opened(root, case) as store:
                    store.salvage(root.with_name("last"), jobs=1)
                root = root.with_name("last")
        else:  # its text installs it: what it advises is that a start on it is best
            break
        outcomes = _verified(root, case).outcomes
    assert len(seen) < _MOST_STEPS


def _verified(root: Path, case: Case) -> VerifyReport:
    with opened(root, case) as store:
        return store.verify(jobs=1)


def _repaired(root: Path, case: Case) -> str:
    """Repair; where a choice is left to the caller, take the first that is offered."""
    with opened(root, case) as store:
        plan = store.repair(plan=True, jobs=1)
    config = {file.file.rpartition("/")[2]: file.choices[0].name for file in plan.configs if file.choices}
    with opened(root, case) as store:
        return store.repair(jobs=1, config=config).outcome


def _conf(root: Path) -> Path | None:
    conf = root / "broker.conf"
    return conf if conf.exists() else None
