"""The daemon that forks Spark's Python workers here: it imports first what all of them need.

Run by Spark as ``python -m``, for ``spark.python.daemon.module``.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

MODULES = "RMQTOOL_WORKER_MODULES"
"""The variable that names modules, with spaces between them."""

_COMMAND = "rmqtool.cli"


def modules_for_workers() -> str:
    """Return what this process has imported of rmqtool, but for the command line: so will its tasks."""
    names = [name for name in sys.modules if name.startswith("rmqtool.") and not name.startswith(_COMMAND)]
    return " ".join(["pyspark.worker", *names])


def main() -> None:
    """Import, and fork workers until Spark ends."""
    from pyspark import daemon

    for name in os.environ.get(MODULES, "").split():
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
