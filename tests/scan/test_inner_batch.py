"""Inner batches are taken apart as clients do it, and nothing is believed before it is checked."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats.message import INNER_HEAD_SIZE, INNER_HEAD_STRUCT, INNER_MESSAGE
from rmqtool.rows.batches import BatchError, inner_messages


def encoded(body: bytes, properties: bytes, flag: int = 0) -> bytes:
    fields: dict[str, Any] = {"magic": 0, "bodyCrc": 0, "flag": flag, "body": body, "properties": properties}
    size = len(INNER_MESSAGE.build({"totalSize": 0} | fields))
    raw: bytes = INNER_MESSAGE.build({"totalSize": size} | fields)
    return raw


messages = st.tuples(st.binary(max_size=30), st.integers(-(2**31), 2**31 - 1))


@given(st.lists(messages, max_size=5))
def test_what_was_put_in_comes_out(parts: list[tuple[bytes, int]]) -> None:
    batch = b"".join(encoded(body, b"TAGS\x01t\x02", flag) for body, flag in parts)
    found = list(inner_messages(batch))
    assert [(one.body, one.flag) for one in found] == parts
    assert all(one.properties == {"TAGS": "t"} for one in found)
    assert [batch[one.position :][: one.total_size] for one in found] == [
        encoded(body, b"TAGS\x01t\x02", flag) for body, flag in parts
    ]


@given(st.binary(max_size=80))
def test_any_bytes_are_messages_or_an_error(data: bytes) -> None:
    try:
        found = list(inner_messages(data))
    except BatchError:
        return
    assert sum(one.total_size for one in found) == len(data)


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (0, 1, "TOTALSIZE 1, but the parts make 31 bytes"),
        (16, -1, "body of -1 bytes"),
        (16, 2**31 - 1, "body of 2147483647 bytes"),
        (16, 10, "it ends before the properties"),
        (16, 7, "properties of 351 bytes"),
    ],
)
def test_damage_is_said(place: int, value: int, reason: str) -> None:
    raw = bytearray(encoded(b"body", b"a\x01_\x02_"))
    struct.pack_into(">i", raw, place, value)
    with pytest.raises(BatchError, match=reason):
        list(inner_messages(bytes(raw)))


def test_a_batch_that_ends_in_a_head() -> None:
    raw = encoded(b"body", b"") + INNER_HEAD_STRUCT.pack(26, 0, 0, 0, 4)[: INNER_HEAD_SIZE - 1]
    with pytest.raises(BatchError, match="no message at byte 26 of the batch: only 19 bytes are left"):
        list(inner_messages(raw))
