"""The start of a body, as much as one line holds."""

from __future__ import annotations

from codecs import getincrementaldecoder

from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text
from rmqtool.report.terminal import columns_of

_PREVIEW_BYTES = 48
_UTF_8 = getincrementaldecoder("utf-8")
_BROKEN = "surrogateescape"


def preview(body: bytes, room: int | None) -> str:
    r"""Return the start of a body on one line, what is no UTF-8 as ``\xNN``, and how much more there is.

    Args:
        body: All of it.
        room: Columns of the line; None is as many as it takes. No character is cut, and one is always shown.
    """
    text = _UTF_8(_BROKEN).decode(body[:_PREVIEW_BYTES], final=len(body) <= _PREVIEW_BYTES)
    shown = _line(text, len(body))
    while room is not None and len(text) > 1 and columns_of(shown) > room:
        text = text[:-1]
        shown = _line(text, len(body))
    return shown


def _line(text: str, length: int) -> str:
    left = length - len(text.encode("utf-8", _BROKEN))
    return escape_text(text) + (f" … {counted(left, 'byte')} more" if left > 0 else "")
