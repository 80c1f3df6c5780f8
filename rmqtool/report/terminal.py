"""Properties of a stream: its width, its colours, and the columns of a text on it."""

from __future__ import annotations

import os
import unicodedata
from typing import TYPE_CHECKING

from rmqtool.findings import Severity

if TYPE_CHECKING:
    from typing import TextIO

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
        0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF") for one in text
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
