"""The rules of ``rmqtool.javacompat`` as numba kernels on uint8 buffers.

A kernel takes the buffer, ``(n,)``, with the positions of the first byte and after the last, allocates
nothing and releases the GIL. Positions must lie in the buffer: nothing is checked, unless
``NUMBA_BOUNDSCHECK=1``. Importing this package loads numba; the first call compiles, once for writable and
once for read-only buffers, and the result stays on disk.
"""

from __future__ import annotations

from rmqtool.javacompat.kernels.checksums import crc32
from rmqtool.javacompat.kernels.integers import parse_int, parse_long, parse_short
from rmqtool.javacompat.kernels.properties import (
    find_property,
    next_property,
    pack_names,
    scan_properties,
)
from rmqtool.javacompat.kernels.text import abs_int, decode_character, hash_utf8, next_key

__all__ = [
    "abs_int",
    "crc32",
    "decode_character",
    "find_property",
    "hash_utf8",
    "next_key",
    "next_property",
    "pack_names",
    "parse_int",
    "parse_long",
    "parse_short",
    "scan_properties",
]
