"""What verify says of a start, in its first line, its findings and its table, is one and the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.damage.cases import load_cases
from tests.damage.running import damaged_copy
from tests.recovery.states import is_not_predicted
from tests.runs import run_line

if TYPE_CHECKING:
    from pathlib import Path

    from tests.damage.cases import Case

_CASES = [case for case in load_cases() if not is_not_predicted(case) and not case.manifest]
_WILL = re.compile(r"\bwill start\b|\bit starts\b")
_WILL_NOT = re.compile(r"will not start|stops (the|a) start|does not start|refuses to start|it refuses")


@pytest.mark.few(1, each="[A-Z]+(-[A-Z]+)*")
@pytest.mark.parametrize("case", _CASES, ids=[f"{case.code}: {case.name}" for case in _CASES])
def test_one_start_is_told_of(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = damaged_copy(case, tmp_path)
    with rmqtool.open(root, broker_conf=_conf(root), properties=case.properties) as store:
        outcomes = store.verify(jobs=1).outcomes
    given = [word for text in case.properties for word in ("-p", text)]
    conf = _conf(root)
    words = ["verify", root, *given, *(("-c", conf) if conf else ()), "--predict-recovery"]
    findings = run_line(capsys, *words, "--format", "json").document["findings"]
    verdict = run_line(capsys, *words).out.partition("\n")[0]
    assert not (_WILL.search(verdict) and _WILL_NOT.search(verdict)), verdict
    for start in (one for one in outcomes if one.action == "start"):
        against = _WILL_NOT if start.starts else _WILL
        assert [text for text in (verdict, *map(_message, findings)) if against.search(text)] == []
        told = {finding["code"] for finding in findings}
        assert ("NS-REFUSED" in told) is not start.starts
        if start.wrong or start.unserved:
            assert "NS-WRONG" in told
    assert len([one for one in outcomes if one.recommended]) == bool(outcomes)


def _message(finding: dict[str, str]) -> str:
    return finding["message"]


def _conf(root: Path) -> Path | None:
    conf = root / "broker.conf"
    return conf if conf.exists() else None
