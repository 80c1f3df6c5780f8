"""Rows of messages: hosts, ids, tags codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.javacompat import read_delay_levels
from rmqtool.rows.messages import host_text, keys_of, offset_id_of, tags_code
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from tests.scan.log_builder import STORE_TIMESTAMP_MS, record, segment

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = read_delay_levels("1s 5s")


def record_of(folder: Path, **fields: Any) -> Record:  # noqa: ANN401 - any field of the schema
    events = walk([segment(folder, 0, record(0, **fields) + bytes(64))])
    return next(event for event in events if isinstance(event, Record))


@pytest.mark.parametrize(
    ("address", "port", "text"),
    [
        (bytes([10, 0, 0, 1]), 10911, "10.0.0.1:10911"),
        (bytes(15) + b"\1", 1, "[::1]:1"),
        (bytes(4), -1, "0.0.0.0:-1"),
    ],
)
def test_hosts(address: bytes, port: int, text: str) -> None:
    assert host_text(address + port.to_bytes(4, "big", signed=True)) == text


def test_offset_id(tmp_path: Path) -> None:
    host = {"address": bytes([10, 9, 8, 7]), "port": 10911}
    assert offset_id_of(record_of(tmp_path, storeHost=host)) == "0A09080700002A9F0000000000000000"


@pytest.mark.parametrize(
    ("topic", "properties", "expected"),
    [
        (b"T", b"TAGS\x01TagA", 2598919),
        (b"T", b"KEYS\x01k", 0),
        (b"T", b"TAGS\x01TagA\x02DELAY\x011", 2598919),
        (b"SCHEDULE_TOPIC_XXXX", b"TAGS\x01TagA\x02DELAY\x011", STORE_TIMESTAMP_MS + 1000),
        (b"SCHEDULE_TOPIC_XXXX", b"DELAY\x0199", STORE_TIMESTAMP_MS + 5000),
        (b"SCHEDULE_TOPIC_XXXX", b"TAGS\x01TagA\x02DELAY\x010", 2598919),
        (b"SCHEDULE_TOPIC_XXXX", b"TAGS\x01TagA\x02DELAY\x01x", 2598919),
        (b"SCHEDULE_TOPIC_XXXX", b"TAGS\x01TagA", 2598919),
    ],
)
def test_tags_codes(tmp_path: Path, topic: bytes, properties: bytes, expected: int) -> None:
    assert tags_code(record_of(tmp_path, topic=topic, properties=properties), LEVELS) == expected


def test_keys_in_the_order_of_the_index(tmp_path: Path) -> None:
    assert keys_of(record_of(tmp_path, properties=b"KEYS\x01 b  a b\x02UNIQ_KEY\x01u")) == [
        "u",
        "b",
        "a",
        "b",
    ]
    assert keys_of(record_of(tmp_path, properties=b"")) == []
