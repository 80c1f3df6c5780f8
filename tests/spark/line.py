"""The data source on another line of Spark than the newest, with what that line has.

Run as ``python -m tests.spark.line FOLDER``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import datasource

import rmqtool.spark
from tests.spark.session import (
    PLAIN,
    PUSHDOWN,
    keep_queries_apart,
    messages,
    open_session,
    push_filters,
    read_all,
)


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
    spark.stop()
    print("done")  # noqa: T201 - what the test waits for


if __name__ == "__main__":
    main(Path(sys.argv[1]))
