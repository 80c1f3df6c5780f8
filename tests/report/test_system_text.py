"""Messages of the broker's own topics, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.javacompat import read_delay_levels
from rmqtool.report.row_text import system_text
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
        (
            b"RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
            b"TAGS\x01d\x02REAL_TOPIC\x01T\x02TRANS_OFFSET\x01230",
            b"\0",
            "ends the half message at physical offset 230",
        ),
        (
            b"RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
            b"TAGS\x01d",
            b"\0",
            "ends the half message at physical offset ?",
        ),
        (
            b"rmq_sys_wheel_timer",
            b"REAL_TOPIC\x01T\x02REAL_QID\x011\x02TIMER_OUT_MS\x0177\x02TIMER_ROLL_LABEL\x01R",
            b"",
            "timer message for T/1, due @77, rolled: R",
        ),
        (
            b"rmq_sys_REVIVE_LOG_C",
            b"TAGS\x01ck",
            b'{"bm":0,"bn":"b","c":"g","it":60000,"n":2,"pt":1000,"q":3,"so":7,"sp":true,"t":"T"}',
            "2 popped from queue offset 7 of T/3 by group g, hidden until @61000, suspended",
        ),
        (
            b"rmq_sys_REVIVE_LOG_C",
            b"TAGS\x01ck",
            b'{"c":5,"n":true,"pt":1,"q":null,"so":99999999999999999999}',
            "? popped from queue offset ? of ?/? by group ?",
        ),
        (
            b"rmq_sys_REVIVE_LOG_C",
            b"TAGS\x01ack",
            b'{"ao":9,"bn":"b","c":"g","pt":1000,"q":3,"so":7,"t":"T"}',
            "acknowledges queue offset 9 of T/3 by group g",
        ),
        (
            b"rmq_sys_REVIVE_LOG_C",
            b"TAGS\x01bAck",
            b'{"aol":[9,"x",10],"c":"g","q":3,"so":7,"t":"T"}',
            "acknowledges queue offset 9, 10 of T/3 by group g",
        ),
        (b"rmq_sys_REVIVE_LOG_C", b"TAGS\x01ck", b"[" * 100_000, None),
        (b"rmq_sys_REVIVE_LOG_C", b"TAGS\x01ck", b"[1]", None),
        (b"rmq_sys_REVIVE_LOG_C", b"TAGS\x01other", b"{}", None),
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
