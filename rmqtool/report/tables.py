"""Tables for people, 80 columns wide unless the terminal is wider."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

_WIDTH = 80


class Tables:
    """Draws tables on a stream; cells are plain text, never markup.

    Args:
        stream: Receives them.
        color: Whether colours are used; None is: on a terminal, unless NO_COLOR is set.
    """

    def __init__(self, stream: TextIO, *, color: bool | None = None) -> None:
        is_terminal = stream.isatty()
        if color is None:
            color = is_terminal and not os.environ.get("NO_COLOR")
        self._console = Console(
            file=stream,
            width=None if is_terminal else _WIDTH,
            force_terminal=color or None,
            no_color=not color,
            color_system="auto" if color else None,
            highlight=False,
        )

    def pairs(self, title: str, lines: Sequence[tuple[str, str]]) -> None:
        """Draw names and values."""
        self._console.print(Text(title, style="bold"), soft_wrap=True)
        table = Table(box=None, show_header=False, pad_edge=True)
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in lines:
            table.add_row(Text(name), Text(value))
        self._console.print(table)

    def table(self, title: str, columns: Sequence[str], lines: Sequence[tuple[str, ...]]) -> None:
        """Draw a table; nothing when it has no lines."""
        if not lines:
            return
        table = Table(
            box=box.SIMPLE_HEAD, title=Text(title, style="bold"), title_justify="left", pad_edge=True
        )
        for column in columns:
            table.add_column(column, overflow="fold")
        for line in lines:
            table.add_row(*(Text(cell) for cell in line))
        self._console.print(table)
