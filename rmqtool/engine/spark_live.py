"""The engine on a running Spark: a session, that of ``spark-submit``, a server of Spark Connect."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rmqtool.engine.engines import EngineOptions
from rmqtool.engine.spark_jobs import FrameJobs, Jobs, MappingEngine, RddJobs
from rmqtool.engine.spark_private import is_stopped, submitted_conf
from rmqtool.engine.spark_settings import CLUSTER_SETTINGS, check_master, master_of
from rmqtool.errors import EnvironmentFailureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkContext

HOW_TO_GET_CONNECT = "pip install 'rmqtool[connect]'"
REMOTE = "sc://"
"""Beginning of the URL of a server of Spark Connect."""
_RETRIES = {"max_retries": 8, "max_backoff": 5000}
"""Half a minute for a server that does not answer; pyspark's default is more than ten."""
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
"""Variables by which ``spark-submit`` passes the port of its driver to the application."""


def is_submitted(environment: Mapping[str, str]) -> bool:
    """Return whether ``spark-submit`` has started this process; its Spark is used then."""
    return all(environment.get(name) for name in _GATEWAY)


def is_session(thing: object) -> bool:
    """Return whether a thing is a session or context of pyspark's, of any kind; nothing is imported."""
    names = {(one.__module__.partition(".")[0], one.__name__) for one in type(thing).__mro__}
    return bool(names & {("pyspark", "SparkSession"), ("pyspark", "SparkContext")})


class LiveSparkEngine(MappingEngine):
    """Engine on an open ``SparkSession``, also of Spark Connect, or ``SparkContext``, which stays open.

    An abandoned map is cancelled by its job group: other jobs of the session go on. Of the options, only
    ``scratch`` counts. Raises `UsageError` if the session is stopped.
    """

    def __init__(self, session: Any, options: EngineOptions | None = None) -> None:  # noqa: ANN401 - pyspark's
        self._runner, master = _jobs_of(session)
        super().__init__(replace(options or EngineOptions("spark"), master=master))

    def close(self) -> None:
        """Refuse further work; the session stays open."""
        if not self._closed:
            self._closed = True
            self._threads.shutdown()

    def _jobs(self) -> Jobs:
        return self._runner

    def _abandon(self) -> None:
        self._runner.cancel()


def submitted_engine(options: EngineOptions) -> LiveSparkEngine:
    """Return an engine on the Spark of ``spark-submit``; `UsageError` if the options name another."""
    if options.master or options.spark_conf:
        raise UsageError(
            "spark-submit has set the master and Spark's settings: pass them to spark-submit, not as "
            "--master and --spark-conf"
        )
    # In a thread, because in the main one pyspark would replace the handler of Ctrl-C.
    with ThreadPoolExecutor(1) as thread:
        context = thread.submit(_submitted_context).result()
    return LiveSparkEngine(context, options)


def submitted_master() -> str:
    """Return the master that ``spark-submit`` was given."""
    return str(submitted_conf().get("spark.master"))


def _submitted_context() -> SparkContext:
    from pyspark import SparkContext

    conf = submitted_conf()
    for name, value in {"spark.app.name": "rmqtool", **CLUSTER_SETTINGS}.items():
        conf.setIfMissing(name, value)
    return SparkContext.getOrCreate(conf)


def _jobs_of(session: Any) -> tuple[Jobs, str]:  # noqa: ANN401 - pyspark's
    context = session if type(session).__name__ == "SparkContext" else getattr(session, "sparkContext", None)
    if session.is_stopped if context is None else is_stopped(context):
        raise UsageError("that Spark session has been stopped: pass an open one, or engine='local'")
    if context is None:
        return FrameJobs(session), REMOTE
    return RddJobs(context), context.master


class ConnectEngine(LiveSparkEngine):
    """Engine of tasks on a cluster behind a server of Spark Connect; no Java runs here.

    The settings are those that a session may have.

    Raises:
        UsageError: jobs are given, which the server's cluster decides.
        EnvironmentFailureError: Spark Connect's packages are not installed, no server answers, or the server
            rejects a setting.
    """

    def __init__(self, options: EngineOptions) -> None:
        if options.jobs is not None:
            raise UsageError("--jobs does not apply to Spark Connect: the server's cluster has its own cores")
        url = master_of(options)
        check_master(url, options.spark_conf, os.environ)
        self._session = _connected_session(url, options)
        super().__init__(self._session, options)

    def close(self) -> None:
        """Release the session, which ends what still runs in it."""
        if not self._closed:
            super().close()
            self._session.stop()


def _connected_session(url: str, options: EngineOptions) -> Any:  # noqa: ANN401 - pyspark's
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession
    except ImportError as error:
        raise EnvironmentFailureError(
            f"Spark Connect is not installed ({error}): {HOW_TO_GET_CONNECT} adds it"
        ) from error
    from pyspark.errors import PySparkException

    try:
        session = SparkSession.builder.remote(url).create()
        session.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
        str(session.version)  # the first request to the server
        for name in options.spark_conf.keys() - {"spark.master"}:
            session.conf.set(name, options.spark_conf[name])
    except PySparkException as error:
        reason = str(error).strip().partition("\n")[0]
        raise EnvironmentFailureError(f"{url} returns no session of Spark Connect ({reason})") from error
    return session
