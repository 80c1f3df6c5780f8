"""The Spark context over a Java process that is already there, and what pyspark keeps in globals for it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from py4j import java_gateway
from py4j.java_collections import ListConverter, MapConverter, SetConverter
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext, SparkFiles
from pyspark.java_gateway import launch_gateway

from rmqtool.engine.spark_java import ADVICE
from rmqtool.engine.spark_rdd import RddJobs
from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py4j.clientserver import ClientServer
    from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer

    from rmqtool.engine.spark_jvm import GatewayAddress

# py4j reports broken connections to the root logger, which prints them where nobody has configured logging.
# Its own logger is where they belong, and is silent by default.
java_gateway.logging = java_gateway.logger


class Session:
    """Connect to a driver and create its one Spark context.

    Call it in a thread that is not the main one: there pyspark would replace the handler of Ctrl-C.
    pyspark allows one context in a process, so one session at a time.

    Args:
        address: where the driver listens.
        python: interpreter for the workers.

    Attributes:
        jobs: runs maps.
    """

    def __init__(self, address: GatewayAddress, python: str) -> None:
        self._path_before = list(sys.path)
        self._gateway = _connect(address)
        try:
            with _unchanged_environment():
                self._context = SparkContext(gateway=self._gateway)
        except (Py4JError, OSError) as error:
            reason = _first_line(error)  # now: once we have let go of the driver, it cannot be asked
            self._forget()
            raise EnvironmentFailureError(f"Spark did not start ({reason}): {ADVICE}") from None
        self._context.pythonExec = python
        self.jobs = RddJobs(self._context)
        # A driver that dies amid an update must not put a traceback on the terminal.
        self._context._accumulatorServer.handle_error = _no_report

    def close(self) -> None:
        """Let go of a driver that has ended, so that this process can open another.

        ``SparkContext.stop`` is for living ones, and takes more than a second.
        """
        self._context._jsc = None
        server, self._context._accumulatorServer = self._context._accumulatorServer, None
        # Its shutdown waits for the end of a polling interval of half a second: not our time.
        threading.Thread(target=_shut_down, args=[server], name="rmqtool-spark-close", daemon=True).start()
        self._forget()

    def _forget(self) -> None:
        self._gateway.close()
        with contextlib.suppress(
            Py4JError, OSError
        ):  # ends py4j's finalizer thread; the driver itself is gone
            self._gateway.shutdown()
        SparkContext._active_spark_context = None
        SparkContext._gateway = None
        SparkContext._jvm = None
        SparkFiles._sc = None
        sys.path[:] = [entry for entry in sys.path if entry in self._path_before]


def _shut_down(server: AccumulatorUnixServer | AccumulatorTCPServer) -> None:
    with contextlib.suppress(FileNotFoundError):  # its socket goes away with our folder, perhaps just now
        server.shutdown()


def _connect(address: GatewayAddress) -> ClientServer:
    """Open pyspark's gateway to the driver; environment variables are its only way to be told where."""
    if SparkContext._gateway is not None:
        raise EnvironmentFailureError(
            "this process has a Spark session already, and pyspark allows one at a time: close it first"
        )
    with _unchanged_environment():
        os.environ["PYSPARK_GATEWAY_PORT"] = str(address.port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = address.secret
        gateway = launch_gateway()
    # Those of pyspark for numpy's types import pandas and pyarrow to find out whether there is numpy.
    gateway._gateway_client.converters = [SetConverter(), MapConverter(), ListConverter()]
    return gateway


@contextlib.contextmanager
def _unchanged_environment() -> Iterator[None]:
    """Take back the environment variables that pyspark sets, and that it is told things by."""
    before = _spark_variables()
    try:
        yield
    finally:
        for name in _spark_variables().keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _spark_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(("SPARK_", "PYSPARK_"))}


def _no_report(request: object, client_address: object) -> None:
    """Stand in for ``BaseServer.handle_error``, which prints."""


def _first_line(error: BaseException) -> str:
    try:
        reason = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
    except (Py4JError, OSError):  # the driver has ended meanwhile
        reason = "its Java process ended"
    return str(reason).strip().partition("\n")[0]
