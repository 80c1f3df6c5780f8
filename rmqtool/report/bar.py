"""The progress bar: stage, bytes, rate and time left."""

from __future__ import annotations

import time

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from rmqtool.progress import expected_s


class _Amount(DownloadColumn):
    """Bytes of a stage, if their number is known, or kernels."""

    def render(self, task: Task) -> Text:
        if task.fields.get("counts_kernels"):
            return Text(f"{int(task.completed)}/{int(task.total or 0)} kernels")
        return Text("") if task.total is None else super().render(task)


class _Speed(TransferSpeedColumn):
    """Rate of a stage; kernels differ too much to have one, and a stage without a total counts nothing."""

    def render(self, task: Task) -> Text:
        is_counted = task.total is not None and not task.fields.get("counts_kernels")
        return super().render(task) if is_counted else Text("")


class Bar:
    """A bar on standard error, removed when the command ends; ``color`` None leaves colours to rich."""

    def __init__(self, *, color: bool | None = None) -> None:
        console = Console(stderr=True, no_color=None if color is None else not color)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            _Amount(binary_units=True),
            _Speed(),
            TimeRemainingColumn(),
        )
        # rich would put itself before both streams, and in releases before 15 they are no terminals then
        self._progress = Progress(
            *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._task: TaskID | None = None
        self._compilation: TaskID | None = None
        self._compiling_since, self._ready_before = 0.0, 0
        self._is_compiled = False
        self._progress.start()

    def stage(self, name: str, total_bytes: int | None) -> None:
        """Begin a stage with an empty bar."""
        self._settle()
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(escape(name), total=total_bytes)

    def advance(self, done_bytes: int) -> None:
        """Move the bar to a number of bytes."""
        self._settle()
        if self._task is not None:
            self._progress.update(self._task, completed=done_bytes)

    def compiling(self, ready: int, kernels: int, under_way: bool) -> None:
        """Show a bar of its own while the command waits for the compiler."""
        if self._compilation is None:
            self._compiling_since, self._ready_before = time.monotonic(), ready
            self._compilation = self._progress.add_task("", counts_kernels=True)
        elapsed_s = time.monotonic() - self._compiling_since
        seconds = expected_s(ready - self._ready_before, max(0, kernels - ready), elapsed_s)
        self._progress.update(
            self._compilation,
            description=f"compiling once, about {seconds} s",
            completed=min(ready, kernels),
            total=kernels,
            visible=True,
            refresh=True,
        )
        self._is_compiled = not under_way

    def print(self, line: str) -> None:
        """Write a line above the bar."""
        self._settle()
        self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Remove the bar."""
        self._settle()
        self._progress.stop()

    def _settle(self) -> None:
        """Move the compiler's bar to its end when the command goes on: no run needs all kernels."""
        if self._compilation is not None and self._is_compiled:
            self._is_compiled = False
            total = next(task.total for task in self._progress.tasks if task.id == self._compilation)
            self._progress.update(self._compilation, completed=total, refresh=True)
            self._progress.update(self._compilation, visible=False, refresh=True)
