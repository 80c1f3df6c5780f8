"""A real server of Spark Connect on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.engine.cluster import DRIVER_SETTINGS, REPOSITORY, START_TIMEOUT_S, spark_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.engine.spark_java import Java

_SETTINGS = {
    "spark.master": "local[2,4]",  # four attempts for every task, as on a cluster
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    **DRIVER_SETTINGS,
}


@contextmanager
def connect_server(java: Java, folder: Path) -> Iterator[str]:
    """Start a server whose tasks import this package, and yield its URL.

    Args:
        java: runs it.
        folder: for its files.
    """
    words = [str(spark_home() / "bin" / "spark-submit")]
    words += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    words += [word for pair in _SETTINGS.items() for word in ("--conf", "=".join(pair))]
    own = {"JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    own |= {"PYTHONPATH": str(REPOSITORY), "SPARK_LOCAL_DIRS": str(folder)}
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*words, "spark-internal"],
            cwd=folder,
            env=os.environ | own,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield f"sc://127.0.0.1:{_port(log)}"
    finally:
        process.terminate()
        process.wait(START_TIMEOUT_S)


def _port(log: Path) -> int:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not (found := re.search(r"Spark Connect server started at: \S+:(\d+)", log.read_text())):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return int(found[1])
