"""The engine on a Spark that is somebody else's: a live session, or the one of ``spark-submit``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rmqtool.engine.interface import EngineOptions
from rmqtool.engine.spark_map import MappingEngine
from rmqtool.engine.spark_settings import CLUSTER_SETTINGS
from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkContext

    from rmqtool.engine.spark_jobs import Jobs

REMOTE = "sc://"
"""Begins the URL of a server of Spark Connect."""
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
"""By these ``spark-submit`` tells the application that it starts where its driver listens."""


def is_submitted(environment: Mapping[str, str]) -> bool:
    """Tell whether ``spark-submit`` has started this process, whose Spark is its own then."""
    return all(environment.get(name) for name in _GATEWAY)


def is_session(thing: object) -> bool:
    """Tell whether a thing is a session or context of pyspark's, of whatever kind; nothing is imported."""
    names = {(one.__module__.partition(".")[0], one.__name__) for one in type(thing).__mro__}
    return bool(names & {("pyspark", "SparkSession"), ("pyspark", "SparkContext")})


class LiveSparkEngine(MappingEngine):
    """Run items as tasks of a session that is open already, and stays so.

    What is abandoned is cancelled by its job group: other jobs of the session go on.

    Args:
        session: a ``SparkSession``, also of Spark Connect, or a ``SparkContext``.
        options: of which ``scratch`` means something; those of the session by default.

    Raises:
        UsageError: it has been stopped.
    """

    def __init__(self, session: Any, options: EngineOptions | None = None) -> None:  # noqa: ANN401 - pyspark's
        self._runner, master = _jobs_of(session)
        super().__init__(replace(options or EngineOptions("spark"), master=master))

    def close(self) -> None:
        """Take no more work; the session stays as it is."""
        if not self._closed:
            self._closed = True
            self._threads.shutdown()

    def _jobs(self) -> Jobs:
        return self._runner

    def _abandon(self) -> None:
        self._runner.cancel()


def submitted_engine(options: EngineOptions) -> LiveSparkEngine:
    """Return an engine on the Spark that ``spark-submit`` has started this process with.

    Raises:
        UsageError: the options ask for another Spark.
    """
    if options.master or options.spark_conf:
        raise UsageError(
            "spark-submit has set the master and Spark's settings: give them to it, not as --master and"
            " --spark-conf"
        )
    # In a thread, because in the main one pyspark would replace the handler of Ctrl-C.
    with ThreadPoolExecutor(1) as thread:
        context = thread.submit(_submitted_context).result()
    return LiveSparkEngine(context, options)


def submitted_master() -> str:
    """Return the master that ``spark-submit`` was given."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return str(SparkConf().get("spark.master"))


def _submitted_context() -> SparkContext:
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    conf = SparkConf()
    for name, value in {"spark.app.name": "rmqtool", **CLUSTER_SETTINGS}.items():
        conf.setIfMissing(name, value)
    return SparkContext.getOrCreate(conf)


def _jobs_of(session: Any) -> tuple[Jobs, str]:  # noqa: ANN401 - pyspark's
    """Return what runs maps on a session, by its context if it has one, and its master."""
    context = session if type(session).__name__ == "SparkContext" else getattr(session, "sparkContext", None)
    if session.is_stopped if context is None else context._jsc is None:
        raise UsageError("that Spark session has been stopped: give one that is open, or engine='local'")
    if context is None:
        from rmqtool.engine.spark_frames import FrameJobs

        return FrameJobs(session), REMOTE
    from rmqtool.engine.spark_rdd import RddJobs

    return RddJobs(context), context.master
