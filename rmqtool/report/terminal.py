"""What a stream can show: its width and its colours."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO


def uses_color(stream: TextIO, color: bool | None) -> bool:
    """Tell whether colours are used; None is: on a terminal, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") if color is None else color


def width_of(stream: TextIO) -> int | None:
    """Return the columns of a terminal, or COLUMNS; None elsewhere, where no line is broken."""
    return shutil.get_terminal_size().columns if stream.isatty() else None
