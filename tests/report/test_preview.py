"""The start of a body: one line of a terminal, no character cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.report.row_text import preview
from rmqtool.report.terminal import columns_of, escape_bytes

TEXT = "消息正文是中文写的每个字三个字节第四十八个字节在字的中间那么它不被切断"


@pytest.mark.parametrize(
    ("body", "room", "shown"),
    [
        (b"", None, ""),
        (b"x" * 48, None, "x" * 48),
        (b"x" * 49, None, "x" * 48 + " … 1 byte more"),
        (b"x" * 49, 30, "x" * 14 + " … 35 bytes more"),
        (b"\xff" * 49, 30, "\\xff" * 3 + " … 46 bytes more"),
        (b"ab" + TEXT.encode(), None, "ab" + TEXT[:15] + f" … {len(TEXT.encode()) - 45} bytes more"),
        (TEXT.encode()[:47], None, TEXT[:15] + "\\xe8\\x8a"),
        (b"abc", 1, "a … 2 bytes more"),
    ],
)
def test_as_much_as_one_line_holds(body: bytes, room: int | None, shown: str) -> None:
    assert preview(body, room) == shown


@given(st.binary() | st.text().map(str.encode), st.integers(40, 120))
def test_no_preview_is_wider_than_its_line(body: bytes, room: int) -> None:
    """What it says is left is what it does not show."""
    shown = preview(body, room)
    assert columns_of(shown) <= room
    start, _, rest = shown.rpartition(" … ") if " more" in shown[-5:] else (shown, "", "0 bytes")
    assert start == escape_bytes(body[: len(body) - int(rest.split()[0])])
