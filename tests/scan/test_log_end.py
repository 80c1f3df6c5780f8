"""The end of the log from the back is the end that a whole walk finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqtool.io.location import ReadOnlyFile
from rmqtool.scan.classify import FoundEdge, last_used_byte
from rmqtool.scan.record_walk import LogEnd, find_log_end, first_record, walk
from rmqtool.scan.records import Record
from rmqtool.store import Segment
from tests.scan.log_builder import full_file, open_file, record, segment

SIZE = 1 << 20
BODY = b"b" * 4000


@pytest.mark.parametrize("count", [0, 1, 3, 30, 250])
def test_an_open_file(tmp_path: Path, count: int) -> None:
    one = segment(tmp_path, SIZE, full_file(SIZE, SIZE, [BODY] * 200))
    two = segment(tmp_path, 2 * SIZE, open_file(2 * SIZE, SIZE, [BODY] * count))
    zeros = segment(tmp_path, 3 * SIZE, bytes(SIZE))
    records = [event for event in walk([one, two, zeros]) if isinstance(event, Record)]
    found = find_log_end(FoundEdge([one, two, zeros]))
    assert found.last == records[-1]
    assert found.end == (records[-1].physical_offset + len(records[-1].raw) if count else 2 * SIZE)
    assert found.ends_cleanly
    assert first_record([one, two, zeros]) == records[0]


def test_a_log_that_ends_in_damage(tmp_path: Path) -> None:
    data = open_file(0, 1 << 16, [BODY] * 3)
    end = last_used_byte(segment(tmp_path, 0, data))
    torn = segment(tmp_path, 0, data[:end] + record(end, body=BODY)[:100].ljust(2000, b"\xee") + bytes(100))
    found = find_log_end(FoundEdge([torn]))
    assert (found.end, found.ends_cleanly) == (end, False)


def test_a_log_without_records(tmp_path: Path) -> None:
    assert find_log_end(FoundEdge([])) == LogEnd(None, 0, None)
    assert first_record([]) is None
    assert find_log_end(FoundEdge([segment(tmp_path, SIZE, bytes(SIZE))])) == LogEnd(None, SIZE, None)


def test_holes_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gibibyte that a broker has allocated costs what is written of it."""
    one = segment(tmp_path, 0, open_file(0, 1 << 16, [BODY] * 3))
    with Path(str(one.path)).open("r+b") as file:
        file.truncate(1 << 30)
    sparse = Segment(one.path, one.label, 1 << 30, 0)
    if sparse.next_written(1 << 20) < 1 << 29:
        pytest.skip("this file system has no holes")
    read: list[int] = []
    read_into = ReadOnlyFile.read_into

    def counting(file: ReadOnlyFile, *rest: Any) -> int:  # noqa: ANN401 - its own arguments
        read.append(read_into(file, *rest))
        return read[-1]

    monkeypatch.setattr(ReadOnlyFile, "read_into", counting)
    found = find_log_end(FoundEdge([sparse]))
    assert found.end == find_log_end(FoundEdge([one])).end
    assert found.ends_cleanly
    assert sum(read) < 32 << 20
