"""SPARK'S TABLES. Stores as a data source of a session: ``spark.read.format("rocketmq-store")``.

``options`` is what a reader is told, ``shapes`` the columns of each table, ``filters`` what a query leaves
out, ``plan`` the tasks, ``tasks`` the work on a store and ``reading`` what becomes of it; ``source`` and
``stream`` are what Spark calls. Messages are read as ``export`` reads
them, in the same pieces; files are proven as those of the Spark engine are. Nothing here is loaded before it
is asked for.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from rmqtool.columns.missing import require_library
from rmqtool.engine import HOW_TO_GET_SPARK
from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make ``rocketmq-store`` a format of a session's ``read`` and ``readStream``.

    The option ``pushFilters`` can be used if the session's ``spark.sql.python.filterPushdown.enabled`` is
    true by now; register again after you have changed it.

    Raises:
        EnvironmentFailureError: pyspark or pyarrow is not installed.
    """
    if find_spec("pyspark") is None:
        raise EnvironmentFailureError(f"Spark is not installed: {HOW_TO_GET_SPARK} adds it")
    require_library("pyarrow")
    from rmqtool.spark.source import PUSHDOWN, PushingSource, StoreSource

    pushes = str(spark.conf.get(PUSHDOWN, "false")).lower() == "true"
    spark.dataSource.register(PushingSource if pushes else StoreSource)
