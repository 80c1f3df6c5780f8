"""Uses of pyspark's private names: a Spark context over a Java process of ours, and its end.

There is no public way to connect to a running driver, nor to drop one that has ended. Where a name is
missing, as in a future release, `has_private_names` returns False, and `PublicSession` has pyspark start a
driver of its own, a second slower.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.engine.spark_java import ADVICE
from rmqtool.engine.spark_jobs import RddJobs
from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from py4j.clientserver import ClientServer
    from pyspark import SparkConf, SparkContext
    from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer


ADDRESS_VARIABLE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""Variable that names the file where a driver writes its address."""


class GatewayAddress(NamedTuple):
    """Port on loopback where the process listens, and its secret."""

    port: int
    secret: str


def has_private_names() -> bool:
    """Return whether this pyspark has all names that `DriverConnection` uses."""
    from pyspark import SparkContext, SparkFiles, accumulators, context, java_gateway

    classes = {
        SparkContext: ("_gateway", "_jvm", "_active_spark_context", "_ensure_initialized"),
        SparkFiles: ("_sc",),
        java_gateway: ("launch_gateway",),
        accumulators: ("_start_update_server",),
    }
    started = inspect.getsource(java_gateway), inspect.getsource(context)
    return (
        all(hasattr(owner, name) for owner, names in classes.items() for name in names)
        and all(word in started[0] for word in (ADDRESS_VARIABLE, "PYSPARK_GATEWAY_PORT"))
        and all(word in started[1] for word in ("_accumulatorServer", "_jsc"))
    )


def is_stopped(context: SparkContext) -> bool:
    """Return whether a context has been stopped; where pyspark does not say it, its next job will."""
    return getattr(context, "_jsc", context) is None


def submitted_conf() -> SparkConf:
    """Return the settings with which ``spark-submit`` has started this process."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return SparkConf()


class PublicSession:
    """Session of a driver that pyspark starts by its public builder; its Java process ends with this one.

    Call it in a thread that is not the main one: there pyspark would replace the handler of Ctrl-C.
    """

    has_own_driver = True

    def __init__(self, settings: Mapping[str, str], java: Path, python: str) -> None:
        from pyspark.sql import SparkSession

        with _unchanged_environment():
            os.environ |= {"JAVA_HOME": str(java), "PYSPARK_PYTHON": python}
            os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
            try:
                self._session = SparkSession.builder.config(map=dict(settings)).getOrCreate()
            except Exception as error:
                raise EnvironmentFailureError(
                    f"Spark did not start ({_first_line(error)}): {ADVICE}"
                ) from error
        self.jobs = RddJobs(self._session.sparkContext)

    def close(self) -> None:
        """Stop it."""
        self._session.stop()


class DriverConnection:
    """Connection to a driver, with its one Spark context.

    Call it in a thread that is not the main one: there pyspark would replace the handler of Ctrl-C. There can
    be one context in a process, so one session at a time.
    """

    has_own_driver = False

    def __init__(self, address: GatewayAddress, python: str) -> None:
        from py4j.protocol import Py4JError
        from pyspark import SparkContext

        self._path_before = list(sys.path)
        self._gateway = _connect(address)
        try:
            with _unchanged_environment():
                self._context = SparkContext(gateway=self._gateway)
        except (Py4JError, OSError) as error:
            reason = _first_line(error)  # now: after `_forget` the driver cannot answer
            self._forget()
            raise EnvironmentFailureError(f"Spark did not start ({reason}): {ADVICE}") from None
        self._context.pythonExec = python
        self.jobs = RddJobs(self._context)
        # A driver that dies during an update must not put a traceback on the terminal.
        self._context._accumulatorServer.handle_error = _no_report

    def close(self) -> None:
        """Drop a driver that has ended, for which ``SparkContext.stop`` would take more than a second."""
        self._context._jsc = None
        server, self._context._accumulatorServer = self._context._accumulatorServer, None
        # Its shutdown waits for the end of a polling interval of half a second.
        threading.Thread(target=_shut_down, args=[server], name="rmqtool-spark-close", daemon=True).start()
        self._forget()

    def _forget(self) -> None:
        from py4j.protocol import Py4JError
        from pyspark import SparkContext, SparkFiles

        self._gateway.close()
        with contextlib.suppress(
            Py4JError, OSError
        ):  # ends py4j's finalizer thread; the driver itself has ended
            self._gateway.shutdown()
        SparkContext._active_spark_context = None
        SparkContext._gateway = None
        SparkContext._jvm = None
        SparkFiles._sc = None
        sys.path[:] = [entry for entry in sys.path if entry in self._path_before]


def _shut_down(server: AccumulatorUnixServer | AccumulatorTCPServer) -> None:
    with contextlib.suppress(FileNotFoundError):  # its socket is removed with our folder, perhaps just now
        server.shutdown()


def _connect(address: GatewayAddress) -> ClientServer:
    """Open pyspark's gateway to the driver; environment variables are the only way to pass its address."""
    from py4j import java_gateway
    from py4j.java_collections import ListConverter, MapConverter, SetConverter
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    # py4j reports broken connections to the root logger, which prints them where nobody has configured
    # logging. Its own logger is where they belong, and is silent by default.
    java_gateway.logging = java_gateway.logger
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
    """Restore the environment variables that pyspark sets and reads."""
    before = _spark_variables()
    try:
        yield
    finally:
        for name in _spark_variables().keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _spark_variables() -> dict[str, str]:
    names = ("SPARK_", "PYSPARK_", "JAVA_HOME", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name.startswith(names)}


def _no_report(request: object, client_address: object) -> None:
    """Do nothing, in place of ``BaseServer.handle_error``, which prints."""


def _first_line(error: BaseException) -> str:
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        reason = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
    except (Py4JError, OSError):  # the driver has ended meanwhile
        reason = "its Java process ended"
    return str(reason).strip().partition("\n")[0]
