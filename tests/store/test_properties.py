"""Java's properties text is read as Java reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import UsageError
from rmqtool.store.broker_conf import parse_java_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", {}),
        (b"a=1\nb = 2\r\nc:3\rd 4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        (b"  \t a=1", {"a": "1"}),
        (b"# a=1\n  ! b=2\n\n \t\n", {}),
        (b"a=1 ", {"a": "1 "}),
        (b"a", {"a": ""}),
        (b"=1", {"": "1"}),
        (b"a = = 1", {"a": "= 1"}),
        (b"a : = 1", {"a": "= 1"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"levels=1s 5s \\\n   10s\\\n 1m", {"levels": "1s 5s 10s1m"}),
        (b"a=1\\\n# no comment", {"a": "1# no comment"}),
        (b"a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        (b"a=1\\", {"a": "1"}),
        (b"a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        (b"\\\nb=2", {"b": "2"}),
        (b"a\\=b=c", {"a=b": "c"}),
        (b"a\\ b c", {"a b": "c"}),
        (b"path=C:\\\\store\\tx", {"path": "C:\\store\tx"}),
        (b"a=\\u4e2d\\u6587\\q", {"a": "\u4e2d\u6587q"}),
        (b"a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        (b"a=\xe9", {"a": "\u00e9"}),
        (b"a\xa0b=1", {"a\u00a0b": "1"}),
    ],
)
def test_rules(text: bytes, expected: dict[str, str]) -> None:
    assert parse_java_properties(text) == expected


@pytest.mark.parametrize("text", [b"a=\\u12", b"a=\\u12g4", b"\\u=1", b"a=\\u+123"])
def test_malformed_escape_is_refused_as_java_refuses_it(text: bytes) -> None:
    with pytest.raises(UsageError, match="malformed escape"):
        parse_java_properties(text)


def _escaped(text: str, specials: str) -> str:
    return "".join(
        f"\\u{ord(char):04x}"
        if char in "\r\n\t\f" or char > "~"
        else f"\\{char}"
        if char in specials
        else char
        for char in text
    )


TEXT = st.text(st.characters(codec="iso-8859-1"), max_size=20)


@pytest.mark.full
@given(st.dictionaries(TEXT, TEXT))
def test_what_is_escaped_comes_back(properties: dict[str, str]) -> None:
    """Like ``Properties#store``: separators and blanks escaped in names, leading blanks in values."""
    lines = [
        f"{_escaped(name, ' =:#!' + chr(92))}={_escaped(value, ' ' + chr(92))}"
        for name, value in properties.items()
    ]
    assert parse_java_properties("\n".join(lines).encode("iso-8859-1")) == properties


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        properties = parse_java_properties(data)
    except UsageError:
        assert b"\\u" in data
    else:
        assert all(isinstance(value, str) for value in properties.values())
