"""Functions that the engines run in the tests; executors import them by name."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqtool.errors import RefusedError, RmqtoolError


class PickyError(RmqtoolError):
    """One of ours whose constructor wants more than a message, so that it cannot be pickled."""

    def __init__(self, path: Path, offset: int) -> None:
        super().__init__(f"{path} is odd at {offset}")


def square(number: int) -> int:
    return number * number


def multiply(factor: int, number: int) -> int:
    return factor * number


def slow_square(number: int) -> int:
    """Finish later the smaller the number, so that results arrive out of order."""
    time.sleep(0.02 * (5 - number % 5))
    return number * number


def count_up(length: int) -> npt.NDArray[np.int64]:
    return np.arange(length, dtype=np.int64)


def refuse_three(number: int) -> int:
    if number == 3:
        raise RefusedError("three is not allowed here")
    return number


def divide_by(number: int) -> float:
    return 1 / number


def be_picky(number: int) -> int:
    raise PickyError(Path("segment"), number)


def fail_once(folder: Path, number: int) -> int:
    """Fail the first time that any process tries this number."""
    try:
        (folder / str(number)).touch(exist_ok=False)
    except FileExistsError:
        return number
    raise ValueError(f"first attempt at {number}")


def leave_mark(folder: Path, number: int) -> int:
    """Leave a file, and take long enough for the engine to notice a failure elsewhere."""
    if number == 0:
        raise RefusedError("the first item fails")
    time.sleep(0.1)
    (folder / str(number)).touch()
    return number


def die(number: int) -> int:
    os._exit(number)


def needs_missing_module(name: str) -> None:
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def say_and_sleep(folder: Path, seconds: float) -> None:
    """Note this process's id, so that the test can look for it afterwards, and stay."""
    (folder / f"worker-{os.getpid()}").touch()
    time.sleep(seconds)
