"""Many stores: small ones in this process or in workers, large ones with the whole engine."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import pytest

from rmqtool.commands import fleet
from rmqtool.commands.fleet import FleetMember, FleetReport, StoreOutcome, ask_members, gathered
from rmqtool.engine import Engine, EngineOptions, LocalEngine
from rmqtool.errors import EnvironmentFailureError, ExitStatus
from rmqtool.progress import LimitedProgress, NullProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rmqtool.progress import Progress

SMALL, LARGE = 10, 1000
CLUSTER = "spark://host:7077"


@dataclass
class Stored:
    """A store of so many bytes."""

    path: str
    is_open: bool = True

    def close(self) -> None:
        self.is_open = False


def opened(path: str) -> Stored:
    if path.endswith("bad"):
        raise EnvironmentFailureError(f"{path}: is no store")
    return Stored(path)


def size(store: Stored) -> int:
    return LARGE if store.path.endswith("large") else SMALL


def question(store: Stored, engine: Engine, progress: Progress) -> tuple[str, ExitStatus]:
    assert store.is_open
    name = store.path.rpartition("/")[2]
    progress.stage(name, None)
    if name == "stop":
        raise KeyboardInterrupt
    if name == "dies" and os.getpid() != int(os.environ["PYTEST_ASKER"]):
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "odd":
        raise SystemError("fspath returned a result with an exception set") from KeyboardInterrupt()
    if name == "warns":
        progress.warn("mind the gap")
    return f"{engine.name} {engine.options.jobs}", ExitStatus.CLEAN


@dataclass
class Tasks(Engine):
    """An engine of other processes, which counts its jobs."""

    options: EngineOptions = field(default_factory=lambda: EngineOptions("spark", jobs=7, master="local[7]"))
    name: str = "spark"
    maps: list[int] = field(default_factory=list)

    def map(
        self,
        function: Callable[[Any], Any],
        items: Sequence[Any],
        progress: Callable[[int], None] | None = None,
    ) -> list[Any]:
        self.maps.append(len(items))
        return [function(item) for item in items]

    def close(self) -> None:
        """Have nothing to give back."""

    def __enter__(self) -> Self:
        return self


class Told(NullProgress):
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.done: list[int] = []
        self.warnings: list[str] = []

    def stage(self, name: str, total_bytes: int | None) -> None:
        self.stages.append(name)

    def advance(self, done_bytes: int) -> None:
        self.done.append(done_bytes)

    def warn(self, sentence: str) -> None:
        self.warnings.append(sentence)


@pytest.fixture
def members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[FleetMember[Stored]]]:
    monkeypatch.setattr(fleet, "_SMALL_BYTES", 2 * SMALL)
    return lambda *names: gathered([f"{tmp_path}/{name}" for name in names], opened, size)


def reports(found: FleetReport[str]) -> list[str | None]:
    return [one.report for one in found]


def test_large_stores_get_the_engine_and_small_ones_a_thread(members: Callable[..., Any]) -> None:
    told = Told()
    stores = members("a", "large", "bad", "b")
    with LocalEngine(3) as engine:
        found = ask_members(stores, question, engine, told)
    assert reports(found) == ["local 1", "local 3", None, "local 1"]
    assert told.stages == ["stores", "large", "stores"]  # those of small ones would only flicker
    assert told.done[-1] == LARGE + 2 * SMALL
    assert not any(one.store.is_open for one in stores if one.store is not None)


@pytest.fixture
def cheap_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two workers pay behind the first small store."""

    def workers_for(_asking: object, answered: Sequence[int], left: int) -> int:
        return min(2, left) if answered else 0

    monkeypatch.setattr(fleet._Asking, "_workers_for", workers_for)


@pytest.mark.parametrize(("left", "workers"), [(3, 0), (40, 0), (60, 2), (1000, 3)])
def test_workers_have_to_pay(left: int, workers: int) -> None:
    with LocalEngine(3) as engine:
        asking: fleet._Asking[Stored, str] = fleet._Asking([], question, engine, LimitedProgress(Told()))
        for number, seconds in enumerate((5.0, 0.08, 0.1)):
            asking.outcomes[number] = StoreOutcome("x", ExitStatus.CLEAN, "", seconds=seconds)
        found = asking._workers_for([0, 1, 2], left)
    assert (found if found > 1 else 0) == workers
    assert asking._workers_for([0, 1], left) == 0


@pytest.mark.usefixtures("cheap_workers")
def test_many_small_stores_are_asked_by_workers(
    members: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order in which they were named; one whose process dies is one failure."""
    monkeypatch.setenv("PYTEST_ASKER", str(os.getpid()))
    told = Told()
    with LocalEngine(2) as engine:
        found = ask_members(
            members("x", "large", "dies", "bad", "warns", "a", "b"), question, engine, told, travels=True
        )
    assert reports(found) == ["local 1", "local 2", None, None, "local 1", "local 1", "local 1"]
    assert [int(one.status) for one in found] == [0, 0, 3, 3, 0, 0, 0]
    assert found.outcomes[2].failure == (
        "its process was killed by SIGKILL, perhaps for lack of memory (run it alone for details)"
    )
    (warning,) = told.warnings
    assert warning.endswith("/warns: mind the gap")
    assert told.done == sorted(told.done)
    assert told.done[-1] == LARGE + 5 * SMALL


@pytest.mark.usefixtures("cheap_workers")
@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c", "d")])
def test_without_workers_stores_are_asked_here(
    members: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """One that is left is no work for two; and no process may be to be had."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with LocalEngine(2) as engine:
        found = ask_members(members(*names), question, engine, Told(), travels=True)
    assert reports(found) == ["local 1"] * len(names)


@pytest.mark.parametrize("master", ["local[2]", CLUSTER])
def test_questions_stay_where_they_cannot_travel(members: Callable[..., Any], master: str) -> None:
    engine = Tasks(EngineOptions("spark", jobs=7, master=master))
    found = ask_members(members("a", "b"), question, engine, Told())
    assert reports(found) == ["spark 7", "spark 7"]
    assert engine.maps == [1]


@pytest.mark.usefixtures("cheap_workers")
@pytest.mark.parametrize("master", ["local[2]", CLUSTER])
def test_small_stores_stay_on_this_machine(members: Callable[..., Any], master: str) -> None:
    """However many executors there are; the engine must come up all the same."""
    engine = Tasks(EngineOptions("spark", jobs=7, master=master))
    found = ask_members(members("a", "large", "b", "c"), question, engine, Told(), travels=True)
    assert reports(found) == ["local 1", "spark 7", "local 1", "local 1"]
    assert engine.maps == [1]


@pytest.mark.parametrize("how", ["stop", "odd"])
def test_after_an_interrupt_no_store_is_asked(members: Callable[..., Any], how: str) -> None:
    with LocalEngine(1) as engine:
        found = ask_members(members("a", how, "b"), question, engine, Told())
    assert reports(found) == ["local 1", None, None]
    assert [one.failure for one in found] == [
        None,
        "interrupted during it",
        "interrupted before it was examined",
    ]


def test_an_engine_that_does_not_come_up_is_no_fault_of_the_stores(members: Callable[..., Any]) -> None:
    engine = Tasks()
    engine.map = partial(_dead)  # type: ignore[method-assign]
    with pytest.raises(EnvironmentFailureError, match="no Java"):
        ask_members(members("a"), question, engine, Told())


def _dead(*_more: object) -> list[Any]:
    raise EnvironmentFailureError("no Java")
