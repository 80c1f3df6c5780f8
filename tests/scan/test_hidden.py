"""Whole records below a frame of another place: all readers say the same of them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rmqtool.findings import Finding
from rmqtool.formats.message import Outcome
from rmqtool.releases import LENIENT
from rmqtool.scan.gap_walk import GapWalk, gap_of
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Gap, Record
from tests.broker.log_damage import LogCopy
from tests.salvage.test_heads import copy_of, hidden_records, opened
from tests.scan.log_builder import open_file, record, segment

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.store.segments import Segment

_FILE = 8192


def by_batches(one: Segment, stop: int | None = None) -> tuple[list[int], list[tuple[int, int, Outcome]]]:
    """Return the places of the true records of a file, and its gaps, of two splits if it is parted."""
    places: list[int] = []
    gaps: list[tuple[int, int, Outcome]] = []
    bounds = [one.start, *([] if stop is None else [stop]), one.stop]
    for start, end in pairwise(bounds):
        reader = GapWalk(one, LENIENT)
        first = reader.guess(start, end)
        for part in () if first is None else reader.parts(first, end):
            found = [part] if isinstance(part, Gap) else [gap_of(row) for row in part.gaps]
            gaps += [(gap.start, gap.stop, gap.reason) for gap in found]
            places += [] if isinstance(part, Gap) else part.rows["log_offset"].tolist()
    return places, gaps


def one_by_one(one: Segment) -> tuple[list[int], list[Finding]]:
    events = list(walk([one]))
    places = [event.physical_offset for event in events if isinstance(event, Record)]
    return places, [event for event in events if isinstance(event, Finding) and event.length]


def hiding_log(folder: Path, *, over: int, claims: int = 5 << 30) -> tuple[Segment, list[int], int]:
    """Return a file with a frame over its third record and the two after it, where they lie, and its end."""
    sizes = [len(record(0, body=bytes(100)))] * 6
    starts = np.cumsum([0, *sizes]).tolist()
    data = bytearray(b"".join(record(at, body=bytes(100)) for at in starts[:6]))
    stop = starts[5] + over
    frame = record(starts[2], physicalOffset=claims, body=bytes(stop - starts[2] - len(record(0, body=b""))))
    assert len(frame) == stop - starts[2]
    whole = data[starts[3] : starts[5]]
    data[starts[2] : stop] = frame
    data[starts[3] : starts[5]] = whole
    return segment(folder, 0, bytes(data).ljust(_FILE, b"\0")), starts, stop


@pytest.mark.parametrize("over", [64, 218])
def test_records_below_a_frame_are_read(over: int, tmp_path: Path) -> None:
    one, starts, _ = hiding_log(tmp_path, over=over)
    places, gaps = by_batches(one)
    assert places == [*starts[:2], *starts[3:5]]
    assert (starts[2], starts[3], Outcome.FOREIGN) in gaps
    assert one_by_one(one)[0] == places
    first = one_by_one(one)[1][0]
    assert (first.code.code, first.physical_offset, first.length) == (
        "CL-PHY-MISMATCH",
        starts[2],
        starts[3] - starts[2],
    )
    assert f"over 2 whole records from {starts[3]} on" in first.message
    assert "rmqtool salvage" in (first.remedy_override or "")


@pytest.mark.parametrize("number", range(1, 6))
def test_parts_of_a_file_agree_with_all_of_it(number: int, tmp_path: Path) -> None:
    one, starts, _ = hiding_log(tmp_path, over=64)
    for seam in (starts[number], starts[number] + 50):
        assert by_batches(one, seam)[0] == by_batches(one)[0]


def test_what_a_proven_body_carries_is_no_record(tmp_path: Path) -> None:
    head = len(record(0, body=b"", topic=b"", properties=b""))
    inner = record(head, body=b"in a body")
    outer = record(0, physicalOffset=1 << 40, body=inner)
    assert inner in outer
    at = outer.index(inner)
    inner = record(at, body=b"in a body")
    outer = record(0, physicalOffset=1 << 40, body=inner)
    one = segment(tmp_path, 0, (outer + record(len(outer))).ljust(_FILE, b"\0"))
    assert by_batches(one)[0] == one_by_one(one)[0] == [0, len(outer)]


def test_a_file_of_another_place_hides_nothing(tmp_path: Path) -> None:
    one = segment(tmp_path, _FILE, open_file(0, _FILE, [bytes(100)] * 20))
    places, _ = by_batches(one)
    assert len(places) == 20
    assert one_by_one(one)[0] == places


@pytest.mark.parametrize("over", [64, None])
def test_every_command_says_the_same(over: int | None, tmp_path: Path) -> None:
    root = copy_of("plain-5.3.3", tmp_path)
    log = LogCopy(root)
    whole = log.records[1][3:5]
    before = {one.physical_offset: one for one in opened(root).messages()}
    spoilt = set(hidden_records(log, own=False, over=over))
    store = opened(root)
    assert {one.physical_offset for one in store.messages()} == before.keys() - spoilt
    for place in whole:
        found = store.query(unique_key=before[place].properties["UNIQ_KEY"], scan=True)
        assert [one.physical_offset for one in found] == [place]
    report = store.verify()
    said = [one for one in report.findings if one.code.code == "CL-PHY-MISMATCH"]
    assert [one.physical_offset for one in said] == [min(spoilt)]
    assert "over 2 whole records" in said[0].message
    assert report.examined.records == len(before) - len(spoilt)
    assert sum(one.messages for one in store.topics().rows) == len(before) - len(spoilt)
    assert store.salvage(tmp_path / "out").records == len(before) - len(spoilt)
