from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.javacompat import parse_int, parse_long, parse_short, wrap_int, wrap_long
from tests.javacompat.vectors import NUMBERS

# First digits of the scripts in which Character.digit(char, 10) of JDK 17 finds digits, printed by it.
JDK17_ZEROS = (
    "0030 0660 06f0 07c0 0966 09e6 0a66 0ae6 0b66 0be6 0c66 0ce6 0d66 0de6 0e50 0ed0 0f20 1040 1090 "
    "17e0 1810 1946 19d0 1a80 1a90 1b50 1bb0 1c40 1c50 a620 a8d0 a900 a9d0 a9f0 aa50 abf0 ff10"
)


@pytest.mark.parametrize(("text", "as_int", "as_long", "as_short"), NUMBERS)
def test_numbers_are_parsed_as_in_java(
    text: str, as_int: int | None, as_long: int | None, as_short: int | None
) -> None:
    assert (parse_int(text), parse_long(text), parse_short(text)) == (as_int, as_long, as_short)


def test_digits_of_exactly_the_scripts_that_java_knows_are_taken() -> None:
    zeros = [int(zero, 16) for zero in JDK17_ZEROS.split()]
    expected = {chr(zero + digit): digit for zero in zeros for digit in range(10)}
    parsed = {chr(code): parse_int(chr(code)) for code in range(0x10000)}
    assert {character: digit for character, digit in parsed.items() if digit is not None} == expected


def test_digits_of_two_units_are_refused() -> None:
    assert parse_int("\U0001d7ce") is None


def test_scripts_may_be_mixed() -> None:
    assert parse_int("-\uff15\u0663") == -53


def test_thousands_of_digits_are_no_trouble() -> None:
    assert parse_long("0" * 30000 + "7") == 7
    assert parse_long("7" * 30000) is None


@given(st.integers(-(2**70), 2**70))
def test_wrapping_keeps_the_low_bits(value: int) -> None:
    assert (wrap_int(value) - value) % 2**32 == 0
    assert (wrap_long(value) - value) % 2**64 == 0
    assert -(2**31) <= wrap_int(value) < 2**31
    assert -(2**63) <= wrap_long(value) < 2**63
