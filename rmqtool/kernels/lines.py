"""Kernel that writes columns as lines of text: JSON objects, or rows of csv.

Lines of JSON equal, byte for byte, the rows of ``rmqtool.rows`` as ndjson; cells of csv are those of reports.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.kernels.bytes import as_int, copy_bytes
from rmqtool.kernels.jit import empty, entry, inlined, kernel
from rmqtool.kernels.json import (
    LOWER,
    Style,
    is_text,
    put_base64,
    put_hex,
    put_number,
    put_quote,
    put_text,
)

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int32s, Int64s


class Cell(IntEnum):
    """Kinds of values: from a row of the matrix of numbers, or a ``Text`` of the columns."""

    NUMBER = 0
    WORD = 1  # the number of a text among the words, which is quoted
    VALUE = 2  # the number of a text among the words, as it is
    TEXT = 3
    TEXT_OR_NULL = 4  # null if it is empty
    KEYS = 5
    PROPERTIES = 6
    BODY = 7


class BodyForm(IntEnum):
    """Ways to write a body, and the numbers of the words that name its encoding."""

    TEXT = 0  # base64 where it cannot be
    HEX = 1
    BASE64 = 2
    NONE = 3  # left out; the word is what a text has that is not there


class LineCells(NamedTuple):
    """Columns of n messages, and the values of a line.

    Attributes:
        kinds: By value, a ``Cell``.
        sources: By value, its row of ``numbers``, or its ``Text``.
        before: Text before each value, and the end of the line.
        before_stops: Ends of these.
        numbers: ``(k, n)``.
        words: Texts that follow each other; the first are ``BodyForm``'s.
        word_stops: A 0, and the end of each.
        texts: By ``Text``; this and the next two as in ``rmqtool.rows.Columns``.
        stops: ``(len(Text), p + 1)``.
        list_stops: ``(2, n + 1)``.
        body: A ``BodyForm``.
        is_csv: Whether these are cells of csv.
    """

    kinds: Int64s
    sources: Int64s
    before: Buffer
    before_stops: Int64s
    numbers: Int64s
    words: Buffer
    word_stops: Int64s
    texts: tuple[Buffer, ...]
    stops: Int32s
    list_stops: Int32s
    body: int
    is_csv: int


_BRACKET, _BRACE, _COMMA, _COLON, _BLANK = 0x5B, 0x7B, 0x2C, 0x3A, 0x20
_KEY, _NAME, _VALUE = 4, 5, 6  # of ``Text``
_WIDEST = 6  # bytes of an escape
_MORE = 64  # the longest number, or the quotes and signs around a text


@inlined
def _put_word(cells: LineCells, number: int, out: Buffer, n: int) -> int:
    start = cells.word_stops[number]
    return copy_bytes(out, n, cells.words, start, cells.word_stops[number + 1])


@inlined
def _put_piece(cells: LineCells, text: int, number: int, out: Buffer, n: int, style: int) -> int:
    stops = cells.stops[text]
    return put_text(out, n, cells.texts[text], as_int(stops[number]), as_int(stops[number + 1]), style)


@inlined
def _put_list(cells: LineCells, kind: int, row: int, out: Buffer, n: int) -> int:
    """Write keys, or properties, as a list or an object of JSON, in one cell of csv."""
    is_map = kind == Cell.PROPERTIES
    sign = _BRACE if is_map else _BRACKET
    style = Style.JSON_IN_CELL if cells.is_csv else Style.JSON
    if cells.is_csv:
        n = put_quote(out, n, Style.JSON)
    out[n] = sign
    n += 1
    stops, text = cells.list_stops[1 if is_map else 0], _NAME if is_map else _KEY
    first = as_int(stops[row])
    for i in range(first, as_int(stops[row + 1])):
        if i > first:
            out[n], out[n + 1] = _COMMA, _BLANK
            n += 2
        n = _put_piece(cells, text, i, out, n, style)
        if is_map:
            out[n], out[n + 1] = _COLON, _BLANK
            n = _put_piece(cells, text + 1, i, out, n + 2, style)
    out[n] = sign + 2
    n += 1
    return put_quote(out, n, Style.JSON) if cells.is_csv else n


@inlined
def _put_body(cells: LineCells, row: int, out: Buffer, n: int) -> int:
    body, stops = cells.texts[0], cells.stops[0]
    start, stop = as_int(stops[row]), as_int(stops[row + 1])
    form = cells.body
    if form == BodyForm.TEXT:
        if is_text(body, start, stop, cells.is_csv):
            n = put_text(out, n, body, start, stop, Style.BODY_IN_CELL if cells.is_csv else Style.JSON)
            return _put_word(cells, BodyForm.TEXT, out, n)
        form = BodyForm.BASE64
    n = put_quote(out, n, Style.JSON)
    n = (
        put_hex(out, n, body, start, stop, LOWER)
        if form == BodyForm.HEX
        else put_base64(out, n, body, start, stop)
    )
    return _put_word(cells, form, out, put_quote(out, n, Style.JSON))


@inlined
def _list_room(cells: LineCells, is_map: int, row: int) -> int:
    """Return the most bytes that keys or properties take."""
    first, last = as_int(cells.list_stops[is_map, row]), as_int(cells.list_stops[is_map, row + 1])
    size = _MORE * (last - first)
    for text in range(_NAME if is_map else _KEY, _VALUE + 1 if is_map else _NAME):
        size += _WIDEST * as_int(cells.stops[text, last] - cells.stops[text, first])
    return size


@inlined
def _room(cells: LineCells, kind: int, source: int, row: int) -> int:
    """Return the most bytes that a value takes."""
    if kind in (Cell.KEYS, Cell.PROPERTIES):
        return _list_room(cells, 1 if kind == Cell.PROPERTIES else 0, row)
    if kind == Cell.NUMBER:
        return 0
    if kind in (Cell.WORD, Cell.VALUE):
        number = cells.numbers[source, row]
        return _WIDEST * as_int(cells.word_stops[number + 1] - cells.word_stops[number])
    return _WIDEST * as_int(cells.stops[source, row + 1] - cells.stops[source, row])


@kernel
def _put_line(cells: LineCells, row: int, out: Buffer, n: int) -> int:
    """Write a line; -1 without room for it."""
    at, style = 0, Style.CELL if cells.is_csv else Style.JSON
    for cell in range(len(cells.kinds)):
        kind, source, stop = cells.kinds[cell], cells.sources[cell], cells.before_stops[cell]
        if n + (stop - at) + _room(cells, kind, source, row) + _MORE > len(out):
            return -1
        n = copy_bytes(out, n, cells.before, at, stop)
        at = stop
        if kind == Cell.NUMBER:
            n = put_number(out, n, cells.numbers[source, row])
        elif kind == Cell.VALUE:
            n = _put_word(cells, cells.numbers[source, row], out, n)
        elif kind == Cell.WORD:
            number = cells.numbers[source, row]
            start = cells.word_stops[number]
            n = put_text(out, n, cells.words, start, cells.word_stops[number + 1], style)
        elif kind == Cell.TEXT_OR_NULL and cells.stops[source, row] == cells.stops[source, row + 1]:
            n = _put_word(cells, BodyForm.NONE, out, n)
        elif kind in (Cell.TEXT, Cell.TEXT_OR_NULL):
            n = _put_piece(cells, source, row, out, n, style)
        elif kind == Cell.BODY:
            n = _put_body(cells, row, out, n)
        else:
            n = _put_list(cells, kind, row, out, n)
    stop = len(cells.before)
    return -1 if n + stop - at > len(out) else copy_bytes(out, n, cells.before, at, stop)


def _example_of_write_lines() -> tuple[object, ...]:
    texts = tuple(np.empty(0, np.uint8) for _ in range(_VALUE + 1))
    numbers = np.empty((0, 0), np.int64)
    stops = np.empty((0, 0), np.int32)
    kinds, sources, before, before_stops, words, word_stops, rows, out = empty(
        np.int64, np.int64, np.uint8, np.int64, np.uint8, np.int64, np.int64, np.uint8
    )
    cells = LineCells(
        kinds, sources, before, before_stops, numbers, words, word_stops, texts, stops, stops, 0, 0
    )
    return cells, rows, 0, out


@entry(_example_of_write_lines)
@kernel
def write_lines(cells: LineCells, rows: Int64s, first: int, out: Buffer) -> tuple[int, int]:
    """Write the lines of messages by their numbers, from ``rows[first]`` on, while there is room.

    Returns:
        The index of the first row that was not written, and the bytes written.
    """
    n = as_int(np.int64(0))  # of the type of what follows: one more compilation is spared
    for i in range(first, len(rows)):
        stop = _put_line(cells, rows[i], out, n)
        if stop < 0:
            return i, n
        n = stop
    return len(rows), n
