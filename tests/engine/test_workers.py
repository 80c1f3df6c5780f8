"""Worker processes: results by number, one that dies takes one item along, an interrupt ends all."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.engine import MapInterruptedError, workers
from rmqtool.engine.workers import map_in_workers
from tests.engine import tasks

if TYPE_CHECKING:
    from collections.abc import Callable


def lost(item: object, reason: str) -> str:
    return f"{item}: {reason}"


def run(function: Callable[[int], Any], items: list[int], count: int = 2) -> dict[int, Any]:
    done: list[int] = []
    found = map_in_workers(function, items, lost, count, done.append)
    assert done == [*range(1, len(items) + 1)]
    assert children() == []
    return found


def children() -> list[str]:
    found = Path("/proc/self/task").glob("*/children")
    return [word for one in found for word in one.read_text().split()]


def test_results_are_those_of_their_items_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    found = run(tasks.printed_process, [5, 6, 7, 8, 9])
    assert {number: item for number, (item, _) in found.items()} == dict(enumerate([5, 6, 7, 8, 9]))
    assert os.getpid() not in {process for _, process in found.values()}
    assert capfd.readouterr() == ("", "")


def test_one_that_dies_takes_one_item_along() -> None:
    """By a signal, by an exit, with an error, with a result that cannot travel; others do what is left."""
    found = run(tasks.end_of_process, [*range(7)])
    pickled = str(found.pop(6))  # in other words in each Python
    assert re.match("6: internal error: .* local object .*end_of_process.<locals>.<lambda>", pickled)
    assert found == {
        0: 0,
        1: "1: its process was killed by SIGKILL, perhaps for lack of memory",
        2: "2: its process was killed by SIGSEGV",
        3: "3: its process ended with status 7",
        4: "4: internal error: MemoryError: all of it",
        5: 5,
    }


def test_where_none_can_be_started_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    for program in ("/nowhere/python", "/bin/false"):
        monkeypatch.setattr(sys, "executable", program)
        assert map_in_workers(tasks.square, [1, 2], lost, 2, done.append) == {}


def test_an_interrupt_ends_all_and_takes_what_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cleans up and answers, one has not begun, and one that would not end is killed."""

    def interrupt() -> None:
        while len([*tmp_path.iterdir()]) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    items = [(str(tmp_path / name), name == "deaf") for name in ("heard", "deaf", "third")]
    monkeypatch.setattr(workers, "_PATIENCE_S", 1.0)
    with pytest.raises(MapInterruptedError) as stop:
        map_in_workers(tasks.wait_for_interrupt, items, lost, 2, lambda _count: None)
    sender.join()
    assert stop.value.results == {0: "interrupted"}
    assert children() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deaf", "heard"]
