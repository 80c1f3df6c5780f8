"""Real shells on a pseudo terminal, that type a line, press TAB, and show what stands there then."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import sys
import time
from pathlib import Path

import pytest

from tests.cli.waiting import readable

ROOT = Path(__file__).parents[2]
_START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
_SCRIPTS = {
    "bash": "bind 'set enable-bracketed-paste off'; PS1='> '; eval \"$(rmqtool completion bash)\"",
    "zsh": "PS1='> '; autoload -U compinit; compinit -u -D; eval \"$(rmqtool completion zsh)\"",
}
_PATIENCE_S = 120


def program(directory: Path) -> Path:
    """Make a directory for PATH with ``rmqtool``: this checkout's, run by this Python."""
    directory.mkdir()
    script = directory / "rmqtool"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rmqtool "$@"\n')
    script.chmod(0o755)
    return directory


def environment(directory: Path) -> dict[str, str]:
    """Return the environment of a shell that finds ``program``."""
    return {
        "PATH": f"{directory}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
        "HOME": str(directory.parent),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
    }


def require(shell: str) -> None:
    """Skip the test where a shell is not installed."""
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")


class Terminal:
    """A shell on a pseudo terminal.

    Args:
        shell: ``bash`` or ``zsh``.
        directory: Of ``program``.
    """

    def __init__(self, shell: str, directory: Path) -> None:
        self._process, self._terminal = pty.fork()
        if not self._process:
            os.chdir(ROOT)
            os.execvpe(shell, _START[shell], environment(directory))
        self._write(_SCRIPTS[shell] + "; echo re''ady\n")
        self._read_until("ready")

    def completed(self, line: str) -> str:
        """Type a line and TAB, run it as the arguments of ``printf``, and return them, a word each."""
        self._write(f"{line}\t")
        self._write("\x01" + "printf '[%s]' \x05 'do''ne'\n")
        shown = self._read_until("[done]")
        return shown[shown.index("[rmqtool]") : shown.rindex("[done]")]

    def close(self) -> None:
        """End the shell."""
        os.close(self._terminal)
        os.waitpid(self._process, 0)

    def _write(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def _read_until(self, mark: str) -> str:
        shown = ""
        deadline = time.monotonic() + _PATIENCE_S
        while mark not in shown:
            assert readable(self._terminal, deadline - time.monotonic()), f"no {mark!r} in {shown!r}"
            shown += os.read(self._terminal, 65536).decode(errors="replace")
        return shown
