"""Columns as lines of ndjson or csv, and a large log as lines of ndjson."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool import rows
from rmqtool.columns import COLUMNS, ColumnChoice
from rmqtool.columns.encoder import (
    FIXED_WORDS,
    LONGS_BY_NAME,
    NUMBERS_BY_NAME,
    TEXTS_BY_NAME,
    WORDS_BY_NAME,
    ColumnEncoder,
    Filling,
    text_of_word,
    word_numbers,
)
from rmqtool.kernels.lines import BodyForm, Cell, LineCells, write_lines
from rmqtool.projection import BodyMode
from rmqtool.rows.log_splits import LogJob, kernel_filter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Array, Buffer, Int64s
    from rmqtool.store import Segment

OUT_BYTES = 1 << 19
"""Room for lines; more for a longer one."""

ROOM_ROWS, ROOM_BYTES = 1 << 10, 1 << 17
"""Messages between columns and lines, and room for their texts of one kind; more for a longer one."""

_ENCODINGS = ("utf-8", "hex", "base64")
_WITHOUT_NUMBERS = {
    "body": Cell.BODY,
    "properties": Cell.PROPERTIES,
    "tags": Cell.TEXT_OR_NULL,
    "keys": Cell.KEYS,
    "uniqKey": Cell.TEXT_OR_NULL,
    "msgId": Cell.TEXT,
}


class LineForm(NamedTuple):
    """Form of lines.

    Attributes:
        names: Columns in order.
        bodies: Form of bodies.
        is_csv: True for csv, where all but numbers is quoted, and lists and properties are JSON.
        start: Text before the first name of an object.
        before_damage: Text before the name of the list of damage.
    """

    names: tuple[str, ...]
    bodies: BodyMode
    is_csv: bool = False
    start: str = "{"
    before_damage: str = ""

    @property
    def head(self) -> str:
        """Return the names of columns, a line before all others of csv."""
        names = ["body,bodyEncoding" if name == "body" else name for name in self.names]
        return f"{','.join(names)}\n" if self.is_csv else ""

    def before(self) -> list[str]:
        """Return what comes before each value, and after the last."""
        if self.is_csv:
            return ["", *[","] * (len(self.names) - 1), "\n"]
        starts = [self.start, *[", "] * (len(self.names) - 1)]
        extra = {"damage": self.before_damage}
        texts = [
            f'{start}{extra.get(name, "")}"{name}": ' for start, name in zip(starts, self.names, strict=True)
        ]
        return [*texts, "}\n"]

    def encodings(self) -> list[str]:
        """Return what follows a body, by ``BodyForm``, and what stands for a text that is not there."""
        before = "," if self.is_csv else ', "bodyEncoding": '
        return [*(f'{before}"{name}"' for name in _ENCODINGS), "" if self.is_csv else "null"]


class _Words:
    """Texts that values name by their number; the first are a form's own."""

    def __init__(self, form: LineForm) -> None:
        self._texts = [text.encode() for text in form.encodings()]

    def add(self, texts: Sequence[str]) -> int:
        """Add texts; return the number of the first."""
        first = len(self._texts)
        self._texts += [text.encode("utf-8", "backslashreplace") for text in texts]
        return first

    def arrays(self) -> tuple[Buffer, Int64s]:
        """Return the texts one after the other, and where they end, after a 0."""
        return _joined(self._texts), np.array([0, *accumulate(map(len, self._texts))], np.int64)


def _joined(texts: Sequence[bytes]) -> Buffer:
    return np.frombuffer(bytearray(b"".join(texts)), np.uint8)


class LineMaker:
    """Maker of lines in one piece of memory."""

    def __init__(self, form: LineForm) -> None:
        self._form = form
        before = [text.encode() for text in form.before()]
        self._before = _joined(before), np.array([*accumulate(map(len, before))], np.int64)
        self._out = np.empty(OUT_BYTES, np.uint8)

    def lines(self, columns: rows.Columns, wanted: Int64s | None = None) -> Iterator[memoryview]:
        """Yield the lines of messages, all or those of some numbers, each piece valid until the next."""
        cells = self._cells(columns)
        numbers = np.arange(columns.count) if wanted is None else wanted
        first = 0
        while first < len(numbers):
            first, size = write_lines(cells, numbers, first, self._out)
            if size:
                yield self._out[:size].data
            else:
                self._out = np.empty(2 * len(self._out), np.uint8)

    def _cells(self, columns: rows.Columns) -> LineCells:
        words, form = _Words(self._form), self._form
        numbers: list[Array] = []
        kinds, sources = [], []
        for name in form.names:
            kind, values = self._value(name, columns, words)
            kinds.append(kind)
            sources.append(TEXTS_BY_NAME.get(name, 0) if values is None else len(numbers))
            numbers += [] if values is None else [values]
        return LineCells(
            np.array(kinds, np.int64),
            np.array(sources, np.int64),
            *self._before,
            np.array(numbers, np.int64).reshape(len(numbers), columns.count),
            *words.arrays(),
            tuple(np.asarray(text) for text in columns.texts),
            np.asarray(columns.stops),
            np.asarray(columns.list_stops),
            int(BodyForm[form.bodies.name]),
            int(form.is_csv),
        )

    def _value(self, name: str, columns: rows.Columns, words: _Words) -> tuple[Cell, Array | None]:
        """Return what a value of a column is made of, and its numbers, if it has such."""
        count = columns.count
        if name in LONGS_BY_NAME:
            return Cell.NUMBER, columns.longs[LONGS_BY_NAME[name], :count]
        if name in NUMBERS_BY_NAME:
            return Cell.NUMBER, columns.numbers[NUMBERS_BY_NAME[name], :count]
        if name == "damage":
            return Cell.VALUE, self._damage(columns, words)
        if name == "body" and self._form.bodies is BodyMode.NONE:
            return Cell.VALUE, np.full(count, words.add(['null, "bodyEncoding": null']))
        if name in _WITHOUT_NUMBERS:
            return _WITHOUT_NUMBERS[name], None
        return Cell.WORD, self._words(name, columns, words)

    def _words(self, name: str, columns: rows.Columns, words: _Words) -> Array:
        if name == "file":
            return np.full(columns.count, words.add([columns.file]))
        texts = FIXED_WORDS.get(name) or [
            text_of_word(name, word) for word in columns.words[WORDS_BY_NAME[name]]
        ]
        return word_numbers(columns, name) + words.add(texts)

    def _damage(self, columns: rows.Columns, words: _Words) -> Int64s:
        is_csv = self._form.is_csv
        quoted = '"[{}]"' if is_csv else "[{}]"
        numbers = np.full(columns.count, words.add([quoted.format("")]))
        for number, codes in columns.damage.items():
            text = json.dumps(codes)[1:-1]
            numbers[number] = words.add([quoted.format(text.replace('"', '""') if is_csv else text)])
        return numbers


@dataclass(frozen=True)
class LineJob(LogJob):
    """Job that writes lines; messages with one of ``odd_flags`` in SYSFLAG, or a meaning, come as rows.

    With ``as_rows``, all do: kernels select the messages, and write none.
    """

    body: BodyMode
    odd_flags: int = 0
    as_rows: bool = False

    def encoder(self, segment: Segment) -> _LineEncoder:
        """Return a new encoder for a split of a file."""
        wanted = kernel_filter(self.messages, self.odd_flags)._replace(no_meaning=1)
        if self.as_rows:
            wanted = wanted._replace(is_shown_otherwise=1)
        before = '{"type": "message", ', '"explanation": null, '
        return _LineEncoder(
            _LineFilling(LineForm(tuple(COLUMNS), self.body, False, *before)), segment, wanted
        )


class _LineEncoder(ColumnEncoder):
    def add(self, row: rows.Row) -> None:
        """Add a row after the lines so far."""
        self._rows += [*self._filling.finished(), row]


class _LineFilling(Filling):
    def __init__(self, form: LineForm) -> None:
        names = tuple(name for name in form.names if name != "body" or form.bodies is not BodyMode.NONE)
        super().__init__(ColumnChoice(names), ROOM_ROWS, ROOM_BYTES)
        self._maker = LineMaker(form)

    def finished(self) -> Iterator[rows.Lines]:
        """Yield the lines of the current batch, whose memory then takes the next one, of any split."""
        buffers, self._buffers = self._buffers, None
        if buffers is not None:
            for piece in self._maker.lines(buffers.columns(lasting=False)):
                yield rows.Lines(bytes(piece))
            buffers.release()
