"""Escapes for hostile text that could mislead a terminal or a reader."""

from __future__ import annotations

import re

# C0 and C1 controls, line separators, and the marks that turn the direction of writing
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""Starts of cells that a spreadsheet takes for a formula."""


def escape_text(text: str) -> str:
    r"""Return ``text`` on one line: control characters as ``\xNN`` or ``\uNNNN``, a backslash doubled."""
    return escape_controls(text.replace("\\", "\\\\"))


def escape_controls(text: str) -> str:
    r"""Return ``text`` with control characters as ``\xNN`` or ``\uNNNN``, and everything else as it is."""
    return text if text.isascii() and text.isprintable() else _HARMFUL.sub(_escape, text)


def escape_bytes(data: bytes) -> str:
    r"""Return bytes as UTF-8 text on one line, other bytes as ``\xNN``."""
    return escape_text(data.decode("utf-8", "surrogateescape"))


def escape_json(text: str) -> str:
    r"""Return JSON text with harmful characters, which only its strings can hold, as ``\uNNNN``."""
    return text if text.isascii() and "\x7f" not in text else _HARMFUL_JSON.sub(_escape_json, text)


def escape_cell(text: str) -> str:
    r"""Return ``text`` as `escape_text` does, with the start of a formula as ``\xNN``."""
    shown = escape_text(text)
    return f"\\x{ord(shown[0]):02x}{shown[1:]}" if shown.startswith(FORMULA_STARTS) else shown


def is_cell_text(text: str) -> bool:
    """Return whether text can be a cell of csv: no formula, no control but ends of lines and tabs."""
    return not text.startswith(FORMULA_STARTS) and not _HARMFUL.search(text.translate(_LAYOUT))


_LAYOUT = {ord(character): None for character in "\t\n\r"}
_HARMFUL_JSON = re.compile(_HARMFUL.pattern.replace("\x00-\x1f", ""))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"


def _escape_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
