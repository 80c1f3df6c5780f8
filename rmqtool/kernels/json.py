"""Pieces of JSON from bytes: numbers, strings, hexadecimal, hosts.

Strings are written as they are, so the caller passes only those that `is_harmless` accepts.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.kernels.bytes import as_int
from rmqtool.kernels.jit import kernel
from rmqtool.kernels.properties import decode_character
from rmqtool.kernels.rows import PHYSICAL_OFFSET_AT, STORE_HOST_AT, STORE_V6
from rmqtool.kernels.walk import head_of, read_i32

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Row


def chars(text: str) -> Buffer:
    """Return ASCII text as an array that kernels take."""
    return np.frombuffer(text.encode("ascii"), np.uint8)


_LOWER, _UPPER = chars("0123456789abcdef"), chars("0123456789ABCDEF")
_NULL = chars("null")
_CONTROL = chars("\\u00")
_SHORT_CONTROLS = chars("btn\0fr")  # backspace to carriage return have escapes of one letter, but 0x0B
_BACKSPACE, _VERTICAL_TAB, _CARRIAGE_RETURN = 0x08, 0x0B, 0x0D
_NO_BODY = chars('null, "bodyEncoding": null')
_IS_TEXT, _IS_HEX = chars('", "bodyEncoding": "utf-8"'), chars('", "bodyEncoding": "hex"')
_REPLACEMENT = 0xFFFD
_QUOTE, _BACKSLASH, _DELETE = 0x22, 0x5C, 0x7F
_GROUPS = 8  # of an IPv6 address, two bytes each


class BodyForm(IntEnum):
    """Ways to write a body."""

    NONE = 0
    TEXT = 1
    HEX = 2


@kernel
def is_harmless(buffer: Buffer, start: int, stop: int, allows_controls: bool) -> bool:
    """Whether bytes are UTF-8 that any format may show as it is.

    ``allows_controls`` accepts ASCII controls, where the caller escapes them.
    """
    at = start
    while at < stop:
        byte = buffer[at]
        if byte < 0x80:
            if not allows_controls and (byte < 0x20 or byte == _DELETE):
                return False
            at += 1
            continue
        character, size = decode_character(buffer, at, stop)
        if character == _REPLACEMENT or is_harmful(character):
            return False
        at += size
    return True


@kernel
def is_harmful(character: int) -> bool:
    """Whether a character beyond ASCII is a control, ends a line, or turns the direction of writing."""
    if character < 0xA0:
        return True
    if character < 0x2000:
        return character == 0x61C
    if character < 0x2070:
        return character in (0x200E, 0x200F) or 0x2028 <= character <= 0x202E or 0x2066 <= character <= 0x2069
    return character == 0xFEFF


@kernel
def put(out: Buffer, n: int, text: Buffer) -> int:
    """Write characters; return the place after them, as all that put something do."""
    for i in range(len(text)):
        out[n + i] = text[i]
    return n + len(text)


@kernel
def put_number(out: Buffer, n: int, value: int) -> int:
    """Write a decimal number; the least i64 has no positive twin, so the digits are those of a u64."""
    rest = np.uint64(value)
    if value < 0:
        out[n] = 0x2D
        n += 1
        rest = np.uint64(0) - rest
    size, power = 1, rest
    while power >= np.uint64(10):
        power //= np.uint64(10)
        size += 1
    for i in range(size):
        out[n + size - 1 - i] = np.uint8(np.uint64(0x30) + rest % np.uint64(10))
        rest //= np.uint64(10)
    return n + size


@kernel
def put_string(out: Buffer, n: int, buffer: Buffer, start: int, stop: int) -> int:
    """Write harmless UTF-8 as a JSON string."""
    out[n] = _QUOTE
    n += 1
    for i in range(start, stop):
        byte = buffer[i]
        if byte in (_QUOTE, _BACKSLASH):
            out[n] = _BACKSLASH
            n += 1
        out[n] = byte
        n += 1
    out[n] = _QUOTE
    return n + 1


@kernel
def put_hex(out: Buffer, n: int, buffer: Buffer, start: int, stop: int, digits: Buffer) -> int:
    """Write two digits for each byte."""
    for i in range(start, stop):
        out[n] = digits[buffer[i] >> 4]
        out[n + 1] = digits[buffer[i] & 0xF]
        n += 2
    return n


@kernel
def put_message_id(out: Buffer, n: int, buffer: Buffer, row: Row) -> int:
    """Write the offset id of a message: store host and physical offset."""
    at, variant = head_of(row)
    host = at + STORE_HOST_AT[variant]
    n = put_hex(out, n, buffer, host, host + (20 if row.sys_flag & STORE_V6 else 8), _UPPER)
    return put_hex(out, n, buffer, at + PHYSICAL_OFFSET_AT, at + PHYSICAL_OFFSET_AT + 8, _UPPER)


@kernel
def put_host(out: Buffer, n: int, buffer: Buffer, at: int, is_v6: bool) -> int:
    """Write a host, address and an i32 port, as ``ip:port`` or ``[ip6]:port``."""
    if is_v6:
        out[n] = 0x5B
        n = _put_address6(out, n + 1, buffer, at)
        out[n], out[n + 1] = 0x5D, 0x3A
        return put_number(out, n + 2, read_i32(buffer, at + 2 * _GROUPS))
    for i in range(4):
        n = put_number(out, n, as_int(buffer[at + i]))
        out[n] = 0x2E if i < 3 else 0x3A
        n += 1
    return put_number(out, n, read_i32(buffer, at + 4))


@kernel
def _put_address6(out: Buffer, n: int, buffer: Buffer, at: int) -> int:
    """Write groups in hexadecimal, the longest run of at least two zeros as ``::`` (RFC 5952)."""
    gap, gap_stop = _longest_zeros(buffer, at)
    for i in range(_GROUPS):
        if gap <= i < gap_stop:
            if i == gap:
                out[n], out[n + 1] = 0x3A, 0x3A
                n += 2
            continue
        if i not in (0, gap_stop):
            out[n] = 0x3A
            n += 1
        group = as_int(buffer[at + 2 * i]) << 8 | as_int(buffer[at + 2 * i + 1])
        shift = 12
        while shift and not group >> shift:
            shift -= 4
        while shift >= 0:
            out[n] = _LOWER[group >> shift & 0xF]
            n += 1
            shift -= 4
    return n


@kernel
def _longest_zeros(buffer: Buffer, at: int) -> tuple[int, int]:
    """Return the first of the longest runs of zero groups; (-1, -1) if none has two."""
    best, best_stop, first = -1, -1, 0
    for i in range(_GROUPS):
        if buffer[at + 2 * i] or buffer[at + 2 * i + 1]:
            first = i + 1
        elif i + 1 - first > max(1, best_stop - best):
            best, best_stop = first, i + 1
    return best, best_stop


@kernel
def put_body(out: Buffer, n: int, buffer: Buffer, start: int, stop: int, form: int) -> int:
    """Write a body and the member that names its encoding; text is harmless UTF-8, controls aside."""
    if form == BodyForm.HEX:
        out[n] = _QUOTE
        n = put_hex(out, n + 1, buffer, start, stop, _LOWER)
        return put(out, n, _IS_HEX)
    if form != BodyForm.TEXT:
        return put(out, n, _NO_BODY)
    out[n] = _QUOTE
    n += 1
    for i in range(start, stop):
        byte = buffer[i]
        if byte < 0x20 or byte == _DELETE:
            n = _put_control(out, n, byte)
            continue
        if byte in (_QUOTE, _BACKSLASH):
            out[n] = _BACKSLASH
            n += 1
        out[n] = byte
        n += 1
    return put(out, n, _IS_TEXT)


@kernel
def _put_control(out: Buffer, n: int, byte: int) -> int:
    if _BACKSPACE <= byte <= _CARRIAGE_RETURN and byte != _VERTICAL_TAB:
        out[n], out[n + 1] = _BACKSLASH, _SHORT_CONTROLS[byte - _BACKSPACE]
        return n + 2
    n = put(out, n, _CONTROL)
    out[n], out[n + 1] = _LOWER[byte >> 4], _LOWER[byte & 0xF]
    return n + 2


@kernel
def put_value(out: Buffer, n: int, buffer: Buffer, start: int, stop: int) -> int:
    """Write a string, or null where there is none."""
    return put(out, n, _NULL) if start < 0 else put_string(out, n, buffer, start, stop)
