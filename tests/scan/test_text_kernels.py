"""Text by kernels is that by Python: strings of JSON, cells of csv, bodies, numbers, globs."""

from __future__ import annotations

import base64
import csv
import io
import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.kernels import filters
from rmqtool.kernels import json as kernels
from rmqtool.kernels.json import LOWER, Style
from rmqtool.report.output import csv_cell, to_json
from rmqtool.report.terminal import is_cell_text
from tests.compiled import from_python

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.arrays import Buffer

matches = from_python(filters.matches)
is_text = from_python(kernels.is_text)
put_base64 = from_python(kernels.put_base64)
put_hex = from_python(kernels.put_hex)
put_number = from_python(kernels.put_number)
put_text = from_python(kernels.put_text)

_SPECIAL = '"\\=+-@\t\r\n\x00\x07\x0b\x1f\x7f\x85\u2028\u202e\ufeff\ufffd é订😀'
texts = st.text(max_size=24) | st.text(_SPECIAL + "ab", max_size=24)


def array(data: bytes) -> Buffer:
    return np.frombuffer(bytearray(data), np.uint8)


def written(put: Callable[..., int], data: bytes, *more: object) -> str:
    out = np.zeros(6 * len(data) + 16, np.uint8)
    stop = put(out, 3, array(data), 0, len(data), *more)
    assert not out[:3].any()
    assert not out[stop:].any()
    return out[3:stop].tobytes().decode()


def cell(value: object) -> str:
    stream = io.StringIO()
    csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="").writerow([value])
    return stream.getvalue()


def test_every_character() -> None:
    for code in (*range(0xD800), *range(0xE000, 0x10000), 0x10000, 0x1F600, 0xE0001, 0x10FFFF):
        text = chr(code)
        data = text.encode()
        assert written(put_text, data, Style.JSON) == to_json(text), hex(code)
        assert written(put_text, data, Style.CELL) == cell(csv_cell(text)), hex(code)
        assert is_text(array(data), 0, len(data), False), hex(code)
        assert is_text(array(data), 0, len(data), True) == is_cell_text(text), hex(code)


@given(texts)
def test_text(text: str) -> None:
    data = text.encode()
    assert written(put_text, data, Style.JSON) == to_json(text)
    assert written(put_text, data, Style.CELL) == cell(csv_cell(text))
    assert written(put_text, data, Style.JSON_IN_CELL) == cell(to_json(text))[1:-1]
    assert written(put_text, data, Style.BODY_IN_CELL) == cell(text)
    assert is_text(array(data), 0, len(data), True) == is_cell_text(text)


@given(st.binary(max_size=40))
def test_bytes(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    assert is_text(array(data), 0, len(data), False) == (text is not None)
    assert is_text(array(data), 0, len(data), True) == (text is not None and is_cell_text(text))
    assert written(put_hex, data, LOWER) == data.hex()
    assert written(put_base64, data) == base64.b64encode(data).decode()


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers(number: int) -> None:
    out = np.zeros(20, np.uint8)
    assert out[: put_number(out, 0, number)].tobytes().decode() == json.dumps(number)


@given(st.text("ab订é", max_size=8), st.text("ab订é*?", max_size=6))
def test_globs(text: str, glob: str) -> None:
    data = array(text.encode())
    assert matches(data, 0, len(data), array(glob.encode())) == fnmatchcase(text, glob)
