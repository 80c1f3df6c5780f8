"""Text report: verdict, figures, tables, findings, next step. The one shape of all commands' texts.

It is as wide as the terminal; elsewhere a row is one line, however long. Where a terminal is too narrow, the
widest texts of a table are wrapped between words. Numbers and names are never broken: before that, every row
becomes a paragraph of its own. Texts may hold whatever a store holds: the writer escapes them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TextIO

from rmqtool.findings import Finding, Severity, StoreFinding
from rmqtool.report.sentences import finding_line
from rmqtool.report.terminal import (
    SEVERITY_STYLES,
    Ink,
    columns_of,
    escape_text,
    uses_color,
    width_of,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_NUMBER = re.compile(r"-?[0-9,.]*|-")
_GAP = 2
_SCREEN = 40
"""Lines of a report that are seen at once."""
_LEAST_TEXT = 16
"""Columns that a text must have beside its name, else it goes below it."""

SEVERITY_WORDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def stages_text(seconds: Mapping[str, float]) -> str:
    """Return the seconds that each stage took."""
    return ", ".join(f"{name} {taken:.2f}" for name, taken in seconds.items())


def _store_of(finding: Finding) -> str:
    """Return the start of a finding's line: its store, in a run over several."""
    return f"{finding.store}: " if isinstance(finding, StoreFinding) else ""


class TextReport:
    """Writer of a text report; ``color`` None means: on a terminal, unless NO_COLOR is set.

    ``remark`` says on standard error what comes after the text, before a repeated verdict.
    """

    def __init__(
        self, stream: TextIO, *, color: bool | None = None, remark: Callable[[], object] | None = None
    ) -> None:
        self._stream, self._remark = stream, remark
        self._width = width_of(stream)
        self._lines = 0
        self._ink = Ink(color=uses_color(stream, color))
        self._next: list[tuple[str, str]] = []
        self._verdict = ""

    def verdict(
        self,
        title: str,
        figures: Iterable[tuple[str, str]] = (),
        next_command: str | None = None,
        first: str | None = None,
    ) -> None:
        """Write the verdict, the figures, the command that helps further, and what comes before it."""
        self.pairs(title, figures)
        self._verdict = title
        self._next = [(word, text) for word, text in (("First", first), ("Next", next_command)) if text]
        self._write_next()

    def finish(self) -> None:
        """Write the remarks, and repeat a long report's verdict on a terminal: it has scrolled away."""
        self._stream.flush()
        if self._remark is not None:
            self._remark()
        if self._verdict and self._width is not None and self._lines > _SCREEN:
            self.line("")
            self._write_next()
            self.paragraph(self._verdict, 0, "bold")
        self._verdict = ""

    def _write_next(self) -> None:
        for word, command in self._next:
            text = escape_text(f"{word}: {command}")
            self._write(self._ink(text, "bold"))  # unwrapped, so that it can be pasted

    def pairs(self, title: str, lines: Iterable[tuple[str, str]]) -> None:
        """Write names and values, an empty line above them."""
        if self._lines:
            self.line("")
        self.paragraph(title, 0, "bold")
        known = [(escape_text(name), escape_text(value)) for name, value in lines]
        margin = max((columns_of(name) for name, _ in known), default=0) + 3
        for name, value in known:
            start = f" {_padded(name, margin - 3)}  "
            if self._width is not None and self._width - margin < _LEAST_TEXT:
                self._write(f" {self._ink(name, 'dim')}")
                self._wrap(value, 3)
            else:
                first, *others = wrapped(value, None if self._width is None else self._width - margin)
                self._write(self._ink(start, "dim") + first)
                for line in others:
                    self._write(" " * margin + line)

    def heading(self, severity: Severity, title: str) -> None:
        """Begin the findings of one code."""
        word = self._ink(SEVERITY_WORDS[severity].upper(), SEVERITY_STYLES[severity])
        self._write(f"\n{word} {self._ink(escape_text(title), 'bold')}")

    def findings(self, findings: Iterable[Finding], listed: int = 20) -> None:
        """Write a line for each finding, an empty line above them."""
        lines = [
            f"{finding.code.code} ({finding.severity}): {_store_of(finding)}{finding_line(finding)}"
            for finding in findings
        ]
        for line in ["", *lines[:listed]] if lines else ():
            self.paragraph(line, 0)
        if len(lines) > listed:
            self.line(f"… {len(lines) - listed:,} more, see --format json")

    def table(
        self,
        title: str,
        columns: Sequence[str],
        lines: Sequence[tuple[str, ...]],
        spare: Sequence[str] = (),
        listed: int | None = None,
    ) -> None:
        """Write a table, numbers to the right, an empty line above it; nothing when it has no lines.

        ``spare`` are columns that are left out, the first one first, where the terminal is too narrow;
        ``listed`` is the greatest number of lines.
        """
        if not lines:
            return
        if self._lines:
            self.line("")
        left = 0 if listed is None else len(lines) - listed
        lines = [tuple(map(escape_text, cells)) for cells in lines[:listed]]
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
            title = f"{title}; --format json also has {', '.join(left_out)}"
        self.paragraph(title, 0, "bold")
        if widths is None:
            self._blocks(columns, lines)
        else:
            self._rows(columns, lines, widths)
        if left > 0:
            self.line(f"… {left:,} more, see --format json")

    def _rows(self, columns: Sequence[str], lines: Sequence[tuple[str, ...]], widths: list[int]) -> None:
        right = [all(_NUMBER.fullmatch(cell) for cell in cells) for cells in zip(*lines, strict=True)]
        self._row(columns, widths, right, "bold")
        self._write(self._ink("  " + "─" * (sum(widths) + _GAP * (len(widths) - 1)), "dim"))
        for line in lines:
            self._row(line, widths, right, "")

    def line(self, text: str) -> None:
        """Write a line, which is not wrapped."""
        self._write(escape_text(text))

    def paragraph(self, text: str, indent: int, style: str = "") -> None:
        """Write text, wrapped between words on a terminal."""
        self._wrap(escape_text(text), indent, style)

    def _wrap(self, text: str, indent: int, style: str = "") -> None:
        for line in wrapped(text, None if self._width is None else max(self._width - indent, _LEAST_TEXT)):
            self._write(" " * indent + self._ink(line, style))

    def _write(self, text: str) -> None:
        """Write a line that is harmless already."""
        self._lines += 1
        self._stream.write(text + "\n")

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
            place = max(range(len(widths)), key=lambda number: (slack[number] > 0) * widths[number])
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


def _natural_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(columns_of, column)) for column in zip(*rows, strict=True)]


def _padded(text: str, width: int, *, right: bool = False) -> str:
    blanks = " " * (width - columns_of(text))
    return blanks + text if right else text + blanks
