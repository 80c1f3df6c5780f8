"""Text on a terminal: width, colours, folding of long lines, escapes of hostile characters."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING, TextIO

from rmqtool.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold"}


def uses_color(stream: TextIO, color: bool | None) -> bool:
    """Return whether colours are used; None is: on a terminal, unless NO_COLOR is set."""
    if color is not None:
        return color
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int | None:
    """Return the columns of a terminal, or COLUMNS; None elsewhere, where no line is broken."""
    if not stream.isatty():
        return None
    import shutil  # imports libraries for archives, which no script needs

    return shutil.get_terminal_size().columns


def columns_of(text: str) -> int:
    """Return the columns that text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


class Ink:
    """Writer of text in colours, or plain."""

    def __init__(self, *, color: bool) -> None:
        self._color = color

    def __call__(self, text: str, style: str) -> str:
        """Return text in a style of rich, such as ``bold red``."""
        if not self._color or not text:
            return text
        from rich.color import ColorSystem
        from rich.style import Style

        return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)


_NARROW_INDENT = 4
_LEAST_ROOM = 16


def fold(parts: Iterable[str], width: int | None, indent: int, start: str = "", separator: str = "  ") -> str:
    """Join parts to one line, or to lines of ``width`` columns; each part stays in one piece.

    Lines after the first have ``indent`` columns, less where a part has no room there; ``start`` of the first
    line is as wide.
    """
    words = list(parts)
    if width is None:
        return start + separator.join(words)
    room = max(*map(columns_of, words), _LEAST_ROOM)
    margin = indent if room <= width - indent else _NARROW_INDENT
    lines, used = [start], indent
    for number, word in enumerate(words):
        gap = separator if number and used > margin else ""
        if used > margin and used + len(gap) + columns_of(word) > width and (number or margin < indent):
            lines.append(" " * margin + word)
            used = margin + columns_of(word)
        else:
            lines[-1] += gap + word
            used += len(gap) + columns_of(word)
    return "\n".join(line.rstrip() for line in lines)


def wrapped(text: str, width: int | None) -> list[str]:
    """Return text in lines of up to ``width`` columns; a longer word has a line of its own."""
    if width is None or columns_of(text) <= width:
        return [text]
    return list(_lines(text.split(" "), width))


def _lines(words: Iterable[str], width: int) -> Iterator[str]:
    line = ""
    for word in words:
        if line and columns_of(line) + 1 + columns_of(word) > width:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line


# C0 and C1 controls, line separators, and the marks that turn the direction of writing
_HARMFUL = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""Starts of cells that a spreadsheet takes for a formula."""


def escape_text(text: str) -> str:
    r"""Return ``text`` on one line: control characters as ``\xNN`` or ``\uNNNN``, a backslash doubled."""
    return escape_controls(text.replace("\\", "\\\\"))


def escape_controls(text: str) -> str:
    r"""Return ``text`` with control characters as ``\xNN`` or ``\uNNNN``, and everything else as it is."""
    return text if text.isascii() and text.isprintable() else re.sub(_HARMFUL, _escape, text)


def escape_bytes(data: bytes) -> str:
    r"""Return bytes as UTF-8 text on one line, other bytes as ``\xNN``."""
    return escape_text(data.decode("utf-8", "surrogateescape"))


def escape_json(text: str) -> str:
    r"""Return JSON text with harmful characters, which only its strings can hold, as ``\uNNNN``."""
    return text if text.isascii() and "\x7f" not in text else re.sub(_HARMFUL_JSON, _escape_json, text)


def escape_cell(text: str) -> str:
    r"""Return ``text`` as `escape_text` does, with the start of a formula as ``\xNN``."""
    shown = escape_text(text)
    return f"\\x{ord(shown[0]):02x}{shown[1:]}" if shown.startswith(FORMULA_STARTS) else shown


def is_cell_text(text: str) -> bool:
    """Return whether text can be a cell of csv: no formula, no control but ends of lines and tabs."""
    return not text.startswith(FORMULA_STARTS) and not re.search(_HARMFUL, text.translate(_LAYOUT))


_LAYOUT = {ord(character): None for character in "\t\n\r"}
_HARMFUL_JSON = _HARMFUL.replace("\x00-\x1f", "")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"


def _escape_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
