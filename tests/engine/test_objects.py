"""A cluster whose machines share nothing but an S3 server: store, blocks and result lie there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.cli import main
from rmqtool.projection import json_object
from rmqtool.report.formats import to_json
from tests.engine.cluster import REPOSITORY, SETTINGS, Cluster, require_views, required_java
from tests.extra import library
from tests.io.s3_results import files_below, objects_below, whole_result
from tests.io.s3_server import name_server, put, s3_server, upload
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

library("moto")

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

STORE, OUT, SCRATCH = "s3://bucket/store", "s3://bucket/made", "s3://bucket/scratch"
SMALL = fixture("indexfull-4.9.8")

_DRIVER = """
import sys
from pyspark.sql import SparkSession
import rmqtool
from rmqtool.projection import json_object
from rmqtool.report.formats import to_json
master, store, out, scratch, *settings = sys.argv[1:]
builder = SparkSession.builder.master(master)
for setting in settings:
    builder = builder.config(*setting.split("=", 1))
spark = builder.getOrCreate()
with rmqtool.open(store) as opened:
    opened.rebuild(out, engine=spark)
    opened.rebuild(f"{out}-salvaged", engine=spark, salvage=True)
    with rmqtool.open_engine(spark, scratch=scratch) as engine:
        report = opened.verify(engine=engine)
print(to_json(json_object(report)))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run a server with a store; the environment names it."""
    with s3_server() as port, pytest.MonkeyPatch.context() as patch:
        put(port, "bucket")
        upload(port, SMALL, "bucket/store")
        name_server(patch, port)
        yield port


@pytest.fixture
def cluster(server: int, tmp_path: Path) -> Iterator[Cluster]:
    """Run two workers, each with temporary files of its own, that do not see the driver's."""
    del server
    require_views()
    java = required_java()
    for name in ("driver", "local"):
        (tmp_path / name).mkdir()
    one = Cluster(java, tmp_path)
    try:
        one.start_master()
        for name in ("one", "two"):
            mounts = (f"mount -t tmpfs none {tmp_path / folder}" for folder in ("driver", "local"))
            one.add_worker(name, view=" && ".join(mounts))
        yield one
    finally:
        one.stop()


def test_a_cluster_that_shares_no_folder(cluster: Cluster, tmp_path: Path) -> None:
    settings = {**SETTINGS, "spark.local.dir": str(tmp_path / "local"), "spark.ui.enabled": "false"}
    words = [f"{name}={value}" for name, value in settings.items()]
    own = {
        "PYTHONPATH": str(REPOSITORY),
        "TMPDIR": str(tmp_path / "driver"),
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER, cluster.master, STORE, OUT, SCRATCH, *words],
        env=os.environ | own,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for out, more in ((OUT, ()), (f"{OUT}-salvaged", ("--salvage",))):
        here = tmp_path / out.rpartition("/")[2]
        assert main(["rebuild", str(SMALL), "--out", str(here), "--engine", "local", "-q", *more]) == 0
        found, expected = whole_result(out), files_below(here)
        assert found.keys() == expected.keys()
        assert all(found[name] == expected[name] for name in expected.keys() - {"rebuild.json"})
    assert objects_below(SCRATCH) == {}
    assert [*(tmp_path / "driver").iterdir()] == []
    with rmqtool.open(STORE) as store:
        here = json.loads(to_json(json_object(store.verify())))
    report = json.loads(done.stdout.splitlines()[-1])
    assert {**report, "seconds": None} == {**here, "seconds": None}
    assert report["examined"]["records"] == 57
