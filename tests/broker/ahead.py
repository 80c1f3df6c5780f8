"""Run the chosen cases of a module side by side: brokers mostly sleep while they start and stop."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.broker import jvm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

R = TypeVar("R")

WORKERS = 6


@contextmanager
def begun(
    request: pytest.FixtureRequest, parameter: str, base: Path, run: Callable[[Any, Path], R]
) -> Iterator[dict[Any, Future[R]]]:
    """Begin ``run(case, folder)`` for every selected test of a module; yield the results to come, by case.

    Args:
        request: Of a fixture of the module whose tests count.
        parameter: Name of the tests' parameter; its values can be keys of a dictionary.
        base: Where each case gets a folder of its own.
        run: Starts a broker and returns what a test judges; where no broker can run, it is not called.
    """
    if jvm.available() is not None:
        yield {}
        return
    with ThreadPoolExecutor(WORKERS) as pool:
        cases = dict.fromkeys(_selected(request, parameter))
        yield {case: pool.submit(run, case, _folder(base, number)) for number, case in enumerate(cases)}
        pool.shutdown(cancel_futures=True)


def _folder(base: Path, number: int) -> Path:
    folder = base / str(number)
    folder.mkdir()
    return folder


def _selected(request: pytest.FixtureRequest, parameter: str) -> Iterator[object]:
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.path == request.path and hasattr(item, "callspec"):
            yield item.callspec.params[parameter]
