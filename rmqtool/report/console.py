"""Standard error: remarks, warnings and progress, as a bar on a terminal, as json lines, or not at all."""

from __future__ import annotations

import json
import sys
import time
from enum import StrEnum
from typing import TYPE_CHECKING, TextIO

from rmqtool.progress import expected_s
from rmqtool.report.output import silence, to_json
from rmqtool.report.terminal import escape_controls, width_of, wrapped

if TYPE_CHECKING:
    from rmqtool.report.bar import Bar

_JSON_PERIOD_S = 0.5
_PASTED = "  "
"""Begins a line to paste into a shell, which is not wrapped."""


class ProgressMode(StrEnum):
    """Values of ``--progress``."""

    AUTO = "auto"
    NEVER = "never"
    JSON = "json"


class Console:
    """Everything that is not data: the Progress of a command.

    ``quiet`` leaves out remarks, ``verbose`` adds details. ``color`` None means: on a terminal, unless
    NO_COLOR is set. ``draws_bars`` is False while data goes to the terminal.
    """

    def __init__(
        self,
        mode: ProgressMode = ProgressMode.AUTO,
        *,
        quiet: bool = False,
        verbose: bool = False,
        color: bool | None = None,
    ) -> None:
        self._mode = mode
        self._quiet = quiet
        self._verbose = verbose
        self._log: TextIO | None = None
        self._unlogged: list[str] = []
        self.color = color
        self.draws_bars = True
        self._bar: Bar | None = None
        self._said_compiling = False
        self._stage = ""
        self._total: int | None = None
        self._started = self._shown = 0.0

    def log_to(self, log: TextIO) -> None:
        """Also write every sentence there, shown or not, including those so far."""
        self._log = log
        log.writelines(self._unlogged)
        self._unlogged.clear()

    def stage(self, name: str, total_bytes: int | None) -> None:
        """Begin a stage."""
        self._stage, self._total, self._started, self._shown = name, total_bytes, time.monotonic(), 0.0
        if self._draws_bar():
            self._shown_bar().stage(name, total_bytes)
        self.advance(0)

    def advance(self, done_bytes: int) -> None:
        """Show the progress of the stage."""
        now = time.monotonic()
        if self._bar is not None:
            self._bar.advance(done_bytes)
        elif self._mode is ProgressMode.JSON and now - self._shown >= _JSON_PERIOD_S:
            self._shown = now
            values = {"type": "progress", "stage": self._stage, "doneBytes": done_bytes}
            self._write(
                to_json(values | {"totalBytes": self._total, "seconds": round(now - self._started, 3)})
            )

    def compiling(self, ready: int, kernels: int, under_way: bool) -> None:
        """Show that kernels are being compiled: a bar on a terminal, else one sentence."""
        if self._draws_bar():
            self._shown_bar().compiling(ready, kernels, under_way)
        elif under_way and not self._said_compiling and not self._quiet and self._mode is ProgressMode.AUTO:
            self._said_compiling = True
            seconds = expected_s(0, max(0, kernels - ready), 0.0)
            self._say("note", f"compiling once, about {seconds} s; the next runs need none of it")

    def note(self, sentence: str) -> None:
        """Show a remark."""
        if not self._quiet:
            self._say("note", sentence)
        self._record("note", sentence)

    def detail(self, sentence: str) -> None:
        """Show a detail (``-v``)."""
        if self._verbose:
            self._say("detail", sentence)
        self._record("detail", sentence)

    def warn(self, sentence: str) -> None:
        """Show a warning."""
        self._say("warning", sentence)
        self._record("warning", sentence)

    def error(self, sentence: str) -> None:
        """Show why the command ends."""
        self._say("error", sentence)
        self._record("error", sentence)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _shown_bar(self) -> Bar:
        from rmqtool.report.bar import Bar

        if self._bar is None:
            self._bar = Bar(color=self.color)
        return self._bar

    def _draws_bar(self) -> bool:
        return self.draws_bars and self._mode is ProgressMode.AUTO and not self._quiet and sys.stderr.isatty()

    def _say(self, kind: str, sentence: str) -> None:
        if self._mode is ProgressMode.JSON:
            self._write(to_json({"type": kind, "message": sentence}))
        else:
            text = ("" if kind in {"note", "detail"} else f"{kind}: ") + "\n".join(
                escape_controls(line) for line in sentence.split("\n")
            )
            width = width_of(sys.stderr)
            parts = (
                [line] if line.startswith(_PASTED) else wrapped(line, width) for line in text.split("\n")
            )
            self._write("\n".join(part for lines in parts for part in lines))

    def _write(self, line: str) -> None:
        if self._bar is not None:
            self._bar.print(line)
        else:
            try:
                sys.stderr.write(line + "\n")
                sys.stderr.flush()
            except BrokenPipeError:  # nobody reads remarks; the command goes on
                silence(sys.stderr)

    def _record(self, kind: str, sentence: str) -> None:
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {kind} {json.dumps(sentence)}\n"
        if self._log is None:
            self._unlogged.append(line)
        else:
            self._log.write(line)
            self._log.flush()
