"""Tables and paragraphs as wide as the terminal; elsewhere a row is one line, however long.

Where a terminal is too narrow, the widest texts of a table are wrapped between words. Numbers and names are
never broken: before that, every row becomes a paragraph of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TextIO

from rmqtool.report.terminal import Ink, columns_of, uses_color, width_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = re.compile(r"-?[0-9,.]*|-")
_GAP = 3
_LEAST_TEXT = 16
"""Columns that a text must have beside its name, else it goes below it."""


class Tables:
    """Writer of tables of plain text; ``color`` None is: on a terminal, unless NO_COLOR is set."""

    def __init__(self, stream: TextIO, *, color: bool | None = None) -> None:
        self._stream = stream
        self._width = width_of(stream)
        self._begun = False
        self._ink = Ink(color=uses_color(stream, color))

    def pairs(self, title: str, lines: Sequence[tuple[str, str]]) -> None:
        """Write names and values."""
        for line in wrapped(title, self._width):
            self._write(self._ink(line, "bold"))
        margin = max((columns_of(name) for name, _ in lines), default=0) + 3
        for name, value in lines:
            start = f" {_padded(name, margin - 3)}  "
            if self._width is not None and self._width - margin < _LEAST_TEXT:
                self._write(f" {self._ink(name, 'dim')}")
                self.paragraph(value, 3)
            else:
                first, *others = wrapped(value, None if self._width is None else self._width - margin)
                self._write(self._ink(start, "dim") + first)
                for line in others:
                    self._write(" " * margin + line)

    def table(
        self,
        title: str,
        columns: Sequence[str],
        lines: Sequence[tuple[str, ...]],
        spare: Sequence[str] = (),
    ) -> None:
        """Write a table, numbers to the right, an empty line above it; nothing when it has no lines.

        ``spare`` are columns that are left out, the first one first, where the terminal is too narrow.
        """
        if not lines:
            return
        if self._begun:
            self._write("")
        left_out = []
        for name in spare:
            if self._excess(_natural_widths([columns, *lines])) <= 0:
                break
            left_out.append(name)
            place = columns.index(name)
            columns = (*columns[:place], *columns[place + 1 :])
            lines = [(*cells[:place], *cells[place + 1 :]) for cells in lines]
        widths = self._widths([columns, *lines])
        if left_out:
            title = f"{title} (wider terminals and --format csv have {', '.join(left_out)})"
        for part in wrapped(title, self._width):
            self._write(self._ink(part, "bold"))
        if widths is None:
            self._blocks(columns, lines)
            return
        right = [all(_NUMBER.fullmatch(cell) for cell in cells) for cells in zip(*lines, strict=True)]
        self._row(columns, widths, right, "bold")
        self._write(self._ink("  " + "─" * (sum(widths) + _GAP * (len(widths) - 1)), "dim"))
        for line in lines:
            self._row(line, widths, right, "")

    def paragraph(self, text: str, indent: int, style: str = "") -> None:
        """Write text, wrapped between words on a terminal."""
        for line in wrapped(text, None if self._width is None else max(self._width - indent, _LEAST_TEXT)):
            self._write(" " * indent + self._ink(line, style))

    def _widths(self, rows: Sequence[Sequence[str]]) -> list[int] | None:
        """Return the columns' widths, the widest reduced where necessary; None if that is not enough."""
        widths = _natural_widths(rows)
        excess = self._excess(widths)
        cells = zip(*rows, strict=True)
        least = [max(max(map(columns_of, cell.split()), default=0) for cell in column) for column in cells]
        while excess > 0:
            slack = [width - low for width, low in zip(widths, least, strict=True)]
            if not any(slack):
                return None
            place = max(range(len(widths)), key=lambda one: (slack[one] > 0) * widths[one])
            widths[place] -= 1
            excess -= 1
        return widths

    def _excess(self, widths: Sequence[int]) -> int:
        """Return by how many columns a table is wider than the terminal; elsewhere it never is."""
        return 0 if self._width is None else 2 + sum(widths) + _GAP * (len(widths) - 1) - self._width

    def _row(self, cells: Sequence[str], widths: list[int], right: list[bool], style: str) -> None:
        broken = [wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
        for number in range(max(map(len, broken))):
            parts = [lines[number] if number < len(lines) else "" for lines in broken]
            shown = (
                _padded(part, width, right=to_right)
                for part, width, to_right in zip(parts, widths, right, strict=True)
            )
            self._write(f"  {self._ink((' ' * _GAP).join(shown).rstrip(), style)}")

    def _blocks(self, columns: Sequence[str], lines: Sequence[tuple[str, ...]]) -> None:
        """Write each row as a paragraph: its first cell, and the others below with their column's name."""
        margin = max(map(columns_of, columns[1:]), default=0)
        for first, *others in lines:
            self._write(f"  {first}")
            for column, cell in zip(columns[1:], others, strict=True):
                if cell:
                    self._write(f"    {_padded(column, margin)}  {cell}")

    def _write(self, line: str) -> None:
        self._begun = True
        self._stream.write(line + "\n")


def _natural_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(columns_of, column)) for column in zip(*rows, strict=True)]


def _padded(text: str, width: int, *, right: bool = False) -> str:
    blanks = " " * (width - columns_of(text))
    return blanks + text if right else text + blanks
