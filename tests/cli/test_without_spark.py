"""A small installation: Spark is an extra, and what does not need it does without."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from rmqtool.engine import choice
from tests.cli.conftest import STORES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runs import Run

STORE = STORES / "plain-5.3.3"


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "find_spec", lambda name: name != "pyspark" or None)


@pytest.mark.spark
def test_it_is_found_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not choice.is_spark_installed()
    monkeypatch.setattr(choice, "find_spec", importlib.util.find_spec)
    assert choice.is_spark_installed()


@pytest.mark.parametrize("command", ["rebuild", "rebuild-index"])
def test_the_default_gives_way_with_one_line(run: Callable[..., Run], command: str) -> None:
    found = run(command, STORE, "--compare", "--format", "json")
    assert found.status == 0
    said = [line for line in found.err.splitlines() if "Spark" in line]
    assert said == ["Spark is not installed (pip install 'rmqtool[spark]'): this runs as with --engine local"]
    assert '"engine": "local"' in found.out


def test_who_asks_for_threads_hears_nothing_of_spark(run: Callable[..., Run]) -> None:
    found = run("rebuild", STORE, "--compare", "--engine", "local")
    assert found.status == 0
    assert "Spark" not in found.err


@pytest.mark.parametrize(
    "words",
    [
        ("rebuild", STORE, "--compare", "--engine", "spark"),
        ("rebuild", STORE, "--compare", "--master", "local[2]"),
        ("rebuild", STORE, "--compare", "--spark-conf", "spark.app.name=x"),
        ("verify", STORE, "--engine", "spark"),
    ],
    ids=lambda words: " ".join(map(str, (words[0], *words[2:]))),
)
def test_who_asks_for_spark_is_told_how_to_get_it(run: Callable[..., Run], words: tuple[object, ...]) -> None:
    found = run(*words)
    assert (found.status, found.out) == (3, "")
    assert found.err.splitlines() == [
        "error: Spark is not installed: pip install 'rmqtool[spark]' adds it; --engine local needs none"
    ]
