"""Text in kernels: numbers, strings of JSON, cells of csv, hexadecimal, base64; and what is harmless in it.

All that put something return the place after it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.kernels.bytes import as_int, copy_bytes
from rmqtool.kernels.jit import inlined, kernel
from rmqtool.kernels.properties import decode_character
from rmqtool.kernels.rows import PHYSICAL_OFFSET_AT, STORE_HOST_AT, STORE_V6
from rmqtool.kernels.walk import head_of

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Row


def chars(text: str) -> Buffer:
    """Return ASCII text as an array that kernels take."""
    return np.frombuffer(text.encode("ascii"), np.uint8)


LOWER, _UPPER = chars("0123456789abcdef"), chars("0123456789ABCDEF")
_SIXTY_FOUR = chars("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_SHORT_CONTROLS = chars("btn\0fr")  # backspace to carriage return have escapes of one letter, but 0x0B
_BACKSPACE, _TAB, _LINE_FEED, _VERTICAL_TAB, _CARRIAGE_RETURN = 0x08, 0x09, 0x0A, 0x0B, 0x0D
_REPLACEMENT = 0xFFFD
_QUOTE, _BACKSLASH, _DELETE, _PAD = 0x22, 0x5C, 0x7F, 0x3D
_LAST_OF_REPLACEMENT = 0xEF  # a first byte: of three, no other makes U+FFFD


class Style(IntEnum):
    """Forms of quoted text."""

    JSON = 0
    JSON_IN_CELL = 1  # of csv
    CELL = 2  # of csv, escaped as reports do, and no formula
    BODY_IN_CELL = 3  # of csv, text that `is_text` accepts there


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


@inlined
def _begins_formula(byte: int) -> bool:
    return byte in (0x3D, 0x2B, 0x2D, 0x40)  # =+-@


@inlined
def _is_control(byte: int) -> bool:
    """Whether a byte of ASCII must not be in a cell as it is."""
    return byte == _DELETE or (byte < 0x20 and byte not in (_TAB, _LINE_FEED, _CARRIAGE_RETURN))


@kernel
def is_text(buffer: Buffer, start: int, stop: int, in_cell: int) -> bool:
    """Whether bytes are UTF-8; with ``in_cell``, also whether they can be a cell of csv without escapes."""
    if in_cell and start < stop:
        if _begins_formula(buffer[start]) or buffer[start] in (_TAB, _CARRIAGE_RETURN):
            return False
    high = np.uint8(0)
    for i in range(np.uint64(start), np.uint64(stop)):
        high |= buffer[i]
    if high < 0x80 and not in_cell:
        return True
    at = start
    while at < stop:
        if buffer[at] < 0x80:
            if in_cell and _is_control(buffer[at]):
                return False
            at += 1
            continue
        character, size = decode_character(buffer, at, stop)
        if character == _REPLACEMENT and not (size == 3 and buffer[at] == _LAST_OF_REPLACEMENT):
            return False
        if in_cell and is_harmful(character):
            return False
        at += size
    return True


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


@inlined
def put_quote(out: Buffer, n: int, style: int) -> int:
    """Write the quote around a text."""
    out[n] = _QUOTE
    if style == Style.JSON_IN_CELL:
        n += 1
        out[n] = _QUOTE
    return n + 1


@inlined
def _is_plain(buffer: Buffer, start: int, stop: int) -> bool:
    """Whether no byte of a text can have an escape."""
    odd = False
    for i in range(np.uint64(start), np.uint64(stop)):
        byte = buffer[i]
        odd |= (byte < 0x20) | (byte == _QUOTE) | (byte == _BACKSLASH) | (byte >= _DELETE)
    return not odd


@kernel
def put_text(out: Buffer, n: int, buffer: Buffer, start: int, stop: int, style: int) -> int:
    """Write UTF-8 as quoted text."""
    n = put_quote(out, n, style)
    if style == Style.CELL and start < stop and _begins_formula(buffer[start]):
        n = _put_code(out, n, as_int(buffer[start]), style)
        start += 1
    if _is_plain(buffer, start, stop):
        n = copy_bytes(out, n, buffer, start, stop)
    else:
        n = _put_escaped(out, n, buffer, start, stop, style)
    return put_quote(out, n, style)


@kernel
def _put_escaped(out: Buffer, n: int, buffer: Buffer, start: int, stop: int, style: int) -> int:
    at = start
    while at < stop:
        byte = buffer[at]
        if byte >= 0x80:
            character, size = decode_character(buffer, at, stop)
            if is_harmful(character) and style != Style.BODY_IN_CELL:
                n = _put_code(out, n, character, style)
            else:
                n = copy_bytes(out, n, buffer, at, at + size)
            at += size
            continue
        at += 1
        if (byte < 0x20 or byte == _DELETE) and style != Style.BODY_IN_CELL:
            n = _put_control(out, n, as_int(byte), style)
            continue
        if byte == _QUOTE:
            if style in (Style.JSON, Style.JSON_IN_CELL):
                out[n] = _BACKSLASH
                n += 1
            if style != Style.JSON:
                out[n] = _QUOTE
                n += 1
        elif byte == _BACKSLASH and style != Style.BODY_IN_CELL:
            out[n] = _BACKSLASH
            n += 1
        out[n] = byte
        n += 1
    return n


@kernel
def _put_control(out: Buffer, n: int, byte: int, style: int) -> int:
    is_short = _BACKSPACE <= byte <= _CARRIAGE_RETURN and byte != _VERTICAL_TAB
    if not is_short or style == Style.CELL:
        return _put_code(out, n, byte, style)
    out[n], out[n + 1] = _BACKSLASH, _SHORT_CONTROLS[byte - _BACKSPACE]
    return n + 2


@kernel
def _put_code(out: Buffer, n: int, character: int, style: int) -> int:
    r"""Write a character as ``\uNNNN``, in a cell ``\xNN`` if that is enough."""
    is_byte = style == Style.CELL and character <= 0xFF
    out[n], out[n + 1] = _BACKSLASH, 0x78 if is_byte else 0x75
    n += 2
    shift = 4 if is_byte else 12
    while shift >= 0:
        out[n] = LOWER[character >> shift & 0xF]
        n += 1
        shift -= 4
    return n


@kernel
def put_hex(out: Buffer, n: int, buffer: Buffer, start: int, stop: int, digits: Buffer) -> int:
    """Write two digits for each byte."""
    at, to = np.uint64(start), np.uint64(n)
    for i in range(np.uint64(stop - start)):
        byte = buffer[at + i]
        out[to + i + i] = digits[byte >> 4]
        out[to + i + i + np.uint64(1)] = digits[byte & 0xF]
    return n + 2 * (stop - start)


@kernel
def put_base64(out: Buffer, n: int, buffer: Buffer, start: int, stop: int) -> int:
    """Write base64, filled up with ``=``."""
    at = start
    while at + 3 <= stop:
        bits = as_int(buffer[at]) << 16 | as_int(buffer[at + 1]) << 8 | as_int(buffer[at + 2])
        for i in range(4):
            out[n + i] = _SIXTY_FOUR[bits >> (18 - 6 * i) & 0x3F]
        at += 3
        n += 4
    left = stop - at
    if left:
        bits = as_int(buffer[at]) << 16 | (as_int(buffer[at + 1]) << 8 if left == 2 else 0)
        for i in range(4):
            out[n + i] = _SIXTY_FOUR[bits >> (18 - 6 * i) & 0x3F] if i <= left else _PAD
        n += 4
    return n


@kernel
def put_message_id(out: Buffer, n: int, buffer: Buffer, row: Row) -> int:
    """Write the offset id of a message: store host and physical offset."""
    at, variant = head_of(row)
    host = at + STORE_HOST_AT[variant]
    n = put_hex(out, n, buffer, host, host + (20 if row.sys_flag & STORE_V6 else 8), _UPPER)
    return put_hex(out, n, buffer, at + PHYSICAL_OFFSET_AT, at + PHYSICAL_OFFSET_AT + 8, _UPPER)
