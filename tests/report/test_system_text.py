"""Messages of the broker's own topics, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.javacompat import read_delay_levels
from rmqtool.report.system_text import system_text
from rmqtool.rows.messages import MessageRows
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store
from tests.scan.log_builder import STORE_TIMESTAMP_MS, record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("topic", "properties", "body", "expected"),
    [
        (b"Plain", b"TAGS\x01a", b"", None),
        (b"RMQ_SYS_TRANS_HALF_TOPIC", b"REAL_TOPIC\x01T\x02REAL_QID\x013", b"", "half message for T/3"),
        (b"RMQ_SYS_TRANS_OP_HALF_TOPIC", b"TAGS\x01d", b"17", "ends the half messages of queue offset 17"),
        (
            b"SCHEDULE_TOPIC_XXXX",
            b"DELAY\x012\x02REAL_TOPIC\x01T\x02REAL_QID\x011",
            b"",
            f"delay level 2 for T/1, due @{STORE_TIMESTAMP_MS + 5000}",
        ),
        (
            b"%RETRY%g\x1b",
            b"RETRY_TOPIC\x01T",
            b"",
            "to be consumed again by group g\\x1b, first of topic T, 0 times failed",
        ),
        (b"%DLQ%g", b"", b"", "dead letter of group g, first of topic ?, 0 times failed"),
        (
            b"T",
            b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x014,5",
            b"",
            "also in %LMQ%a,%LMQ%b at 4,5",
        ),
    ],
)
def test_what_is_said(
    tmp_path: Path, topic: bytes, properties: bytes, body: bytes, expected: str | None
) -> None:
    (tmp_path / "commitlog").mkdir()
    data = record(0, topic=topic, properties=properties, body=body) + bytes(64)
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(data)
    log = open_store(tmp_path).commitlog
    (found,) = (event for event in walk(log.segments) if isinstance(event, Record))
    row = MessageRows(log, read_delay_levels("1s 5s")).row(found)
    assert row.type == "message"
    assert system_text(row, lambda time_ms: f"@{time_ms}") == expected  # type: ignore[arg-type]
