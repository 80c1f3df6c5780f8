"""The data source in a session, in a process of its own: pyspark keeps its Java process for good.

Run as ``python -m tests.spark.session FOLDER``.
"""

from __future__ import annotations

import json
import re
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

import rmqtool
import rmqtool.spark
from tests.engine.cluster import DRIVER_SETTINGS
from tests.extra import library
from tests.store.fixture_stores import fixture

PLAIN = fixture("plain-5.5.1")
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def open_session(folder: Path) -> SparkSession:
    spark: SparkSession = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config(map=DRIVER_SETTINGS)
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main(folder: Path) -> None:
    spark = open_session(folder)
    rmqtool.spark.register(spark)
    with pytest.raises(Exception, match="pushFilters: Spark hands no filters over"):
        spark.read.format("rocketmq-store").option("pushFilters", "true").load(str(PLAIN)).collect()
    read_all(spark)
    read_files(spark, folder)
    spark.conf.set(PUSHDOWN, "true")
    rmqtool.spark.register(spark)
    keep_queries_apart(spark)
    push_filters(spark)
    say_what_is_wrong(spark, folder)
    spark.stop()
    print("done")  # noqa: T201 - what the test waits for


def messages(path: Path = PLAIN) -> list[rmqtool.Message]:
    return list(rmqtool.open(path).messages())


def facts(found: list[Row]) -> list[tuple[Any, ...]]:
    """Return of rows what all tables of messages have here."""
    told = ((one.physicalOffset, one.topic, bytes(one.body), dict(one.properties)) for one in found)
    return sorted(told, key=itemgetter(0, 1, 2))


def facts_of(found: list[rmqtool.Message]) -> list[tuple[Any, ...]]:
    told = ((one.physical_offset, one.topic, one.body, one.properties) for one in found)
    return sorted(told, key=itemgetter(0, 1, 2))


def read_all(spark: SparkSession) -> None:
    other = fixture("unicode-5.5.1")
    frame = spark.read.format("rocketmq-store").load(str(PLAIN))
    assert facts(frame.collect()) == facts_of(messages())
    several = spark.read.format("rocketmq-store").load([str(PLAIN), str(other)])
    assert facts(several.collect()) == facts_of(messages() + messages(other))
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW units USING `rocketmq-store`"
        f" OPTIONS (path '{PLAIN}', table 'consumequeue')"
    )
    frame.createOrReplaceTempView("records")
    joined = spark.sql("SELECT * FROM units JOIN records USING (topic, queueId, queueOffset)")
    assert joined.count() == spark.table("units").count() == len(messages())
    pruned = (
        spark.read.format("rocketmq-store").schema("tags STRING, storeTimestamp TIMESTAMP").load(str(PLAIN))
    )
    assert [one.tags for one in pruned.collect()] == [one.tags for one in messages()]
    read_as_other_tools_do(spark)


def read_as_other_tools_do(spark: SparkSession) -> None:
    """The two selects of the manual."""
    frame = spark.read.format("rocketmq-store").load(str(PLAIN))
    frame.createOrReplaceTempView("messages")
    page = (Path(rmqtool.__file__).parent / "docs" / "spark-tables.md").read_text()
    (text,) = re.findall(r"```sql\n(-- as the source for Kafka.*?)```", page, re.DOTALL)
    kafka, rocketmq = (spark.sql(one).collect() for one in text.split(";")[:2])
    for row, others, wanted in zip(kafka, rocketmq, messages(), strict=True):
        headers = {one.key: one.value.decode() for one in row.headers}
        place = (wanted.topic, wanted.queue_id, wanted.queue_offset)
        assert (row.topic, row.partition, row.offset) == place
        assert (headers, row.timestampType) == (wanted.properties, 1)
        key = None if row.key is None else row.key.decode()
        assert (key, row.value) == (wanted.properties.get("KEYS"), wanted.body)
        assert (others.topic, others.queueId, others.queueOffset) == place
        assert (json.loads(others.properties), others.brokerName) == (wanted.properties, None)
        assert (others.flag, others.body) == (wanted.flag, wanted.body)
        assert row.timestamp == others.storeTimestamp


def read_files(spark: SparkSession, folder: Path) -> None:
    """A file that export wrote says the same in Spark, DuckDB and pandas."""
    rmqtool.export(rmqtool.open(PLAIN), folder / "files")
    found = spark.read.parquet(str(folder / "files")).orderBy("physicalOffset")
    ours = spark.read.format("rocketmq-store").load(str(PLAIN)).orderBy("physicalOffset").drop("store")
    assert found.columns == ours.columns
    assert found.collect() == ours.collect()
    duckdb, pd = library("duckdb"), library("pandas")
    names = ("topic", "queueId", "queueOffset", "physicalOffset", "tags", "uniqKey", "body")
    rows = [tuple(one[name] for name in names) for one in found.collect()]
    quoted = ", ".join(f'"{name}"' for name in names)
    query = f"SELECT {quoted} FROM '{folder}/files/*.parquet' ORDER BY \"physicalOffset\""
    assert duckdb.sql(query).fetchall() == rows
    (path,) = (folder / "files").glob("*.parquet")
    frame = pd.read_parquet(path).sort_values("physicalOffset")
    assert [*frame[[*names]].itertuples(index=False, name=None)] == rows


def keep_queries_apart(spark: SparkSession) -> None:
    """Spark keeps filters that a source has taken with its table, and so hands over none unless asked to."""
    frame = spark.read.format("rocketmq-store").load(str(PLAIN))
    topics = [one.topic for one in messages()]
    orders, others = frame.where("topic = 'Orders'"), frame.where("topic = 'TopicTest'")
    assert [orders.count(), frame.count()] == [topics.count("Orders"), len(topics)]
    assert orders.union(others).count() == topics.count("Orders") + topics.count("TopicTest")


def push_filters(spark: SparkSession) -> None:
    reader = spark.read.format("rocketmq-store").option("pushFilters", "true")
    frame = reader.load(str(PLAIN))
    wanted = [one for one in messages() if one.topic == "TopicTest" and one.queue_id == 1]
    time = f"TIMESTAMP_MILLIS({wanted[0].store_timestamp_ms})"
    found = frame.where(f"topic = 'TopicTest' AND queueId = 1 AND storeTimestamp >= {time}")
    assert facts(found.collect()) == facts_of(wanted)
    place, frame = wanted[-1].physical_offset, reader.load(str(PLAIN))
    assert facts(frame.where(f"physicalOffset >= {place} AND topic LIKE 'Topic%'").collect()) == facts_of(
        [one for one in messages() if one.physical_offset >= place and one.topic.startswith("Topic")]
    )
    filters = ("true", "physicalOffset >= 40960", "store = 'elsewhere'")
    counts = [reader.option("splitBytes", "8192").load(str(PLAIN)).where(one) for one in filters]
    assert [one.rdd.getNumPartitions() for one in counts] == [7, 2, 1]
    odd = reader.load(str(PLAIN)).where("topic IN ('Orders', NULL)")
    assert odd.count() == sum(one.topic == "Orders" for one in messages())


def say_what_is_wrong(spark: SparkSession, folder: Path) -> None:
    log = folder / "damaged" / "commitlog"
    log.mkdir(parents=True)
    data = bytearray((PLAIN / "commitlog" / f"{0:020}").read_bytes())
    data[150] ^= 1
    (log / f"{0:020}").write_bytes(data)
    reader = spark.read.format("rocketmq-store")
    with pytest.raises(Exception, match="CL-CRC"):
        reader.option("mode", "FAILFAST").load(str(log)).collect()
    with pytest.raises(Exception, match="did you mean topic"):
        spark.read.format("rocketmq-store").option("topics", "x").load(str(log))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
