"""Run the chosen cases of a module in groups, each in one JVM: brokers mostly sleep as they come and go."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from pathlib import Path

C = TypeVar("C")
R = TypeVar("R")

WORKERS = 3


@contextmanager
def begun(
    request: pytest.FixtureRequest,
    parameter: str,
    base: Path,
    *,
    group: Callable[[C], Hashable],
    run: Callable[[list[C], Path], dict[C, R]],
) -> Iterator[Callable[[C], R]]:
    """Begin ``run(cases, folder)`` for the selected tests of a module; yield how to get a case's result.

    Args:
        request: Of a fixture of the module whose tests count.
        parameter: Name of the tests' parameter; its values can be keys of a dictionary.
        base: Where each group gets a folder of its own.
        group: What the cases of one call of ``run`` have in common.
        run: Starts brokers and returns what a test judges, by case.
    """
    groups: defaultdict[Hashable, list[C]] = defaultdict(list)
    for case in dict.fromkeys(_selected(request, parameter)):
        groups[group(case)].append(case)
    with ThreadPoolExecutor(WORKERS) as pool:
        running = {
            name: pool.submit(run, cases, _folder(base, number))
            for number, (name, cases) in enumerate(groups.items())
        }
        yield lambda case: running[group(case)].result()[case]
        pool.shutdown(cancel_futures=True)


def _folder(base: Path, number: int) -> Path:
    folder = base / str(number)
    folder.mkdir()
    return folder


def _selected(request: pytest.FixtureRequest, parameter: str) -> Iterator[Any]:
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.path == request.path and hasattr(item, "callspec"):
            yield from (value for name, value in item.callspec.params.items() if name == parameter)
