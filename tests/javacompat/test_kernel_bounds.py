from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run Python with numba's checks; kernels that have them lie in a folder of their own."""
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.full
def test_no_kernel_leaves_its_buffer() -> None:
    """All of test_kernels.py holds when numba checks every index; else a wrong one goes unnoticed."""
    done = _run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/javacompat/test_kernels.py"])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full
def test_a_kernel_that_leaves_its_buffer_is_noticed() -> None:
    script = (
        "import numpy, rmqtool.kernels.checksums as kernels\n"
        "from tests.compiled import from_python\n"
        "from_python(kernels.crc32)(numpy.zeros(20, numpy.uint8), 0, 32, 0)\n"
    )
    done = _run(["-c", script])
    assert done.returncode == 1
    assert "IndexError" in done.stderr
