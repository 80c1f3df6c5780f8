"""The property string of a message: ``name 01 value 02``, repeated."""

from __future__ import annotations

from rmqtool.javacompat.text import decode_utf8


def parse_properties(data: bytes) -> dict[str, str]:
    """Read properties as brokers of 4.9.1-4.9.8 and 5.x do.

    Java: ``MessageDecoder#string2messageProperties`` (read in 4.9.8, 5.3.3).
    A piece up to ``02`` or the end counts if its first ``01`` has something on both sides; values may contain
    further ``01``. The last of equal names wins. The last ``02`` may be missing.

    Java cuts the decoded string, we do the same: two names that differ in malformed bytes only are one name.
    """
    properties = {}
    for piece in decode_utf8(data).split("\x02"):
        # Java's "pieces shorter than 3 chars are ignored" follows from the two parts not being empty.
        name, _, value = piece.partition("\x01")
        if name and value:
            properties[name] = value
    return properties
