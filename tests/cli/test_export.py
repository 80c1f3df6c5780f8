"""``rmqtool export`` as a user calls it; what the files hold is in ``tests/columns``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema
import pytest

from tests.cli.conftest import STORES
from tests.house.schemas import schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

STORE = STORES / "plain-5.3.3"


@pytest.mark.full
def test_a_report_is_shown_and_kept(run: Callable[..., Run], tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = run("export", STORE, "--out", out, "--columns", "topic,body", "--partition-by", "day")
    assert found.status == 0
    assert "163 messages of" in found.out
    report = json.loads((out / "_export.json").read_text())
    jsonschema.validate(report, schema("export"))
    assert report["columns"] == ["topic", "body"]
    assert report["messages"] == sum(file["messages"] for file in report["files"]) == 163


@pytest.mark.full
def test_what_fits_nothing_is_status_1(run: Callable[..., Run], tmp_path: Path) -> None:
    found = run("export", STORE, "--out", tmp_path / "out", "--topic", "nothing")
    assert found.status == 1
    assert "0 messages of" in found.out
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["_export.json"]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("--columns", "topic,bodi"), 2, "did you mean body"),
        (("--columns", "topic", "--partition-by", "topic"), 2, "without a column"),
        (("--format", "xls"), 2, "xls"),
        (("--from-offset", "-1"), 2, "-1"),
    ],
)
def test_wrong_words(
    run: Callable[..., Run], tmp_path: Path, words: tuple[str, ...], status: int, told: str
) -> None:
    found = run("export", STORE, "--out", tmp_path / "out", *words)
    assert found.status == status
    assert told in found.err
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow(run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqtool.columns.find_spec", lambda _: None)
    found = run("export", STORE, "--out", tmp_path / "out")
    assert found.status == 3
    assert "pyarrow is not installed: pip install 'rmqtool[arrow]' adds it" in found.err


def test_a_store_without_log(run: Callable[..., Run], tmp_path: Path) -> None:
    found = run("export", STORE / "index", "--out", tmp_path / "out")
    assert found.status == 3
    assert "no commit log there to export" in found.err
