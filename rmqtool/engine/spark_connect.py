"""The engine on a session of its own at a server of Spark Connect."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rmqtool.engine.spark_live import LiveSparkEngine
from rmqtool.engine.spark_master import check_master
from rmqtool.engine.spark_settings import master_of
from rmqtool.errors import EnvironmentFailureError, UsageError

if TYPE_CHECKING:
    from rmqtool.engine.interface import EngineOptions

HOW_TO_GET_CONNECT = "pip install 'rmqtool[connect]'"

_RETRIES = {"max_retries": 8, "max_backoff": 5000}
"""Half a minute for a server that does not answer; pyspark's own patience is more than ten."""


class ConnectEngine(LiveSparkEngine):
    """Run items as tasks of a cluster behind a server of Spark Connect; no Java runs here.

    Args:
        options: see ``EngineOptions``; the settings are those that a session may have.

    Raises:
        UsageError: jobs are given, which the server's cluster decides on.
        EnvironmentFailureError: what Spark Connect needs is not installed, nobody answers, or the server
            does not take a setting.
    """

    def __init__(self, options: EngineOptions) -> None:
        if options.jobs is not None:
            raise UsageError("--jobs says nothing to Spark Connect: the server's cluster has its own cores")
        url = master_of(options)
        check_master(url, options.spark_conf, os.environ)
        self._session = _open_session(url, options)
        super().__init__(self._session, options)

    def close(self) -> None:
        """Release the session, which ends what still runs in it."""
        if not self._closed:
            super().close()
            self._session.stop()


def _open_session(url: str, options: EngineOptions) -> Any:  # noqa: ANN401 - pyspark's
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
        str(session.version)  # the first question that the server has to answer
        for name in options.spark_conf.keys() - {"spark.master"}:
            session.conf.set(name, options.spark_conf[name])
    except PySparkException as error:
        reason = str(error).strip().partition("\n")[0]
        raise EnvironmentFailureError(f"{url} gives no session of Spark Connect ({reason})") from error
    return session
