from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqtool.javacompat import masked_crc32, parse_prop_crc_digits
from rmqtool.kernels.checksums import crc32, crc32_by_tables
from tests.compiled import from_python
from tests.javacompat.vectors import CRC32

CHECKSUMS = [from_python(kernel) for kernel in (crc32, crc32_by_tables)]


@pytest.mark.parametrize(("data", "raw"), CRC32)
def test_body_crc_is_the_crc_without_its_sign(data: bytes, raw: int) -> None:
    assert masked_crc32(data) == raw & 0x7FFFFFFF


@given(st.binary(), st.binary())
def test_crc_continues_from_the_unmasked_one(left: bytes, right: bytes) -> None:
    assert masked_crc32(right, zlib.crc32(left)) == masked_crc32(left + right)


@given(st.integers(0, 2**31 - 1))
def test_record_crc_has_its_lowest_digit_first(crc: int) -> None:
    digits = f"{crc:010d}"[::-1]
    assert parse_prop_crc_digits(digits) == crc
    assert parse_prop_crc_digits(digits.encode()) == crc


@pytest.mark.parametrize(
    ("digits", "value"),
    [("", 0), ("12", 21), ("0000000000001", -727379968), ("/", -1), ("A", 17), ("\u0663", 1587)],
)
def test_other_digits_are_read_with_the_arithmetic_of_the_broker(digits: str, value: int) -> None:
    """Neither length nor characters are checked: the sum goes on, wraps and may be negative ("no CRC")."""
    assert parse_prop_crc_digits(digits) == value


@settings(deadline=None)  # the first call compiles
@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 20))
def test_tables_and_multiplication_agree(left: bytes, right: bytes, before: int) -> None:
    """Which of them ``crc32`` is depends on the processor."""
    buffer = np.frombuffer(bytes(before) + left + right, np.uint8)
    middle = before + len(left)
    expected = zlib.crc32(left + right)
    for kernel in CHECKSUMS:
        first = kernel(buffer, before, middle, 0)
        assert kernel(buffer, middle, len(buffer), first) == expected
        assert kernel(buffer, before, len(buffer), 0) == expected
