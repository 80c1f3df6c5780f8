"""Executors of a real cluster that have Python and what ``rmqtool spark pack --with-arrow`` made, no more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.cli import main
from rmqtool.engine import spark_pack
from tests.builders import read_result
from tests.engine.cluster import REPOSITORY, SETTINGS, Cluster, required_java
from tests.extra import library
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

PLAIN = fixture("plain-5.3.3")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what the command prints, for a ``python3`` that is another one there."""
    library("pyarrow")
    folder = tmp_path_factory.mktemp("pack")
    printed: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_pack, "_LEVEL", 0)  # compressing is most of the time that it takes
        patch.setattr("click.echo", printed.append)
        assert main(["spark", "pack", "--with-arrow", "-o", str(folder / "pack.tar.gz")]) == 0
    options = re.findall(r"--spark-conf (\S+)=(\S+)", "\n".join(printed))
    ours = {name: value for name, value in SETTINGS.items() if not name.endswith("PYTHONPATH")}
    return ours | {"spark.pyspark.python": "python3"} | dict(options)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a worker whose ``python3`` is that of an environment without packages."""
    folder = tmp_path_factory.mktemp("cluster")
    venv.create(folder / "bare", symlinks=True)
    cluster = Cluster(required_java(), folder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{folder / 'bare' / 'bin'}:{os.environ['PATH']}")
            patch.delenv("PYTHONPATH", raising=False)
            url = cluster.start()
        yield url
    finally:
        cluster.stop()


def test_they_rebuild_and_export(master: str, settings: Mapping[str, str], tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    with (
        rmqtool.open(PLAIN) as store,
        rmqtool.open_engine("spark", master=master, spark_conf=settings) as engine,
    ):
        made = store.rebuild(there / "rebuilt", engine=engine)
        rmqtool.export(store, there / "files", engine=engine)
        store.rebuild(here / "rebuilt", engine="local")
        rmqtool.export(store, here / "files")
    assert made.engine == "spark"
    assert read_result(there) == read_result(here)


def test_a_session_reads_tables_by_them(master: str, settings: Mapping[str, str], tmp_path: Path) -> None:
    """In a process of its own: pyspark keeps its Java process for good."""
    told = {**settings, "spark.ui.enabled": "false"}
    session = "".join(f".config({name!r}, {value!r})" for name, value in told.items())
    script = (
        "import rmqtool.spark; from pyspark.sql import SparkSession\n"
        f"spark = SparkSession.builder.master({master!r}){session}.getOrCreate()\n"
        "rmqtool.spark.register(spark)\n"
        f"rows = spark.read.format('rocketmq-store').load({str(PLAIN)!r}).select('msgId', 'body').collect()\n"
        "print(*sorted(f'{row.msgId} {row.body.hex()}' for row in rows), sep='\\n')\n"
    )
    line = [sys.executable, "-c", script]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # what plans a read runs here
    there = {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(line, env=there, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = rmqtool.open(PLAIN).messages()
    assert done.stdout.split("\n")[:-1] == sorted(f"{one.msg_id} {one.body.hex()}" for one in found)
