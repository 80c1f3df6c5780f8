"""The data source on another line of Spark than the newest, with what that line has.

Run as ``python -m tests.spark.line FOLDER``.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import datasource

import rmqtool.spark
from tests.spark.session import (
    PLAIN,
    PUSHDOWN,
    follow,
    keep_queries_apart,
    messages,
    open_session,
    push_filters,
    read_all,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(folder: Path) -> None:
    spark = open_session(folder)
    rmqtool.spark.register(spark)
    read_all(spark)
    spark.conf.set(PUSHDOWN, "true")
    rmqtool.spark.register(spark)
    keep_queries_apart(spark)
    if hasattr(datasource, "EqualTo"):
        push_filters(spark)
    else:
        found = spark.read.format("rocketmq-store").load(str(PLAIN)).where("queueId = 1")
        assert found.count() == sum(one.queue_id == 1 for one in messages())
    if find_spec("pyspark.sql.streaming.datasource"):
        follow(spark, folder)
    else:
        follow(spark, folder, most=None)
        refuse_bounds(spark)
    spark.stop()
    print("done")  # noqa: T201 - what the test waits for


def refuse_bounds(spark: SparkSession) -> None:
    stream = spark.readStream.format("rocketmq-store").option("maxBytesPerTrigger", "12000").load(str(PLAIN))
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    with pytest.raises(Exception, match=r"maxBytesPerTrigger needs Spark 4\.2 or newer"):
        query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
