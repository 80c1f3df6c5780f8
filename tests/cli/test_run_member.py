"""JSON documents say which run wrote them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from rmqtool import __version__
from rmqtool.report.output import RUNNING, without_secret
from tests.cli.conftest import STORES
from tests.schemas.validating import defects

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

    Runner = Callable[..., Run]

PLAIN = str(STORES / "plain-5.5.1")
OTHER = str(STORES / "plain-5.3.3")
LINES = {
    "info": ["info", PLAIN],
    "verify": ["verify", PLAIN, "--level", "0"],
    "fleet": ["verify", PLAIN, OTHER, "--level", "0"],
    "explain": ["explain", "CL-HOLE"],
    "dump": ["dump", PLAIN, "--limit", "1"],
    "query": ["query", PLAIN, "--topic", "TopicTest", "--begin", "2000-01-01", "--max", "1"],
    "diff": ["diff", PLAIN, PLAIN],
    "decode-id": ["decode-id", "7F00000100002A9F000000000000014E"],
    "rebuild": ["rebuild", PLAIN, "--dry-run", "--engine", "local"],
    "report": ["report", PLAIN],
}


@pytest.mark.parametrize("name", LINES)
def test_a_document_names_its_run(name: str, run: Runner) -> None:
    words = [*LINES[name], "--format", "json", "-q"]
    before = datetime.now(UTC)
    document = json.loads(run(*words).out)
    facts = document["run"]
    assert defects(name, document) == []
    assert (facts["version"], facts["arguments"]) == (__version__, words)
    begin, end = (datetime.fromisoformat(facts[moment]) for moment in ("begin", "end"))
    assert before - timedelta(seconds=1) <= begin.astimezone(UTC) <= end.astimezone(UTC)
    assert "exitStatus" in document or name == "explain"
    assert RUNNING.member == {}


def test_secrets_are_hidden(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("info", PLAIN, "--log-file", "accessKey=mine", "--format", "json")
    assert "accessKey=***" in json.loads(done.out)["run"]["arguments"]


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("spark.hadoop.fs.s3a.secret.key=mine", "spark.hadoop.fs.s3a.secret.key=***"),
        ("--spark-conf=spark.ssl.keyPassword=a=b\nc", "--spark-conf=spark.ssl.keyPassword=***"),
        ("spark.executor.memory=4g", "spark.executor.memory=4g"),
        ("/data/secret/store", "/data/secret/store"),
    ],
)
def test_the_value_of_a_secret_setting_is_hidden(word: str, shown: str) -> None:
    assert without_secret(word) == shown
