"""Unreadable ranges count for the structure that they damage."""

from __future__ import annotations

from rmqtool.errors import ExitStatus
from rmqtool.findings import Structure, exit_status
from rmqtool.io import UnreadableRange, location_of
from rmqtool.store import Segment, StoreFile
from rmqtool.store.segments import unreadable_findings

BAD = [UnreadableRange(4096, 8192)]


def test_in_the_log_it_is_damage_of_the_log() -> None:
    segment = Segment(location_of("x"), f"commitlog/{1 << 20:020d}", 1 << 20, 1 << 20)
    (finding,) = unreadable_findings(segment, BAD, Structure.COMMITLOG)
    assert (finding.position, finding.length, finding.physical_offset) == (4096, 8192, (1 << 20) + 4096)
    assert exit_status([finding]) is ExitStatus.LOG_DAMAGED


def test_in_a_derived_file_it_is_repairable() -> None:
    for file in (
        StoreFile(location_of("x"), "index/x", 940),
        Segment(location_of("x"), "consumequeue/T/0/x", 200, 0),
    ):
        (finding,) = unreadable_findings(file, BAD, Structure.INDEX)
        assert finding.physical_offset is None
        assert exit_status([finding]) is ExitStatus.NEGATIVE
