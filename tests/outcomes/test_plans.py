"""The plan of a salvage shows what verify foretells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.damage.edits import edited
from tests.runs import run_line
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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
