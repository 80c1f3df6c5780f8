"""The command line with a task that takes its time, so that a signal meets it at a known moment.

Run as ``python -c "from tests.cli.holding import main; main()" MOMENT MARKS WORDS…``: a file appears in MARKS
when the moment has come. Spark's workers import this module by name.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqtool.cli import fleet
from rmqtool.cli import main as rmqtool_main
from rmqtool.cli.fleet import MakingQuestion
from rmqtool.commands.fleet import _Asking
from rmqtool.progress import RecordingProgress

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.api.store import Store
    from rmqtool.commands.fleet import ResumedReport
    from rmqtool.engine import Engine
    from rmqtool.errors import ExitStatus
    from rmqtool.progress import Progress

HOLD_S = 1.0
_ASKER, _MARK = "RMQTOOL_TEST_ASKER", "RMQTOOL_TEST_MARK"
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
    sys.argv = ["rmqtool", *words]
    sys.exit(rmqtool_main())


class HeldQuestion(MakingQuestion[Any]):
    """A rebuild that takes its time in a worker, just before its result appears."""

    def __call__(
        self, store: Store, engine: Engine, progress: Progress
    ) -> tuple[ResumedReport[Any], ExitStatus]:
        """Rebuild a store."""
        here = os.environ[_ASKER] == str(os.getpid())
        return super().__call__(store, engine, progress if here else _Held(progress))


class _Held(RecordingProgress):
    def stage(self, name: str, total_bytes: int | None) -> None:
        super().stage(name, total_bytes)
        if name == "publish":
            Path(os.environ[_MARK]).touch()
            time.sleep(60 * HOLD_S)


def main_with_workers() -> None:
    """Run the command line after MARK, with two workers behind the first store."""
    mark, *words = sys.argv[1:]
    os.environ[_ASKER], os.environ[_MARK] = str(os.getpid()), mark
    fleet.MakingQuestion = HeldQuestion  # type: ignore[misc]
    setattr(_Asking, "_workers_for", lambda _asking, answered, left: min(2, left) if answered else 0)  # noqa: B010
    sys.argv = ["rmqtool", *words]
    sys.exit(rmqtool_main())
