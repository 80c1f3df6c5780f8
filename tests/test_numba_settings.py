"""A file of the working directory must not steer the compiler: whoever looks at evidence stands in it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_ASKED = """\
import sys, warnings
sys.path.insert(0, "installed") if sys.argv[1] == "with" else sys.modules.update(yaml=None)
warnings.simplefilter("error")
from rmqtool.kernels.jit import kernel, numba
numba.core.config.reload_config()
print(numba.config.DISABLE_JIT, "coverage" in sys.modules, sys.modules.get("yaml"))
if sys.argv[1] == "with":
    import coverage, yaml
"""
_YAML = """\
def safe_load(stream):
    import re
    return {"disable_jit": 1} if "good" in stream.read() else 1 / 0
"""


@pytest.mark.parametrize("installed", ["with", "without"])
@pytest.mark.parametrize("content", ["good: 1\n", "[\n"])
def test_a_configuration_in_the_working_directory_is_left_alone(
    tmp_path: Path, installed: str, content: str
) -> None:
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "yaml.py").write_text(_YAML)
    (tmp_path / "installed" / "coverage.py").write_text("")
    (tmp_path / ".numba_config.yaml").write_text(content)
    line = [sys.executable, "-P", "-c", _ASKED, installed]
    run = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "0 False None\n", "")
