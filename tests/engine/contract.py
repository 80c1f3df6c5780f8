"""What every engine must do; ``test_contract`` runs it here, ``test_cluster`` on a real cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rmqtool.engine import EngineError
from rmqtool.errors import ExitStatus, RefusedError
from tests.engine import tasks

if TYPE_CHECKING:
    from rmqtool.engine import Engine


class Basics:
    """The cases that every place of execution runs."""

    def test_results_come_in_the_order_of_the_items(self, engine: Engine) -> None:
        assert engine.map(tasks.slow_square, [4, 0, 3, 1, 2]) == [16, 0, 9, 1, 4]

    def test_no_items_give_no_results(self, engine: Engine) -> None:
        assert engine.map(tasks.square, []) == []

    def test_a_partial_carries_its_arguments(self, engine: Engine) -> None:
        assert engine.map(partial(tasks.multiply, 7), range(3)) == [0, 7, 14]

    def test_arrays_come_back_whole(self, engine: Engine) -> None:
        short, none, long = engine.map(tasks.count_up, [3, 0, 300_000])
        assert short.tolist() == [0, 1, 2]
        assert none.shape == (0,)
        assert none.dtype == np.int64
        assert np.array_equal(long, np.arange(300_000))

    def test_an_exception_of_ours_comes_out_as_itself(self, engine: Engine) -> None:
        with pytest.raises(RefusedError, match=r"^three is not allowed here$") as caught:
            engine.map(tasks.refuse_three, [1, 2, 3, 4])
        assert caught.value.status is ExitStatus.REFUSED

    def test_any_other_exception_says_what_it_was(self, engine: Engine) -> None:
        with pytest.raises((ZeroDivisionError, EngineError), match="division by zero"):
            engine.map(tasks.divide_by, [1, 0, 2])
