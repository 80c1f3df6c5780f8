"""A rebuild that stops in its emit stage and waits there to be killed.

Run as ``python -m tests.commands.interrupted STORE OUT``; it says ``emitting`` once files are there.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from rmqtool.reput import pipeline
from rmqtool.reput.emit_queues import emit_queues
from tests.commands.rebuilding import rebuild_store

if TYPE_CHECKING:
    from rmqtool.reput.queues import EmittedFiles, QueueBundle

SLEEP_S = 60.0


def emit_and_sleep(bundle: QueueBundle) -> EmittedFiles:
    emit_queues(bundle)
    sys.stdout.write("emitting\n")
    sys.stdout.flush()
    time.sleep(SLEEP_S)
    raise AssertionError("nobody killed this process")


def main(store: Path, out: Path) -> int:
    with mock.patch.object(pipeline, "emit_queues", emit_and_sleep):
        try:
            rebuild_store(store, store / "broker.conf", out)
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
