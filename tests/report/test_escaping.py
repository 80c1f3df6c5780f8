"""Nothing that a store holds may steer a terminal or break a line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.report.output import to_json
from rmqtool.report.terminal import escape_bytes, escape_json, escape_text


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain", "plain"),
        ("订单 😀 é".encode(), "订单 😀 é"),
        (b"\x1b[31m\n\r\0", r"\x1b[31m\x0a\x0d\x00"),
        (b"\xff\xfe", r"\xff\xfe"),
        ("\u009b31m".encode(), r"\x9b31m"),
        ("a\u202eb".encode(), r"a\u202eb"),
        (rb"\x1b", r"\\x1b"),
    ],
)
def test_bytes_are_shown_readable_and_harmless(data: bytes, shown: str) -> None:
    assert escape_bytes(data) == shown


@given(st.binary())
def test_different_bytes_are_shown_differently(data: bytes) -> None:
    """The escapes can be read back, so nothing is hidden by them."""
    shown = escape_bytes(data)
    assert "\n" not in shown
    assert all(character.isprintable() or ord(character) > 0xA0 for character in shown)
    assert escape_bytes(data + b"x") == shown + "x" or data[-1:] >= b"\x80"


@given(st.text())
def test_json_is_the_same_value_in_harmless_characters(text: str) -> None:
    shown = to_json({"value": text})
    assert json.loads(shown) == {"value": text}
    assert not {"\x1b", "\x7f", "\u009b", "\u202e", "\u2028"} & set(shown)


def test_lone_surrogates_can_be_written() -> None:
    assert escape_json('"\ud800"').encode() == b'"\\ud800"'
    assert escape_text("\udcff") == r"\xff"
