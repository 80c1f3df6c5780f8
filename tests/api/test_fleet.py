"""``rmqtool.ask_stores``: any question, many stores, one engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.engine import Engine

PLAIN = fixture("plain-4.9.8")
OTHER = fixture("plain-5.3.3")


class _Loud:
    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.warnings: list[str] = []
        self.done: list[int] = []

    def stage(self, name: str, total_bytes: int | None) -> None:
        self.stages.append((name, total_bytes))

    def advance(self, done_bytes: int) -> None:
        self.done.append(done_bytes)

    def note(self, sentence: str) -> None:
        raise AssertionError(sentence)

    def warn(self, sentence: str) -> None:
        self.warnings.append(sentence)


def test_any_question_has_an_outcome_for_each_store(tmp_path: Path) -> None:
    met: list[str] = []

    def records(store: rmqtool.Store, engine: Engine) -> int:
        met.append(f"{store.path.name} {engine.name}")
        return sum(1 for _ in store)

    told = _Loud()
    found = rmqtool.ask_stores([OTHER, PLAIN, tmp_path / "none", OTHER], records, progress=told)
    assert [(one.report, int(one.status)) for one in found] == [(163, 0), (163, 0), (None, 3)]
    assert sorted(met) == ["plain-4.9.8 local", "plain-5.3.3 local"]
    assert found.summary.by_status == {"3": 1, "0": 2}
    assert told.stages == [("stores", found.summary.log_bytes)]
    assert told.done[-1] == found.summary.log_bytes
    assert found.worst_first[0].store.endswith("none")


def test_reports_decide_their_status_and_stores_are_closed() -> None:
    asked: list[rmqtool.Store] = []

    def broken(store: rmqtool.Store, engine: Engine) -> rmqtool.VerifyReport:
        asked.append(store)
        return store.verify(level=1, engine=engine)

    (found,) = rmqtool.ask_stores(str(fixture("plain-4.9.*")), broken)
    assert (found.status, found.report is not None and found.report.result) == (0, "clean")
    with pytest.raises(rmqtool.UsageError, match="closed"):
        asked[0].info()


def test_settings_that_make_no_sense_are_told_at_once() -> None:
    with pytest.raises(rmqtool.UsageError, match="noSuch"):
        rmqtool.ask_stores([PLAIN, OTHER], lambda store, _engine: store, properties=["noSuch=1"])
    with pytest.raises(rmqtool.UsageError, match="sometimes"):
        rmqtool.ask_stores(PLAIN, lambda store, _engine: store, fail_on="sometimes")


def test_no_store_is_no_report() -> None:
    assert len(rmqtool.ask_stores([], lambda store, _engine: store)) == 0
