"""README's examples: found, run, and written back with ``python -m tests.house.readme``."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from rmqtool.cli.group import COMMANDS
from rmqtool.report.catalogue_table import catalogue_table
from rmqtool.report.row_table import row_table

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RMQTOOL = str(Path(sys.executable).with_name("rmqtool"))

_PATIENCE_S = 120
_BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=```)", re.DOTALL)
_STEP = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_HELP = re.compile(r"(?<=<!-- help -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
_CATALOGUE = re.compile(r"(?<=<!-- catalogue -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)

_ROWS = re.compile(r"(?<=<!-- rows -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)


class Step(NamedTuple):
    """One command of a session with the output that README shows."""

    command: str
    output: str


def sessions(text: str) -> list[list[Step]]:
    """Return the console blocks, each a list of steps that share a directory."""
    return [[Step(*step) for step in _STEP.findall(block)] for block in _BLOCK.findall(text)]


def run(command: str, scratch: Path) -> str:
    """Return what a step shows on a terminal of 80 columns, standard output first.

    ``$OUT`` is a directory that does not exist yet.
    """
    out = str(scratch / "out")
    script = f'rmqtool() {{ {shlex.quote(RMQTOOL)} "$@"; }}; {command.replace("$OUT", out)}'
    terminal, inside = pty.openpty()
    try:
        with tempfile.TemporaryFile() as remarks:
            process = subprocess.Popen(
                ["bash", "-c", script],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=inside,
                stderr=remarks,
                env=_environment(scratch),
            )
            os.close(inside)
            data = b"".join(iter(lambda: _read(terminal), b""))
            process.wait(_PATIENCE_S)
            remarks.seek(0)
            data += remarks.read()
    finally:
        os.close(terminal)
    shown = data.decode().replace("\r\n", "\n").replace(out, "$OUT").replace(f"{ROOT}/", "")
    return "".join(f"{line.rstrip()}\n" for line in re.sub(r"\b\d+\.\d\d\b", "0.00", shown).splitlines())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's end of file: nobody holds the other end
        return b""


def _environment(scratch: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "COLUMNS": "80",
        "TERM": "xterm",
        "NO_COLOR": "1",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(scratch.parent),
    } | here()


def here() -> dict[str, str]:
    """Return the environment in which a command is this checkout's, and finds compiled kernels."""
    return {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(Path("~/.cache").expanduser())}


def help_texts() -> str:
    """Return the reference: the help of every command."""
    parts = []
    for name in COMMANDS:
        with tempfile.TemporaryDirectory() as scratch:
            text = run(f"rmqtool {name} --help", Path(scratch))
        parts.append(f"\n### `rmqtool {name}`\n\n```text\n{text}```\n")
    return "".join(parts) + "\n"


def refreshed(text: str) -> str:
    """Return README with every output as it is now."""

    def session(block: re.Match[str]) -> str:
        with tempfile.TemporaryDirectory() as scratch:
            return _STEP.sub(lambda step: f"$ {step[1]}\n{run(step[1], Path(scratch))}", block[0])

    text = _CATALOGUE.sub(lambda _: catalogue_table(), _BLOCK.sub(session, text))
    text = _ROWS.sub(lambda _: row_table(), text)
    return _HELP.sub(lambda _: help_texts(), text)


if __name__ == "__main__":
    README.write_text(refreshed(README.read_text()))
