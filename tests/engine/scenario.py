"""One use of the Spark engine in a process of its own, for tests that look at it from outside.

Run as ``python -m tests.engine.scenario WAY FOLDER``.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from rmqtool.engine import Engine, EngineOptions
from rmqtool.engine.choice import open_engine
from rmqtool.errors import RmqtoolError
from tests.engine import tasks

SLEEP_S = 600.0


def main(way: str, folder: Path) -> int:
    stay = partial(tasks.say_and_sleep, folder)
    try:
        with open_engine(EngineOptions("spark", jobs=2)) as engine:
            return use(engine, way, stay)
    except KeyboardInterrupt:
        return 130
    except RmqtoolError as error:
        return int(error.status)


def use(engine: Engine, way: str, stay: partial[None]) -> int:
    if way == "sleep":
        engine.map(stay, [SLEEP_S, SLEEP_S], lambda completed: None)
    if way == "fail":
        engine.map(tasks.refuse_three, [3])
    engine.map(stay, [0.0])
    if way == "forget":
        sys.exit(0 if open_and_forget(engine) else 1)
    return 0


def open_and_forget(engine: Engine) -> bool:
    """Close the given engine and leave another to the end of the process."""
    engine.close()
    return open_engine(EngineOptions("spark", jobs=1)).map(tasks.square, [3]) == [9]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
