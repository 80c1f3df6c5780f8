"""Run jobs with the package of one checkout, all in this process, and keep what they print, return and write.

``PYTHONPATH=CHECKOUT python side.py CHECKOUT JOBS OUT PART PARTS``, as the driver starts it. It imports
nothing of the tests: on the old side, they are the old ones.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

_SECONDS_A_COMMAND = 600


def _overdue(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"a command took more than {_SECONDS_A_COMMAND} s")


def _run(words: list[str], step: int) -> None:
    """Run one command line with its outputs in files of the working directory, by file descriptor."""
    from rmqtool.cli import main

    sys.argv = ["rmqtool", *words]  # as records of runs keep it
    kept = os.dup(1), os.dup(2)
    signal.signal(signal.SIGALRM, _overdue)
    signal.alarm(_SECONDS_A_COMMAND)
    try:
        for descriptor, name in ((1, "out"), (2, "err")):
            file = os.open(f"{name}.{step}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, descriptor)
            os.close(file)
        try:
            status: object = main(words)
        except (Exception, SystemExit) as error:  # such an end is a difference, too
            status = f"{type(error).__name__}: {error}"
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        signal.alarm(0)
        for descriptor, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)
    Path(f"status.{step}").write_text(f"{status}\n")


def run_job(job: dict[str, Any], folder: Path) -> None:
    """Run the command lines of a job in a folder of its own."""
    folder.mkdir(parents=True)
    os.chdir(folder)
    if job["copy"]:
        shutil.copytree(job["store"], "store", symlinks=True)
    for step, words in enumerate(job["lines"]):
        _run(words, step)


def main() -> None:
    """Run one part of the jobs; the first part also writes the public names."""
    import rmqtool

    checkout, jobs, out, part, parts = sys.argv[1:]

    if not Path(rmqtool.__file__).is_relative_to(Path(checkout)):
        raise SystemExit(f"{rmqtool.__file__} is not in {checkout}")
    with Path(jobs).open() as lines:
        for number, line in enumerate(lines):
            if number % int(parts) == int(part):
                run_job(json.loads(line), Path(out, f"{number:05d}"))
                (Path(out) / f"{number:05d}.done").touch()
    if part == "0":
        script = Path(__file__).resolve().parents[1] / "api" / "signatures.py"
        Path(out, "signatures.txt").write_text(runpy.run_path(str(script))["signatures"]())


if __name__ == "__main__":
    main()
