"""Java's ``int`` and ``long``: wrapping, truncating division, and parsing of decimal text."""

from __future__ import annotations

_LONGEST_LONG = 19  # digits of Long.MAX_VALUE


def wrap_int(value: int) -> int:
    """Reduce a number to the signed 32 bits that a Java ``int`` keeps."""
    return ((value + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000


def wrap_long(value: int) -> int:
    """Reduce a number to the signed 64 bits that a Java ``long`` keeps."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def trunc_div(dividend: int, divisor: int) -> int:
    """Divide as Java does: the quotient is cut towards zero, where Python's ``//`` goes down.

    Raises:
        ZeroDivisionError: The divisor is 0 (Java: ArithmeticException).
    """
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def parse_short(text: str) -> int | None:
    """Parse as ``Short#parseShort``; None where Java throws NumberFormatException."""
    return _parse(text, 15)


def parse_int(text: str) -> int | None:
    """Parse as ``Integer#parseInt``; None where Java throws NumberFormatException."""
    return _parse(text, 31)


def parse_long(text: str) -> int | None:
    """Parse as ``Long#parseLong``; None where Java throws NumberFormatException."""
    return _parse(text, 63)


def _parse(text: str, bits: int) -> int | None:
    magnitude = _parse_digits(text[1:] if text[:1] in {"+", "-"} else text)
    if magnitude is None:
        return None
    value = -magnitude if text[0] == "-" else magnitude
    return value if -(1 << bits) <= value < 1 << bits else None


def _parse_digits(digits: str) -> int | None:
    """Read decimal digits of any script, which ``Character#digit`` of JDK 17 takes too.

    Java looks at UTF-16 units, so digits beyond U+FFFF (two units, neither a digit) are refused. Python's
    ``int`` alone would also take spaces and underscores, and refuses thousands of leading zeros, which Java
    accepts.
    """
    if not digits.isdecimal() or max(digits) > "\uffff":
        return None
    if not digits.isascii():
        digits = "".join(str(int(digit)) for digit in digits)
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= _LONGEST_LONG else None
