from __future__ import annotations

import pytest

from rmqtool.javacompat import parse_properties


@pytest.mark.parametrize(
    ("data", "properties"),
    [
        (b"", {}),
        (b"KEYS\x01a\x02TAGS\x01b", {"KEYS": "a", "TAGS": "b"}),
        (b"KEYS\x01a\x02TAGS\x01b\x02", {"KEYS": "a", "TAGS": "b"}),
        (b"k\x01v", {"k": "v"}),
        (b"k\x01v\x01w\x02", {"k": "v\x01w"}),
        (b"k\x01v\x01\x02", {"k": "v\x01"}),
        (b"k\x01\x01\x02", {"k": "\x01"}),
        (b"k\x01\x02a\x01b", {"a": "b"}),
        (b"\x01v\x02a\x01b", {"a": "b"}),
        (b"\x01v\x01w\x02", {}),
        (b"kkk\x02a\x01b", {"a": "b"}),
        (b"\x02\x02a\x01b\x02\x02", {"a": "b"}),
        (b"a\x011\x02a\x012", {"a": "2"}),
        (b"a\x011\x02a\x01\x02", {"a": "1"}),
        (b"k\x01\xe4\xbd\x02a\x01b", {"k": "\ufffd", "a": "b"}),
        (b"\xff\x01x\x02\xfe\x01y", {"\ufffd": "y"}),
    ],
)
def test_properties_are_read_as_by_the_broker(data: bytes, properties: dict[str, str]) -> None:
    assert parse_properties(data) == properties
