"""The engines under test; a class shares its Spark session, as one takes seconds to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.engine import EngineOptions
from rmqtool.engine.choice import open_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.engine import Engine

LOCAL = EngineOptions("local", jobs=3)
ONE_THREAD = EngineOptions("local", jobs=1)
SPARK = EngineOptions("spark", master="local[2,4]")
"""Four attempts for every task, as on a cluster."""


@pytest.fixture(scope="class")
def spark_engine() -> Iterator[Engine]:
    """Share one session in a class: a process can have only one, so others must not meet it."""
    with open_engine(SPARK) as engine:
        yield engine


@pytest.fixture(
    params=["local", "one-thread", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.full])]
)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "spark":
        yield request.getfixturevalue("spark_engine")
        return
    with open_engine(LOCAL if request.param == "local" else ONE_THREAD) as local:
        yield local
