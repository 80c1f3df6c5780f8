"""Commit logs for tests, written by the schemas: records, BLANKs and files of any size."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from rmqtool.formats import message
from rmqtool.io import location_of
from rmqtool.store.segments import Segment

if TYPE_CHECKING:
    from pathlib import Path

STORE_TIMESTAMP_MS = 1_650_000_000_000


def record(physical_offset: int, **fields: Any) -> bytes:  # noqa: ANN401 - any field of the schema
    """Build one record that is right in every field, except for those given."""
    body: bytes = fields.get("body", b"body")
    values: dict[str, Any] = {
        "magic": message.MAGIC_V1,
        "bodyCrc": zlib.crc32(body) & 0x7FFFFFFF if body else 0,
        "queueId": 0,
        "flag": 0,
        "queueOffset": 0,
        "physicalOffset": physical_offset,
        "sysFlag": 0,
        "bornTimestamp": STORE_TIMESTAMP_MS,
        "storeTimestamp": STORE_TIMESTAMP_MS,
        "reconsumeTimes": 0,
        "preparedTransactionOffset": 0,
        "body": body,
        "topic": b"TopicTest",
        "properties": b"KEYS\x01k1 k2\x02UNIQ_KEY\x01U1\x02TAGS\x01TagA",
    } | fields
    for host, bit in (("bornHost", message.BORN_HOST_V6), ("storeHost", message.STORE_HOST_V6)):
        width = 16 if values["sysFlag"] & bit else 4
        values.setdefault(host, {"address": bytes(range(1, width + 1)), "port": 10911})
    raw: bytes = message.MESSAGE.build({"totalSize": 0} | values)
    total_size: int = fields.get("totalSize", len(raw))
    return total_size.to_bytes(4, "big", signed=True) + raw[4:]


def blank(length: int, total_size: int | None = None) -> bytes:
    """Build a BLANK and the zeros after it, ``length`` bytes in all."""
    fields = {"totalSize": length if total_size is None else total_size, "magic": message.BLANK_MAGIC}
    head: bytes = message.END_MARK.build(fields)
    return head + bytes(length - len(head))


def segment(folder: Path, start: int, data: bytes) -> Segment:
    """Write one file of the log and return it."""
    path = folder / f"{start:020d}"
    path.write_bytes(data)
    return Segment(location_of(path), f"commitlog/{path.name}", len(data), start)


def full_file(start: int, size_bytes: int, bodies: list[bytes]) -> bytes:
    """Build a file of records that a BLANK closes."""
    data = b""
    for number, body in enumerate(bodies):
        data += record(start + len(data), body=body, queueOffset=number)
    return data + blank(size_bytes - len(data))


def open_file(start: int, size_bytes: int, bodies: list[bytes]) -> bytes:
    """Build a file of records with room left, as the last file of a log."""
    data = b""
    for number, body in enumerate(bodies):
        data += record(start + len(data), body=body, queueOffset=number)
    return data.ljust(size_bytes, b"\0")
