"""Compressed bodies: every kind that brokers know, and hostile ones."""

from __future__ import annotations

import contextlib
import sys
import zlib

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.rows.bodies import BodyError, decompress

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

OLD_ZLIB, LZ4, ZSTD, ZLIB = 0x001, 0x101, 0x201, 0x301
BODY = b"once upon a time " * 1000


def packed(sys_flag: int, body: bytes) -> bytes:
    if sys_flag == LZ4:
        return bytes(lz4.frame.compress(body))
    if sys_flag == ZSTD:
        return zstd.compress(body)
    return zlib.compress(body)


@pytest.mark.parametrize("sys_flag", [OLD_ZLIB, ZLIB, LZ4, ZSTD])
def test_each_kind(sys_flag: int) -> None:
    data = packed(sys_flag, BODY)
    assert decompress(data, sys_flag) == BODY
    assert decompress(data, sys_flag, len(BODY)) == BODY
    with pytest.raises(BodyError, match="more than"):
        decompress(data, sys_flag, len(BODY) - 1)


@pytest.mark.parametrize("sys_flag", [OLD_ZLIB, LZ4, ZSTD])
def test_no_such_data(sys_flag: int) -> None:
    packed(sys_flag, BODY)
    with pytest.raises(BodyError):
        decompress(b"plain text", sys_flag)


@pytest.mark.parametrize("sys_flag", [OLD_ZLIB, LZ4, ZSTD])
def test_cut_data(sys_flag: int) -> None:
    with pytest.raises(BodyError):
        decompress(packed(sys_flag, BODY)[:-6], sys_flag)


def test_what_is_not_compressed_stays() -> None:
    assert decompress(BODY, 0x300) == BODY
    assert decompress(b"", OLD_ZLIB) == b""


def test_an_unknown_kind() -> None:
    with pytest.raises(BodyError, match="names no compression"):
        decompress(BODY, 0x701)


@given(st.binary(max_size=200))
def test_any_bytes_unpack_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(BodyError):
        assert len(decompress(data, ZLIB, 1000)) <= 1000
