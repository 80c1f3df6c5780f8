"""Choice of the engine: of this process, on a Spark of its own, or on one that is open already.

Spark's modules load when such an engine opens, as only a run on Spark should pay for them.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec

from rmqtool.engine import Engine, EngineOptions, LocalEngine, options_of
from rmqtool.errors import EnvironmentFailureError, UsageError

HOW_TO_GET_SPARK = "pip install 'rmqtool[spark]'"


def is_spark_installed() -> bool:
    """Return whether the package is installed with its extra ``spark``."""
    return find_spec("pyspark") is not None


def require_spark() -> None:
    """Raise `EnvironmentFailureError` if the package is installed without its extra ``spark``."""
    if not is_spark_installed():
        raise EnvironmentFailureError(
            f"Spark is not installed: {HOW_TO_GET_SPARK} adds it; --engine local needs none"
        )


def runs_elsewhere(engine: EngineOptions | Engine) -> bool:
    """Return whether tasks run on machines that do not see this one's temporary files."""
    options = options_of(engine)
    if options.kind == "local":
        return False
    from rmqtool.engine.spark import is_submitted
    from rmqtool.engine.spark_private import submitted_conf
    from rmqtool.engine.spark_settings import is_private, master_of

    is_ours = not is_submitted(os.environ)
    return not is_private(master_of(options) if is_ours else str(submitted_conf().get("spark.master")))


def open_engine(options: EngineOptions) -> Engine:
    """Open the engine of the options; use it as a context manager, or close it.

    A Spark engine returns while its Java still starts; the first ``map`` waits for it.
    """
    if options.jobs is not None and options.jobs < 1:
        raise UsageError(f"--jobs must be at least 1, not {options.jobs}")
    if options.kind == "local":
        return LocalEngine(options.jobs, options.scratch)
    require_spark()
    # Here, because only a run on Spark should pay for its modules.
    from rmqtool.engine.spark import REMOTE, ConnectEngine, is_submitted, submitted_engine
    from rmqtool.engine.spark_settings import master_of

    if is_submitted(os.environ):
        return submitted_engine(options)
    check_master_form(options)
    if master_of(options).startswith(REMOTE):
        return ConnectEngine(options)
    from rmqtool.engine.spark import SparkEngine

    return SparkEngine(options)


def check_master_form(options: EngineOptions) -> None:
    """Raise `UsageError` if a master is named that Spark does not accept."""
    if options.master is not None or options.spark_conf:
        from rmqtool.engine.spark_settings import check_form

        check_form(options)


def live_engine(session: object, options: EngineOptions | None = None) -> Engine | None:
    """Return an engine on a live session of Spark; None if it is not one, `UsageError` if it is stopped."""
    from rmqtool.engine.spark import LiveSparkEngine, is_session

    return LiveSparkEngine(session, options) if is_session(session) else None


def opened_engine(engine: EngineOptions | Engine) -> AbstractContextManager[Engine]:
    """Return an engine for a ``with``: an open one, which stays open, or a new one."""
    return open_engine(engine) if isinstance(engine, EngineOptions) else nullcontext(engine)
