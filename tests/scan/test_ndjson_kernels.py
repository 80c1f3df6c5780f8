"""The parts of the kernel of lines: what is harmless, hosts, globs."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.kernels.filters import matches
from rmqtool.kernels.json import is_harmless
from rmqtool.report.terminal import escape_controls

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer


def array(data: bytes) -> Buffer:
    return np.frombuffer(data, np.uint8)


def test_harmless_is_what_no_format_escapes() -> None:
    """U+FFFD aside, which may stand for bytes that are no UTF-8."""
    for code in (*range(0xD800), *range(0xE000, 0xFFFD), 0xFFFE, 0x10000, 0x1F600, 0xE0001, 0x10FFFF):
        text = chr(code)
        data = array(text.encode())
        assert is_harmless(data, 0, len(data), False) == (escape_controls(text) == text), hex(code)


@given(st.binary(max_size=12))
def test_bytes_that_are_no_text_are_not_harmless(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    expected = text is not None and "\ufffd" not in text and escape_controls(text) == text
    assert is_harmless(array(data), 0, len(data), False) == expected


@given(st.text("ab订é", max_size=8), st.text("ab订é*?", max_size=6))
def test_globs(text: str, glob: str) -> None:
    data = array(text.encode())
    assert matches(data, 0, len(data), array(glob.encode())) == fnmatchcase(text, glob)
