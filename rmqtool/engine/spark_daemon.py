"""The daemon that forks Spark's Python workers here, once all is imported that they need.

Run by Spark as ``python -m``, for ``spark.python.daemon.module``. Where the driver's process could be copied,
its twin is the daemon instead, see `spark_twin`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING

from rmqtool.engine.spark_twin import ADDRESS, Twin, can_be_copied, hand_over

if TYPE_CHECKING:
    from pathlib import Path

MODULES = "RMQTOOL_WORKER_MODULES"
"""The variable that names modules, with spaces between them."""

_COMMAND, _WORKER = "rmqtool.cli", "pyspark.worker"
_SOCKET = "twin"


def told(folder: Path) -> dict[str, str]:
    """Return the variables by which a daemon is told what to import, and where its twin may be."""
    names = [name for name in sys.modules if name.startswith("rmqtool.") and not name.startswith(_COMMAND)]
    return {MODULES: " ".join([_WORKER, *names]), ADDRESS: str(folder / _SOCKET)}


def copied(folder: Path) -> Twin | None:
    """Return a copy of this process that becomes the daemon; None where there can be none."""
    if not can_be_copied():
        return None
    from pyspark import daemon

    importlib.import_module(_WORKER)
    with contextlib.suppress(OSError):  # then the daemon imports for itself
        return Twin(folder / _SOCKET, daemon.manager) if can_be_copied() else None
    return None


def main() -> None:
    """Import, and fork workers until Spark ends."""
    if hand_over():
        return
    from pyspark import daemon

    for name in os.environ.get(MODULES, "").split():
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
