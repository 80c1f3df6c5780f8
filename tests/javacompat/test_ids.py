from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.javacompat import OffsetId, decode_offset_id, decode_unique_id, encode_offset_id

SHANGHAI = timezone(timedelta(hours=8))
UNIQUE_ID = "C0A80114E24018B4AAC24AF57400002A"
OFFSET_IDS = [
    ("10.9.8.7", bytes([10, 9, 8, 7]), 1073741866, "0A09080700002A9F000000004000002A"),
    (
        "2001:db8::1",
        bytes.fromhex("20010db8000000000000000000000001"),
        42,
        "20010DB800000000000000000000000100002A9F000000000000002A",
    ),
]


@pytest.mark.parametrize(("host", "address", "physical_offset", "text"), OFFSET_IDS)
def test_offset_id_names_host_and_place(host: str, address: bytes, physical_offset: int, text: str) -> None:
    assert encode_offset_id(address, 10911, physical_offset) == text
    decoded = decode_offset_id(text)
    assert decoded == OffsetId(address, 10911, physical_offset)
    assert decoded.host == host
    assert decode_offset_id(text.lower()) == decoded


@given(
    st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
)
def test_any_offset_id_is_read_back(address: bytes, port: int, physical_offset: int) -> None:
    assert decode_offset_id(encode_offset_id(address, port, physical_offset)) == (
        address,
        port,
        physical_offset,
    )


@pytest.mark.parametrize(
    "text", ["", "0A", "0A09080700002A9F00000000400000ZZ", " " * 32, "٣" * 32, "0A " * 18 + "0A"]
)
def test_what_is_no_hexadecimal_id_gives_nothing(text: str) -> None:
    assert decode_offset_id(text) is None
    assert decode_unique_id(text, 1650000000000) is None


def test_unique_id_tells_client_and_time() -> None:
    unique_id = decode_unique_id(UNIQUE_ID, 1650000000007, SHANGHAI)
    assert unique_id is not None
    assert unique_id.host == "192.168.1.20"
    assert unique_id.process_id == 123456 & 0xFFFF
    assert unique_id.loader_hash == 0x18B4AAC2
    assert unique_id.delta_ms == 1257600000
    assert unique_id.counter == 42
    assert unique_id.timestamp_ms == 1650000000000


def test_unique_id_has_no_time_without_a_usable_birth() -> None:
    for born_ms in (None, 2**63 - 1, -(2**63)):
        unique_id = decode_unique_id(UNIQUE_ID, born_ms)
        assert unique_id is not None
        assert unique_id.timestamp_ms is None


def test_delta_of_the_last_week_is_unsigned() -> None:
    made_ms = 1650000000000 - 1257600000 + 2592000000 - 1  # the last millisecond of April 2022 in Shanghai
    text = f"C0A80114E24018B4AAC2{2592000000 - 1:08X}002A"
    for born_ms in (made_ms, made_ms + 5):  # 5 ms later is May
        unique_id = decode_unique_id(text, born_ms, SHANGHAI)
        assert unique_id is not None
        assert unique_id.timestamp_ms == made_ms


def test_unique_id_of_a_client_with_ipv6_is_longer() -> None:
    unique_id = decode_unique_id("20010DB8000000000000000000000001" + UNIQUE_ID[8:], 1650000000000, UTC)
    assert unique_id is not None
    assert unique_id.host == "2001:db8::1"
    assert unique_id.counter == 42
