"""Java's rules for strings, numbers, dates and checksums, by which the broker's values are made.

Strings are UTF-16, malformed UTF-8 is replaced in Java's way, ``int`` wraps, division truncates. Each rule is
here twice: as a plain function in ``scalars`` (no numpy, for look-ups) and as a numba kernel in ``kernels``
(for scans); tests compare the two on arbitrary bytes. ``ids`` (message ids) and ``kernels`` are imported by
name.
"""

from __future__ import annotations

from rmqtool.javacompat.scalars import (
    DelayLevels,
    abs_int,
    decode_utf8,
    index_file_name,
    index_key_hash,
    masked_crc32,
    parse_int,
    parse_long,
    parse_prop_crc_digits,
    parse_properties,
    parse_short,
    prop_crc_digits,
    read_delay_levels,
    split_keys,
    string_hash,
    tags_hash,
    trunc_div,
    wrap_int,
    wrap_long,
)

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
