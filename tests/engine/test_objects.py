"""A cluster whose machines share nothing but an S3 server: store, blocks and result lie there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.cli import main
from rmqtool.io.object_store import LENT
from rmqtool.projection import json_object
from rmqtool.report.output import to_json
from rmqtool.store.object_staging import MANIFEST_NAME
from tests.engine.cluster import REPOSITORY, SETTINGS, Cluster, require_views, required_java
from tests.extra import library
from tests.io.s3_results import files_below, names_below, objects_below, whole_result
from tests.io.s3_server import name_server, put, s3_server, upload
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator

library("moto")

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

STORE, OUT, SCRATCH = "s3://bucket/store", "s3://bucket/made", "s3://bucket/scratch"
SECRET = "a-secret-of-the-command"
SMALL = fixture("indexfull-4.9.8")
FLEET = (SMALL, fixture("plain-5.5.1"))

_DRIVER = """
import sys
from pyspark.sql import SparkSession
import rmqtool
from rmqtool.projection import json_object
from rmqtool.report.output import to_json
master, store, out, scratch, *settings = sys.argv[1:]
builder = SparkSession.builder.master(master)
for setting in settings:
    builder = builder.config(*setting.split("=", 1))
spark = builder.getOrCreate()
with rmqtool.open(store) as opened:
    opened.rebuild(out, engine=spark)
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
        for one in FLEET:
            upload(port, one, f"bucket/fleet/{one.name}")
        name_server(patch, port)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        yield port


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where temporary files lie: of the driver in ``driver``, of Spark in ``local``."""
    folder = tmp_path_factory.mktemp("objects")
    for name in ("driver", "local"):
        (folder / name).mkdir()
    return folder


@pytest.fixture(scope="module")
def cluster(server: int, folder: Path) -> Iterator[Cluster]:
    """Run two workers that see none of the driver's temporary files and variables of S3, but their own."""
    del server
    require_views()
    one = Cluster(required_java(), folder)
    try:
        one.start_master()
        for name in ("one", "two"):
            mounts = (f"mount -t tmpfs none {folder / hidden}" for hidden in ("driver", "local"))
            one.add_worker(name, view=" && ".join([*mounts, f"unset {' '.join(LENT)}"]))
        yield one
    finally:
        one.stop()


def run_driver(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder / "driver"), "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(
        [sys.executable, *words],
        env=os.environ | own,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@contextmanager
def watched_command_lines() -> Iterator[set[str]]:
    """Yield what becomes the command lines of all processes of the machine that hold the secret."""
    shown: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            for one in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):  # it has ended
                    if SECRET in (line := one.read_text(errors="replace")):
                        shown.add(line)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield shown
    finally:
        over.set()
        thread.join()


def settings_of(folder: Path) -> list[str]:
    settings = {**SETTINGS, "spark.local.dir": str(folder / "local"), "spark.ui.enabled": "false"}
    return [f"{name}={value}" for name, value in settings.items()]


def check_made(out: str, store: Path, here: Path, *more: str) -> None:
    """Check that a result is the one that this process makes."""
    assert main(["rebuild", str(store), "--out", str(here), "--engine", "local", "-q", *more]) == 0
    found, expected = whole_result(out), files_below(here)
    assert found.keys() == expected.keys() == names_below(out) - {MANIFEST_NAME}
    assert all(found[name] == expected[name] for name in expected.keys() - {"rebuild.json"})


def test_a_cluster_that_shares_no_folder(cluster: Cluster, folder: Path, tmp_path: Path) -> None:
    done = run_driver(folder, "-c", _DRIVER, cluster.master, STORE, OUT, SCRATCH, *settings_of(folder))
    assert done.returncode == 0, done.stderr[-3000:]
    check_made(OUT, SMALL, tmp_path / "made")
    assert names_below(SCRATCH) == set()
    assert [*(folder / "driver").iterdir()] == []
    with rmqtool.open(STORE) as store:
        here = json.loads(to_json(json_object(store.verify())))
    report = json.loads(done.stdout.splitlines()[-1])
    assert {**report, "seconds": None} == {**here, "seconds": None}
    assert report["examined"]["records"] == 57


def documents_of(text: str) -> list[dict[str, Any]]:
    """Return what is said of each store, but how long it took."""
    found = [one["document"] for one in json.loads(text)["stores"]]
    return [{**one, "seconds": None} for one in found]


def test_several_stores_are_one_run_there(cluster: Cluster, folder: Path, tmp_path: Path) -> None:
    """From object storage into object storage; what is done is not done again."""
    out = f"{OUT}-fleet"
    conf = [word for setting in settings_of(folder) for word in ("--spark-conf", setting)]
    where = ("--engine", "spark", "--master", cluster.master, *conf)
    words = ("-m", "rmqtool", "rebuild", "s3://bucket/fleet/*", "--out", out, "--resume", *where)
    with watched_command_lines() as shown:
        done = run_driver(folder, *words)
    assert done.returncode == 0, done.stderr[-3000:]
    assert shown == set()
    for store in FLEET:
        check_made(f"{out}/{store.name}", store, tmp_path / store.name)
    verify = ("-m", "rmqtool", "verify", "s3://bucket/fleet/*", "--format", "json")
    there, here = (run_driver(folder, *verify, *more) for more in (where, ("--engine", "local")))
    assert (there.returncode, here.returncode) == (0, 0), there.stderr[-3000:]
    assert documents_of(there.stdout) == documents_of(here.stdout)
    made = objects_below(out)
    again = run_driver(folder, *words)
    assert again.returncode == 0, again.stderr[-3000:]
    assert objects_below(out) == made
    assert [*(folder / "driver").iterdir()] == []
