from __future__ import annotations

import itertools
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.javacompat import abs_int, decode_utf8, index_key_hash, split_keys, string_hash, tags_hash
from tests.javacompat.byte_strategies import mixed_bytes
from tests.javacompat.vectors import HASHES, MALFORMED, jdk17_utf8


def _digest(first: bytes, size: int) -> str:
    """Return the digest of ``jdk17_utf8.txt`` over all sequences of a size with the given beginning."""
    tails = itertools.product(range(256), repeat=size - len(first))
    codes = [string_hash(decode_utf8(first + bytes(tail))) for tail in tails]
    return f"{zlib.crc32(struct.pack(f'>{len(codes)}i', *codes)):08x}"


@pytest.mark.parametrize(("text", "code"), HASHES)
def test_hash_is_that_of_java_strings(text: str, code: int) -> None:
    assert string_hash(text) == code
    assert tags_hash(text) == code


@pytest.mark.parametrize(("octets", "text", "code"), MALFORMED)
def test_malformed_bytes_become_as_many_replacements_as_in_java(octets: str, text: str, code: int) -> None:
    assert decode_utf8(bytes.fromhex(octets)) == text
    assert string_hash(text) == code


def test_all_sequences_of_one_and_two_bytes_decode_as_in_the_jdk() -> None:
    assert [[_digest(b"", 1)]] == jdk17_utf8("digest1")
    assert [[_digest(b"", 2)]] == jdk17_utf8("digest2")


@pytest.mark.few(1)
@pytest.mark.parametrize("lead", ["e0", "ed", "f0", "f4"])
def test_all_sequences_of_three_bytes_behind_the_special_leads_decode_as_in_the_jdk(lead: str) -> None:
    """The kernel is held against the digests of all leads; these four have rules of their own."""
    assert [lead, _digest(bytes.fromhex(lead), 3)] in jdk17_utf8("digest")


def test_longer_sequences_decode_as_in_the_jdk() -> None:
    cases = jdk17_utf8("text")
    assert len(cases) == 600
    for octets, units in cases:
        assert decode_utf8(bytes.fromhex(octets)).encode("utf-16-be").hex() == units, octets


@given(mixed_bytes(), mixed_bytes(), st.characters(max_codepoint=0x7F))
def test_an_ascii_byte_always_starts_afresh(left: bytes, right: bytes, separator: str) -> None:
    """Cutting bytes at an ASCII byte is cutting the text: what the kernels build on."""
    whole = decode_utf8(left + separator.encode() + right)
    assert whole == decode_utf8(left) + separator + decode_utf8(right)


@given(st.text(), st.text())
def test_hash_continues_from_a_seed(left: str, right: str) -> None:
    assert string_hash(right, string_hash(left)) == string_hash(left + right)


def test_unpaired_surrogates_of_a_java_string_can_be_hashed() -> None:
    assert string_hash("\ud83d") == 0xD83D


@pytest.mark.parametrize(("value", "absolute"), [(0, 0), (-1, 1), (2**31 - 1, 2**31 - 1), (-(2**31), 0)])
def test_abs_of_the_least_int_is_zero(value: int, absolute: int) -> None:
    assert abs_int(value) == absolute


@pytest.mark.parametrize(
    ("topic", "key", "key_hash"),
    [
        ("TopicTest", "OrderID188", 1231271670),
        ("TopicTest", "tbaekxa", 0),
        ("TopicTest", "订单号10086", 43123917),
    ],
)
def test_index_hash_covers_topic_and_key(topic: str, key: str, key_hash: int) -> None:
    assert index_key_hash(topic, key) == key_hash


@pytest.mark.parametrize(
    ("keys", "pieces"),
    [
        ("a b", ["a", "b"]),
        (" a  b ", ["a", "b"]),
        ("a\tb", ["a\tb"]),
        ("a,b", ["a,b"]),
        ("\u3000a", ["\u3000a"]),
        (" ", []),
        ("", []),
        ("b a b", ["b", "a", "b"]),
    ],
)
def test_keys_are_cut_at_spaces_only(keys: str, pieces: list[str]) -> None:
    assert split_keys(keys) == pieces
