"""Test vectors made by Java: hash codes, checksums, and numbers as text."""

from __future__ import annotations

from pathlib import Path

JDK17_UTF8 = Path(__file__).with_name("jdk17_utf8.txt")

HASHES = [
    ("", 0),
    ("a", 97),
    ("*", 42),
    ("d", 100),
    ("TagA", 2598919),
    ("TagB", 2598920),
    ("TAG_A || TAG_B", -900630783),
    ("TopicTest#OrderID188", -1231271670),
    ("TopicA#k1", -1903240649),
    ("TopicA#U0", -1903241332),
    ("%RETRY%group", 995971261),
    ("订单", 1129459),
    ("支付成功", 791872472),
    ("TopicTest#订单号10086", 43123917),
    ("\U0001f600", 1772899),
    ("TopicTest#\U0001f600", 4515557),
    ("\U0001f468\u200d\U0001f469\u200d\U0001f467", 338679017),
    ("\U00020bb7野家", 1705507357),
    ("\u00e9", 233),
    ("\u0065\u0301", 3900),
    ("polygenelubricants", -0x80000000),
    ("TopicTest#tbaekxa", -0x80000000),
]

MALFORMED = [
    ("c3", "\ufffd", 65533),
    ("e4bd", "\ufffd", 65533),
    ("f09f98", "\ufffd", 65533),
    ("e4bd41", "\ufffdA", 2031588),
    ("ff", "\ufffd", 65533),
    ("80", "\ufffd", 65533),
    ("c080", "\ufffd" * 2, 2097056),
    ("e08080", "\ufffd" * 3, 65074269),
    ("f4908080", "\ufffd" * 4, 2017367872),
    ("f8888080", "\ufffd" * 4, 2017367872),
    ("f0808080", "\ufffd" * 4, 2017367872),
    ("6162ff63", "ab\ufffdc", 5015527),
    ("eda080", "\ufffd", 65533),
    ("eda0bdedb880", "\ufffd" * 2, 2097056),
    ("eda041", "\ufffdA", 2031588),
]

CRC32 = [
    (b"", 0x00000000),
    (b"a", 0xE8B7BE43),
    (b"123456789", 0xCBF43926),
    (b"Hello RocketMQ", 0x69C865ED),
    (b"Hello RocketMQ 0", 0x248C774F),
    (b"x" * 10, 0x8EDF4777),
    ("订单".encode(), 0xC2C15BB3),
    ("\U0001f600".encode(), 0x054DB544),
    (b"\x00" * 4, 0x2144DF1C),
    (b"\xff" * 4, 0xFFFFFFFF),
]

# text, Integer.parseInt, Long.parseLong, Short.parseShort; None: NumberFormatException
NUMBERS: list[tuple[str, int | None, int | None, int | None]] = [
    ("+5", 5, 5, 5),
    ("-5", -5, -5, -5),
    ("-0", 0, 0, 0),
    ("", None, None, None),
    ("+", None, None, None),
    ("-", None, None, None),
    ("--5", None, None, None),
    ("+-5", None, None, None),
    (" 5", None, None, None),
    ("5 ", None, None, None),
    ("1_0", None, None, None),
    ("0x5", None, None, None),
    ("32767", 32767, 32767, 32767),
    ("32768", 32768, 32768, None),
    ("-32768", -32768, -32768, -32768),
    ("2147483647", 2147483647, 2147483647, None),
    ("2147483648", None, 2147483648, None),
    ("-2147483648", -2147483648, -2147483648, None),
    ("-2147483649", None, -2147483649, None),
    ("9223372036854775807", None, 2**63 - 1, None),
    ("9223372036854775808", None, None, None),
    ("-9223372036854775808", None, -(2**63), None),
    ("-9223372036854775809", None, None, None),
    ("18446744073709551621", None, None, None),  # 2^64 + 5
    ("0000000000000000000000000000000000000012", 12, 12, 12),
]


def jdk17_utf8(kind: str) -> list[list[str]]:
    """Return the fields of the lines of one kind in ``jdk17_utf8.txt``."""
    lines = (line.split() for line in JDK17_UTF8.read_text(encoding="ascii").splitlines())
    return [fields for head, *fields in lines if head == kind]
