"""Task on an executor, and the way of its failure to the driver.

Spark passes a failure of a Python task to the driver as text: the traceback. An exception of ours is pickled
into that text, so that ``map`` raises it unchanged. Raising it, rather than returning it, keeps Spark's own
handling of failures: another attempt, perhaps on an executor that has what this one lacks, and the end of the
job if none helps.
"""

from __future__ import annotations

import base64
import gc
import pickle
import re
import traceback
from typing import TYPE_CHECKING, TypeVar

from rmqtool.engine.interface import EngineError
from rmqtool.errors import EnvironmentFailureError, RmqtoolError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
R = TypeVar("R")

_MARK = "rmqtool-task-failure:"

_NEEDED = frozenset(
    {"rmqtool", "numpy", "numba", "llvmlite", "construct", "lz4", "backports", "pyspark", "pyarrow"}
)
"""Modules that an executor imports."""


class CarriedFailureError(Exception):
    """A failure on its way through Spark; its text holds the pickled error after a mark."""


def run_task(function: Callable[[T], R], item: T) -> R:
    """Run the function; a failure becomes a `CarriedFailureError`, which ``failure_of`` unpacks."""
    try:
        return function(item)
    except Exception as error:
        raise CarriedFailureError(_pack(_as_ours(error))) from error
    finally:
        _keep_modules(function)


_KEPT: set[str] = set()
"""Functions that this process has run."""


def _keep_modules(function: Callable[[T], R]) -> None:
    """Exclude a function's modules from garbage collection, which Spark runs after every task.

    ``pyspark/daemon.py`` collects each time, 35 ms with our modules loaded.
    """
    name = repr(function)
    if name not in _KEPT:
        _KEPT.add(name)
        gc.collect()
        gc.freeze()


_SENTENCES = {
    "stopped SparkContext": "Spark's master does not answer or ended the application: its logs say why",
    "Python worker exited unexpectedly": "a Python worker of Spark was killed, perhaps for lack of memory",
    "due to node and executor excludeOnFailure": (
        "Spark has no executor left for a task: each has failed before, and its settings"
        " spark.excludeOnFailure.* exclude those; its logs say with what"
    ),
}
"""Explanations of failures, by words of Spark's report."""


def failure_of(report: str) -> RmqtoolError:
    """Return the failure in Spark's report of a failed job: the text of its Java exception."""
    if carried := re.search(_MARK + r"([A-Za-z0-9+/=]+)", report):
        error: RmqtoolError = pickle.loads(base64.b64decode(carried[1]))
        return error
    if missing := re.search(r"No module named '?([\w.]+)", report):
        return _missing_module(missing[1], report)
    if re.search(r"PYTHON_VERSION_MISMATCH|Cannot run program", report):
        return EnvironmentFailureError(
            "the executors cannot run this Python: every one needs the same version, at the path that"
            f" --spark-conf spark.pyspark.python names ({_reason(report)})"
        )
    known = next((sentence for sign, sentence in _SENTENCES.items() if sign in report), None)
    return EngineError(known or f"Spark failed: {_reason(report)}", report)


def _as_ours(error: Exception) -> RmqtoolError:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _missing_module(error.name, traceback.format_exc())
    if isinstance(error, RmqtoolError) and _survives_pickling(error):
        return error
    summary = "".join(traceback.format_exception_only(error)).strip()
    return EngineError(f"a task failed: {summary}", traceback.format_exc())


def _missing_module(name: str, report: str) -> RmqtoolError:
    if name.partition(".")[0] not in _NEEDED:
        return EngineError(f"a task failed: no Python module {name} where it ran", report)
    return EnvironmentFailureError(
        f"the Spark executors have no Python module {name}: every one needs the same Python with rmqtool "
        "and its dependencies, installed or from an archive that rmqtool spark pack makes; or use "
        "--engine local"
    )


def _survives_pickling(error: RmqtoolError) -> bool:
    """A constructor that needs more than its message fails to unpickle."""
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except (pickle.PicklingError, AttributeError, TypeError, ValueError):  # it travels as text then
        return False


def _pack(error: RmqtoolError) -> str:
    return _MARK + base64.b64encode(pickle.dumps(error)).decode()


def _reason(report: str) -> str:
    """Return the most informative line: of nested messages the last cause, else the first sentence."""
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    if causes:
        return causes[-1][:300]
    said = next((n for n, line in enumerate(lines, start=1) if not line.endswith(":")), len(lines))
    return " ".join(lines[:said])[:300] or "no reason given"
