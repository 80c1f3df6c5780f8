"""Stores as a data source of a Spark session: ``spark.read.format("rocketmq-store")``.

Spark calls ``source``. Messages are read in the same pieces as by ``export``, files are proven
as by the Spark engine. Nothing here is loaded before its use.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.columns import require_library
from rmqtool.engine.choice import HOW_TO_GET_SPARK
from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make ``rocketmq-store`` a format of a session's ``read``.

    Warns where the session plans reads with a Python of this machine that lacks rmqtool.

    The option ``pushFilters`` can be used if the session's ``spark.sql.python.filterPushdown.enabled`` is
    true by now; register again after you have changed it.

    Raises:
        EnvironmentFailureError: pyspark or pyarrow is not installed.
    """
    if find_spec("pyspark") is None:
        raise EnvironmentFailureError(f"Spark is not installed: {HOW_TO_GET_SPARK} adds it")
    require_library("pyarrow")
    from rmqtool.spark.source import PUSHDOWN, PushingSource, StoreSource

    _warn_of_another_python(spark)
    pushes = str(spark.conf.get(PUSHDOWN, "false")).lower() == "true"
    spark.dataSource.register(PushingSource if pushes else StoreSource)


_PROOF = "import rmqtool, pyarrow"
_PATIENCE_S = 60


def _warn_of_another_python(spark: SparkSession) -> None:
    """Warn of a Python that cannot plan, as ``python3`` of PATH where the environment is not activated."""
    context = (
        getattr(spark, "sparkContext", None) if type(spark).__module__ == "pyspark.sql.session" else None
    )
    if context is None:  # of Spark Connect: the server plans
        return
    name = str(context.pythonExec)
    program = shutil.which(name)
    if program is not None and Path(program).absolute().parent == Path(sys.executable).absolute().parent:
        return
    reason = _lack(program, context.environment) if program else "there is none"
    if reason:
        warnings.warn(
            f"Spark plans reads of stores with {program or name}, which is not this Python and lacks rmqtool"
            f" ({reason}): set PYSPARK_PYTHON={sys.executable} in the environment before the session starts",
            RuntimeWarning,
            stacklevel=3,
        )


def _lack(python: str, environment: Mapping[str, str]) -> str:
    from pyspark import SparkFiles

    shipped = Path(SparkFiles.getRootDirectory())  # pyFiles lie there, which Spark's workers import from
    places = [*map(str, sorted(shipped.glob("*.zip"))), str(shipped), environment.get("PYTHONPATH", "")]
    places.append(os.environ.get("PYTHONPATH", ""))
    own = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    try:
        done = subprocess.run(
            [python, "-c", _PROOF], env=own, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        return str(failure)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it does not run"])[-1]
