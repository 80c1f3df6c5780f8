"""What Java does with strings, numbers, dates and checksums.

The broker writes hashes, tags codes, checksums and names that only come out equal when Java's own rules are
followed: strings are UTF-16, malformed UTF-8 is replaced in Java's way, ``int`` wraps, division truncates.
Each rule stands here twice: as a plain function in this package (no numpy, imported in milliseconds, for
look-ups) and as a numba kernel in ``rmqtool.javacompat.kernels`` (for the scan). Tests hold the two equal on
arbitrary bytes.

``ids`` (message ids) and ``kernels`` are imported by name; everything else is offered here.
"""

from __future__ import annotations

from rmqtool.javacompat.checksums import masked_crc32, parse_prop_crc_digits, prop_crc_digits
from rmqtool.javacompat.dates import index_file_name
from rmqtool.javacompat.delays import DelayLevels, read_delay_levels
from rmqtool.javacompat.integers import parse_int, parse_long, parse_short, trunc_div, wrap_int, wrap_long
from rmqtool.javacompat.properties import parse_properties
from rmqtool.javacompat.text import abs_int, decode_utf8, index_key_hash, split_keys, string_hash, tags_hash

__all__ = [
    "DelayLevels",
    "abs_int",
    "decode_utf8",
    "index_file_name",
    "index_key_hash",
    "masked_crc32",
    "parse_int",
    "parse_long",
    "parse_prop_crc_digits",
    "parse_properties",
    "parse_short",
    "prop_crc_digits",
    "read_delay_levels",
    "split_keys",
    "string_hash",
    "tags_hash",
    "trunc_div",
    "wrap_int",
    "wrap_long",
]
