"""The contract of ``Engine``, for threads and for Spark."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from rmqtool.engine import EngineError, EngineOptions, MapInterruptedError, beside
from rmqtool.engine.choice import open_engine
from rmqtool.errors import RefusedError, RmqtoolError, UsageError
from tests.engine import tasks
from tests.engine.conftest import LOCAL
from tests.engine.contract import Basics

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.engine import Engine


class TestContract(Basics):
    """Everything that an engine promises."""

    def test_more_items_than_cores_are_all_done(self, engine: Engine) -> None:
        assert engine.map(tasks.square, range(50)) == [number * number for number in range(50)]

    def test_large_results_come_back(self, engine: Engine) -> None:
        arrays = engine.map(tasks.count_up, [1_000_000] * 4)
        assert [int(array[-1]) for array in arrays] == [999_999] * 4

    def test_an_exception_that_cannot_be_pickled_keeps_its_sentence(self, engine: Engine) -> None:
        with pytest.raises(RmqtoolError, match="segment is odd at 5"):
            engine.map(tasks.be_picky, [5])

    def test_it_works_on_after_a_failure(self, engine: Engine) -> None:
        with pytest.raises(RefusedError):
            engine.map(tasks.refuse_three, [3])
        assert engine.map(tasks.refuse_three, [1, 2]) == [1, 2]

    def test_a_failure_ends_the_items_that_have_not_begun(self, engine: Engine, tmp_path: Path) -> None:
        with pytest.raises(RefusedError):
            engine.map(partial(tasks.leave_mark, tmp_path), range(100))
        assert len(list(tmp_path.iterdir())) < 50

    @pytest.mark.few(1)
    def test_progress_rises_to_the_number_of_items(self, engine: Engine) -> None:
        seen: list[int] = []
        engine.map(tasks.slow_square, range(12), seen.append)
        assert seen == sorted(seen)
        assert seen[-1] == 12

    def test_a_map_beside_another_gives_what_a_map_gives(self, engine: Engine) -> None:
        with beside(engine, tasks.square, range(5)) as squares:
            assert engine.map(tasks.refuse_three, [1, 2]) == [1, 2]
            assert squares() == [0, 1, 4, 9, 16]
        with beside(engine, tasks.refuse_three, range(9)) as refused, pytest.raises(RefusedError):
            refused()

    def test_the_name_is_the_kind(self, engine: Engine) -> None:
        assert engine.name in {"local", "spark"}


def test_fewer_than_one_job_is_an_error_of_usage() -> None:
    with pytest.raises(UsageError, match="--jobs must be at least 1, not 0"):
        open_engine(EngineOptions("local", jobs=0))


def test_a_closed_local_engine_refuses_work() -> None:
    engine = open_engine(LOCAL)
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed already"):
        engine.map(tasks.square, [1])


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_nobody_asks_for_any_more_does_not_begin(jobs: int, tmp_path: Path) -> None:
    mark = partial(tasks.leave_mark, tmp_path)
    options = EngineOptions("local", jobs=jobs)
    with open_engine(options) as engine, pytest.raises(ZeroDivisionError), beside(engine, mark, range(1, 99)):
        raise ZeroDivisionError
    assert len(list(tmp_path.iterdir())) < 50


def test_the_earliest_failing_item_wins() -> None:
    """Which failure is reported must not depend on which thread was faster, when both have failed."""
    with open_engine(LOCAL) as engine, pytest.raises(ZeroDivisionError):
        engine.map(tasks.divide_by, [0, 0, 0])


def test_a_progress_that_raises_ends_a_local_map() -> None:
    def complain(completed: int) -> None:
        raise BrokenPipeError(f"nobody reads after {completed}")

    with open_engine(LOCAL) as engine, pytest.raises(BrokenPipeError, match="after 1"):
        engine.map(tasks.slow_square, range(9), complain)


@pytest.mark.parametrize("jobs", [1, 3])
def test_ctrl_c_hands_over_what_is_done(jobs: int) -> None:
    def press(completed: int) -> None:
        if completed == 2:
            raise KeyboardInterrupt

    with (
        open_engine(EngineOptions("local", jobs=jobs)) as engine,
        pytest.raises(MapInterruptedError) as caught,
    ):
        engine.map(tasks.slow_square, range(40), press)
    results = caught.value.results
    assert 2 <= len(results) < 40
    assert results == {number: number * number for number in results}
