"""The end of the log from the back is the end that a whole walk finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.scan.log_end import find_log_end, first_record, last_used_byte
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from tests.scan.log_builder import full_file, open_file, record, segment

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 1 << 20
BODY = b"b" * 4000


@pytest.mark.parametrize("count", [0, 1, 3, 30, 250])
def test_an_open_file(tmp_path: Path, count: int) -> None:
    one = segment(tmp_path, SIZE, full_file(SIZE, SIZE, [BODY] * 200))
    two = segment(tmp_path, 2 * SIZE, open_file(2 * SIZE, SIZE, [BODY] * count))
    zeros = segment(tmp_path, 3 * SIZE, bytes(SIZE))
    records = [event for event in walk([one, two, zeros]) if isinstance(event, Record)]
    found = find_log_end([one, two, zeros])
    assert found.last == records[-1]
    assert found.end == (records[-1].physical_offset + len(records[-1].raw) if count else 2 * SIZE)
    assert found.ends_cleanly
    assert first_record([one, two, zeros]) == records[0]


def test_a_log_that_ends_in_damage(tmp_path: Path) -> None:
    data = open_file(0, 1 << 16, [BODY] * 3)
    end = last_used_byte(segment(tmp_path, 0, data))
    torn = segment(tmp_path, 0, data[:end] + record(end, body=BODY)[:100].ljust(2000, b"\xee") + bytes(100))
    found = find_log_end([torn])
    assert (found.end, found.ends_cleanly) == (end, False)


def test_a_log_without_records(tmp_path: Path) -> None:
    assert find_log_end([]) == (None, 0, True)
    assert first_record([]) is None
    assert find_log_end([segment(tmp_path, SIZE, bytes(SIZE))]) == (None, SIZE, True)
