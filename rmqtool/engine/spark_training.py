"""A start of Spark that Java remembers; see ``spark_cache``."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from rmqtool.engine.interface import EngineOptions
from rmqtool.engine.spark import SparkEngine
from rmqtool.engine.spark_cache import StartCache
from rmqtool.engine.spark_java import find_java
from rmqtool.engine.spark_settings import class_path
from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from pathlib import Path

_PATIENCE_S = 600.0
"""For Java's end, at which it writes for 20 s and more."""


def train_start() -> tuple[Path, int]:
    """Start Spark, run a map, end it in order, and return the file that Java has made of it, and its bytes.

    Raises:
        EnvironmentFailureError: No Java can be found or started, or it makes no such file.
    """
    java = find_java(os.environ, launcher=False)
    cache = StartCache(java, class_path({}))
    if (kept := cache.path) is not None:
        return kept, kept.stat().st_size
    partial, flag = cache.training()
    conf = {"spark.driver.extraJavaOptions": shlex.quote(flag)}
    try:
        with SparkEngine(EngineOptions("spark", master="local[2]", spark_conf=conf), _PATIENCE_S) as engine:
            for _ in range(2):
                engine.map(len, ["", ""])
        if not partial.exists():
            raise EnvironmentFailureError(f"{java.executable} makes no cache of its start: use another Java")
        kept = cache.keep(partial)
        return kept, kept.stat().st_size
    finally:
        partial.unlink(missing_ok=True)
