"""Wrapping of long lines on a terminal: between parts or words, never inside a number or a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.report.terminal import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
