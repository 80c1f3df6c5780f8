"""The command line with a task that takes its time, so that a signal meets it at a known moment.

Run as ``python -c "from tests.cli.holding import main; main()" MOMENT MARKS WORDS…``: a file appears in MARKS
when the moment has come. Spark's workers import this module by name.
"""

from __future__ import annotations

import importlib
import signal
import sys
import time
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqtool.cli import main as rmqtool_main

if TYPE_CHECKING:
    from collections.abc import Callable

HOLD_S = 1.0
SPLIT_BYTES = 2048
_HELD = {
    "log": "rmqtool.check.log:read_split",
    "derived": "rmqtool.check.derived:run_guarded",
    "manifest": "rmqtool.commands.verify.manifest:make_manifest",
    "prediction": "rmqtool.recovery.predict:predict_recovery",
    "emit": "rmqtool.reput.pipeline:emit_queues",
}


def hold(marks: Path, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - any work
    """Do the work, and take longer than a signal; the first split of a log is quick."""
    split = getattr(arguments[0], "split", None)
    if split is None or split.start:
        (marks / uuid.uuid4().hex).touch()
        time.sleep(HOLD_S)
    return work(*arguments, **named)


def main() -> None:
    """Run the command line after MOMENT and MARKS."""
    moment, marks, *words = sys.argv[1:]
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup the tests would hand on that it is ignored
    if moment in _HELD:
        module_name, _, name = _HELD[moment].partition(":")
        module = importlib.import_module(module_name)
        setattr(module, name, partial(hold, Path(marks), getattr(module, name)))
    if moment == "log":
        contents = importlib.import_module("rmqtool.check.stages")
        contents.LogCheck = partial(contents.LogCheck, split_bytes=SPLIT_BYTES)  # type: ignore[attr-defined]
        importlib.import_module("rmqtool.check.log")._TASK_BYTES = 0  # type: ignore[attr-defined]
    sys.argv = ["rmqtool", *words]
    sys.exit(rmqtool_main())
