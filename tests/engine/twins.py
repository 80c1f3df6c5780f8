"""A process with a twin, and one that hands over to it, for tests of both.

Run as ``python -m tests.engine.twins copy FOLDER``, or ``call ARGUMENT``.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rmqtool.engine.spark_twin import ADDRESS, Twin, can_be_copied, hand_over


def tell() -> None:
    """Tell what a twin has come to have, and fail."""
    sys.stdout.write(f"{os.getppid()} {sys.argv[1:]} {os.environ['TOLD']} {sys.stdin.read()}")
    sys.stderr.write(f"{tempfile.gettempdir()} \udcff\n")
    raise ValueError("nothing keeps this back")


def copy(folder: Path) -> None:
    """Make a twin, have it called twice, end it."""
    assert can_be_copied()
    assert tempfile.gettempdir() != str(folder)
    locked = (folder / "locked").open("w")
    fcntl.flock(locked, fcntl.LOCK_EX)
    twin = Twin(folder / "socket", tell)
    locked.close()
    own = os.environ | {ADDRESS: str(folder / "socket"), "TOLD": "by whoever asks", "TMPDIR": str(folder)}
    words = [sys.executable, "-m", "tests.engine.twins", "call", "more"]
    done = subprocess.run(words, env=own, input="asked", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert done.stdout == f"{os.getpid()} ['call', 'more'] by whoever asks asked"
    assert done.stderr.startswith(f"{folder} \\udcff\nTraceback")
    assert done.stderr.endswith("ValueError: nothing keeps this back\n")
    with (folder / "locked").open() as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    late = subprocess.run(words, env=own, input="asked", capture_output=True, text=True, check=False)
    assert (late.returncode, late.stdout, late.stderr) == (1, "", "")
    twin.close()


if __name__ == "__main__":
    if sys.argv[1] == "copy":
        copy(Path(sys.argv[2]))
    else:
        sys.exit(not hand_over())
