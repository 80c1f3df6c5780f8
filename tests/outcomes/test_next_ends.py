"""Next, followed to its end, never comes back to the same advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.outcomes import Action, best, is_needed
from tests.damage.cases import load_cases
from tests.damage.running import damaged_copy
from tests.recovery.states import is_not_predicted

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool import VerifyReport
    from tests.damage.cases import Case

_CASES = [case for case in load_cases() if not is_not_predicted(case) and not case.manifest]
_MOST_STEPS = 4


def _opened(root: Path, case: Case) -> rmqtool.Store:
    conf = root / "broker.conf"
    return rmqtool.open(root, broker_conf=conf if conf.exists() else None, properties=case.properties)


def _verified(root: Path, case: Case) -> VerifyReport:
    with _opened(root, case) as store:
        return store.verify(jobs=1)


def _repaired(root: Path, case: Case) -> str:
    """Repair; where a choice is left to the caller, take the first that is offered."""
    with _opened(root, case) as store:
        plan = store.repair(plan=True, jobs=1)
    config = {one.file.rpartition("/")[2]: one.choices[0].name for one in plan.configs if one.choices}
    with _opened(root, case) as store:
        return store.repair(jobs=1, config=config).outcome


@pytest.mark.few(1, each="[A-Z]+(-[A-Z]+)*")
@pytest.mark.parametrize("case", _CASES, ids=[f"{case.code}: {case.name}" for case in _CASES])
def test_following_next_ends(case: Case, tmp_path: Path) -> None:
    root = damaged_copy(case, tmp_path)
    seen: list[Action] = []
    while len(seen) < _MOST_STEPS:
        outcomes = _verified(root, case).outcomes
        chosen = best(outcomes)
        if chosen is None or not is_needed(outcomes) or chosen.action in {Action.START, Action.SETTING}:
            break
        assert chosen.action not in seen, f"{chosen.action} again"
        seen.append(chosen.action)
        if chosen.action is Action.REPAIR:
            assert _repaired(root, case) == "done"
        elif chosen.action is Action.SALVAGE:
            with _opened(root, case) as store:
                store.salvage(tmp_path / "salvaged", jobs=1)
            root = tmp_path / "salvaged"
        else:  # its text installs it: what it advises is that a start on it is best
            break
    assert len(seen) < _MOST_STEPS
