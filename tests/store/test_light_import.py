"""Opening a store must not cost what only the pipeline needs."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"numpy", "numba", "pyspark", "pandas", "click", "rich"}


def test_store_and_findings_import_nothing_heavy() -> None:
    code = "import sys, rmqtool.store.layout, rmqtool.store.staging, rmqtool.store.lock; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())
