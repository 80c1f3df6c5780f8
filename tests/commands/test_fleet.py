"""Many stores: small ones by a thread of this process, large ones with the whole engine."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import pytest

from rmqtool.commands import fleet
from rmqtool.commands.fleet import FleetMember, FleetReport, ask_members, gathered
from rmqtool.engine import Engine, EngineOptions, LocalEngine
from rmqtool.errors import EnvironmentFailureError, ExitStatus
from rmqtool.progress import NullProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rmqtool.progress import Progress

SMALL, LARGE = 10, 1000
CLUSTER = "spark://host:7077"


@dataclass(eq=False)
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


def test_remarks_have_the_name_of_their_store(members: Callable[..., Any]) -> None:
    """In the order in which they were named, whichever came first."""
    told = Told()
    with LocalEngine(2) as engine:
        found = ask_members(members("x", "large", "bad", "warns", "a"), question, engine, told)
    assert reports(found) == ["local 1", "local 2", None, "local 1", "local 1"]
    assert [int(one.status) for one in found] == [0, 0, 3, 0, 0]
    (warning,) = told.warnings
    assert warning.endswith("/warns: mind the gap")
    assert told.done == sorted(told.done)


def test_only_one_store_is_in_memory(members: Callable[..., Any]) -> None:
    """What a store caches goes with it, however many stores there are."""
    alive: weakref.WeakSet[Stored] = weakref.WeakSet()

    def caching(store: Stored, _engine: Engine, _progress: Progress) -> tuple[int, ExitStatus]:
        alive.add(store)
        return len(alive), ExitStatus.CLEAN

    with LocalEngine(1) as engine:
        found = ask_members(members(*"abcdef"), caching, engine, Told())
    assert [one.report for one in found] == [1] * 6


@pytest.mark.parametrize("master", ["local[2]", CLUSTER])
def test_small_stores_stay_on_this_machine(members: Callable[..., Any], master: str) -> None:
    """However many executors there are; the engine must come up all the same."""
    engine = Tasks(EngineOptions("spark", jobs=7, master=master))
    found = ask_members(members("a", "large", "b", "c"), question, engine, Told())
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
