from __future__ import annotations

import subprocess
import sys


def test_scalar_forms_load_neither_numpy_nor_numba() -> None:
    script = (
        "import sys, rmqtool.javacompat, rmqtool.javacompat\n"
        "sys.exit(' '.join(name for name in ('numpy', 'numba', 'llvmlite') if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
