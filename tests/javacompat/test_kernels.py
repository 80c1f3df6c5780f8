"""Hold the kernels equal to the scalar forms, on buffers that end where the bytes end and on larger ones."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqtool.javacompat import abs_int as scalar_abs_int
from rmqtool.javacompat import (
    decode_utf8,
    parse_int,
    parse_long,
    parse_properties,
    parse_short,
    split_keys,
    string_hash,
)
from rmqtool.kernels import bytes as raw
from rmqtool.kernels import checksums, jit, properties
from tests.compiled import from_python
from tests.javacompat.byte_strategies import NAMES, key_bytes, mixed_bytes, placed, property_bytes
from tests.javacompat.vectors import CRC32, HASHES, MALFORMED, NUMBERS, jdk17_utf8

if TYPE_CHECKING:
    import numpy.typing as npt
abs_int = from_python(properties.abs_int)
hash_utf8 = from_python(properties.hash_utf8)
next_key = from_python(properties.next_key)
find_property = from_python(properties.find_property)
scan_properties = from_python(properties.scan_properties)
crc32 = from_python(checksums.crc32)
int_of, long_of, short_of = map(from_python, (raw.parse_int, raw.parse_long, raw.parse_short))

compiles = settings(deadline=None)  # the first example pays for the compiler
margins = st.integers(0, 20)


@jit.numba.njit
def _hash_three_bytes(buffer: npt.NDArray[np.uint8], codes: npt.NDArray[np.int64]) -> None:
    """Hash all 65536 sequences of three bytes that begin with the first byte of the buffer."""
    for tail in range(0x10000):
        buffer[1] = tail >> 8
        buffer[2] = tail & 0xFF
        codes[tail] = properties.hash_utf8(buffer, 0, 3, 0)


@pytest.mark.parametrize(("text", "code"), HASHES)
def test_hash_is_that_of_java_strings(text: str, code: int) -> None:
    assert hash_utf8(*placed(text.encode(), 0, 0), 0) == code
    assert abs_int(code) == scalar_abs_int(code)


@pytest.mark.parametrize(("octets", "text", "code"), MALFORMED)
def test_malformed_bytes_are_hashed_as_decoded_by_java(octets: str, text: str, code: int) -> None:
    assert string_hash(text) == code
    assert hash_utf8(*placed(bytes.fromhex(octets), 0, 0), 0) == code


@pytest.mark.full
def test_all_sequences_of_three_bytes_hash_as_in_the_jdk() -> None:
    codes = np.empty(0x10000, np.int64)
    for lead, digest in jdk17_utf8("digest"):
        _hash_three_bytes(np.array([int(lead, 16), 0, 0], np.uint8), codes)
        assert f"{zlib.crc32(codes.astype('>i4').tobytes()):08x}" == digest, lead


def test_longer_sequences_hash_as_in_the_jdk() -> None:
    for octets, units in jdk17_utf8("text"):
        text = bytes.fromhex(units).decode("utf-16-be")
        assert hash_utf8(*placed(bytes.fromhex(octets), 0, 0), 0) == string_hash(text), octets


@compiles
@given(mixed_bytes(), st.integers(-(2**31), 2**31 - 1), margins, margins)
def test_hash_equals_the_scalar_one(data: bytes, seed: int, before: int, after: int) -> None:
    assert hash_utf8(*placed(data, before, after), seed) == string_hash(decode_utf8(data), seed)


@pytest.mark.parametrize(("data", "raw"), CRC32)
def test_crc_is_that_of_java(data: bytes, raw: int) -> None:
    assert crc32(*placed(data, 0, 0), 0) == raw


@compiles
@given(st.binary(max_size=100), st.binary(max_size=100), margins, margins)
def test_crc_equals_zlib_and_continues(left: bytes, right: bytes, before: int, after: int) -> None:
    value = crc32(*placed(left, before, after), 0)
    assert value == zlib.crc32(left)
    assert crc32(*placed(right, before, after), value) == zlib.crc32(left + right)


def _value(buffer: npt.NDArray[np.uint8], start: int, stop: int) -> str | None:
    if start < 0:
        assert (start, stop) == (-1, -1)
        return None
    return decode_utf8(buffer[start:stop].tobytes())


@compiles
@given(property_bytes(), margins, margins)
def test_properties_found_in_bytes_are_those_of_the_decoded_text(
    data: bytes, before: int, after: int
) -> None:
    decoded = parse_properties(data)
    expected = [decoded.get(name) for name in NAMES]
    buffer, start, stop = placed(data, before, after)
    names, bounds = properties.pack_names(NAMES)
    out = np.full((len(NAMES), 2), 7, np.int64)
    scan_properties(buffer, start, stop, names, bounds, out)
    assert [_value(buffer, *row) for row in out.tolist()] == expected
    single = [names[bounds[wanted] : bounds[wanted + 1]] for wanted in range(len(NAMES))]
    found = [find_property(buffer, start, stop, name) for name in single]
    assert [_value(buffer, *place) for place in found] == expected


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"KEYS\x01a\x02KEYS\x01bc\x02", "bc"),
        (b"KEYS\x01a\x02KEYS\x01\x02", "a"),
        (b"KEYS\x01a\x01\x03\x00b", "a\x01\x03\x00b"),
        (b"\x01KEYS\x01a", None),
        (b"KEYS\x02KEYS\x01", None),
        (b"\x00\x00KEYS\x01a", None),
        (b"abcdefgh\x00\x01ijklmnop\x02KEYS\x01qrstuvwxyz\x02", "qrstuvwxyz"),
    ],
)
def test_edges_of_properties(data: bytes, value: str | None) -> None:
    assert parse_properties(data).get("KEYS") == value
    buffer, start, stop = placed(data, 0, 0)
    names, bounds = properties.pack_names(["TAGS", "KEYS"])
    out = np.zeros((2, 2), np.int64)
    scan_properties(buffer, start, stop, names, bounds, out)
    assert _value(buffer, *out[0].tolist()) is None
    assert _value(buffer, *out[1].tolist()) == value


def test_wanted_names_must_be_ascii() -> None:
    with pytest.raises(UnicodeEncodeError):
        properties.pack_names(["Schlüssel"])


@pytest.mark.parametrize(("text", "as_int", "as_long", "as_short"), NUMBERS)
def test_numbers_are_parsed_as_in_java(
    text: str, as_int: int | None, as_long: int | None, as_short: int | None
) -> None:
    place = placed(text.encode(), 0, 0)
    results = [int_of(*place), long_of(*place), short_of(*place)]
    assert results == [(number is not None, number or 0) for number in (as_int, as_long, as_short)]


@compiles
@given(
    st.one_of(st.from_regex(r"[+-]?0{0,3}[0-9]{0,21}", fullmatch=True), st.text("+-019 _/:", max_size=5)),
    margins,
    margins,
)
def test_numbers_equal_the_scalar_ones(text: str, before: int, after: int) -> None:
    place = placed(text.encode(), before, after)
    results = [int_of(*place), long_of(*place), short_of(*place)]
    numbers = [parse_int(text), parse_long(text), parse_short(text)]
    assert results == [(number is not None, number or 0) for number in numbers]


def test_digits_of_other_scripts_are_left_to_the_scalar_form() -> None:
    assert int_of(*placed("\u0663".encode(), 0, 0)) == (False, 0)
    assert parse_int("\u0663") == 3


@compiles
@given(key_bytes(), margins, margins)
def test_keys_cut_in_bytes_are_those_of_the_decoded_text(data: bytes, before: int, after: int) -> None:
    buffer, position, stop = placed(data, before, after)
    keys = []
    while True:
        key_start, position = next_key(buffer, position, stop)
        if key_start < 0:
            break
        keys.append(decode_utf8(buffer[key_start:position].tobytes()))
    assert position == -1
    assert keys == split_keys(decode_utf8(data))


def test_read_only_buffers_are_accepted() -> None:
    buffer = np.frombuffer(b"TagA", dtype=np.uint8)
    assert hash_utf8(buffer, 0, 4, 0) == 2598919


def test_vectors_hold_a_digest_for_each_first_byte() -> None:
    assert [lead for lead, _ in jdk17_utf8("digest")] == [f"{lead:02x}" for lead in range(256)]
    assert all(re.fullmatch("[0-9a-f]{8}", digest) for _, digest in jdk17_utf8("digest"))
