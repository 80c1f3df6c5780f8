"""Spark gives the findings of this process, in the same order: of every fixture, and of every code."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from rmqtool.actions.verification import verify
from rmqtool.check import VerifyRequest, stages
from rmqtool.engine import EngineOptions
from rmqtool.engine.choice import open_engine
from rmqtool.projection import json_object
from rmqtool.store import open_store
from tests.commands.rebuilding import Listener
from tests.damage.cases import one_of_each_code
from tests.damage.running import ONE_THREAD, damaged_copy
from tests.store.fixture_stores import NEWEST_ROOTS
from tests.strategies import campaign

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.engine import Engine
    from tests.damage.cases import Case

SPARK = EngineOptions("spark", master="local[2]")
CASES = [one_of_each_code()[number] for number in campaign(range(0, len(one_of_each_code()), 2), 2)]

pytestmark = [pytest.mark.spark, pytest.mark.matrix]


@pytest.fixture(scope="module")
def session() -> Iterator[Engine]:
    """Share one Spark session: a process can have only one, and it takes seconds to start."""
    with open_engine(SPARK) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _no_session_of_its_own(session: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(options: EngineOptions) -> object:
        return nullcontext(session) if options is SPARK else open_engine(options)

    monkeypatch.setattr(stages, "opened_engine", opened)


def _said(root: Path, properties: list[str], engine: EngineOptions) -> dict[str, object]:
    conf = root / "broker.conf"
    store = open_store(root, broker_conf=conf if conf.is_file() else None, properties=properties)
    return json_object(verify(VerifyRequest(store, engine=engine), Listener()))


@pytest.mark.parametrize("root", NEWEST_ROOTS, ids=lambda root: root.name)
def test_a_store_of_a_broker(root: Path) -> None:
    assert _said(root, [], SPARK) == _said(root, [], ONE_THREAD)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_damage(case: Case, tmp_path: Path) -> None:
    root = damaged_copy(case, tmp_path)
    here = _said(root, case.properties, ONE_THREAD)
    assert _said(root, case.properties, SPARK) == here
    assert here["findings"] or case.manifest
