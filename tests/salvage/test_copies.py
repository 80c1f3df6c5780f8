"""Two copies of one log that differ: the record stays which the evidence bears out, whichever copy leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.broker.log_damage import LogCopy
from tests.salvage.campaign import records_of
from tests.salvage.incidents import drop_queues
from tests.salvage.test_heads import copy_of, late_record, lost_of, opened, survivors_stand
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.commands.salvage import SalvageReport

NAME = "plain-5.3.3"


def other_time(log: LogCopy, place: int) -> None:
    log.put(place, "storeTimestamp", -1_800_000_000_000_000_000, 8)


def other_queue(log: LogCopy, place: int) -> None:
    log.put(place, "queueId", 0 if log.head(place).queue_id else 1)


def other_offset(log: LogCopy, place: int) -> None:
    log.put(place, "queueOffset", log.head(place).queue_offset - 3, 8)


def no_queue(log: LogCopy, place: int) -> None:
    log.put(place, "queueId", 0x40000)


def salvaged(damaged: Path, tmp_path: Path, *, queues: bool, leads: bool) -> SalvageReport:
    """Salvage a store with an undamaged copy of it."""
    whole = copy_of(NAME, tmp_path / "whole")
    if not queues:
        drop_queues(damaged)
        drop_queues(whole)
    first, second = (damaged, whole) if leads else (whole, damaged)
    return opened(first).salvage(tmp_path / "out", [opened(second)])


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("lie", [other_time, other_queue, other_offset])
def test_a_record_that_a_copy_has_otherwise(
    lie: object, tmp_path: Path, *, queues: bool, leads: bool
) -> None:
    damaged = copy_of(NAME, tmp_path)
    log = LogCopy(damaged)
    place = late_record(log)
    lie(log, place)  # type: ignore[operator]
    report = salvaged(damaged, tmp_path, queues=queues, leads=leads)
    assert lost_of(tmp_path / "out") == []
    survivors_stand(log, tmp_path / "out", set())
    aside = tmp_path / "out" / "lost+found" / f"{place:020d}-conflict-{int(not leads)}.bin"
    assert report.left_out in ({}, {"conflict": 1}, {"fields": 1})
    assert aside.exists() == ("conflict" in report.left_out)
    assert sum(report.conflicts.values()) == report.left_out.get("conflict", 0)
    assert "nothing" not in report.conflicts


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("foreign", ["plain-5.5.1", "batch-5.3.3"])
def test_a_first_file_of_another_store_displaces_nothing(
    foreign: str, tmp_path: Path, *, queues: bool, leads: bool
) -> None:
    damaged = copy_of(NAME, tmp_path)
    log = LogCopy(damaged)
    size, files = log.segment_size, sorted((fixture(foreign) / "commitlog").iterdir())
    data = b"".join(path.read_bytes() for path in files)[:size].ljust(size, b"\0")
    (damaged / "commitlog" / f"{0:020d}").write_bytes(data)
    report = salvaged(damaged, tmp_path, queues=queues, leads=leads)
    assert lost_of(tmp_path / "out") == []
    survivors_stand(log, tmp_path / "out", set())
    assert set(report.conflicts) <= {"units", "neighbours"}
    assert ("units" in report.conflicts) == (queues and foreign != "plain-5.5.1")


@pytest.mark.parametrize("queues", [True, False])
def test_each_copy_is_right_where_the_other_lies(tmp_path: Path, *, queues: bool) -> None:
    roots = [copy_of(NAME, tmp_path / name) for name in ("one", "two")]
    logs = [LogCopy(root) for root in roots]
    for number, place in enumerate(logs[0].records[1][3:9]):
        (other_time, no_queue)[number // 2 % 2](logs[number % 2], place)
    if not queues:
        for root in roots:
            drop_queues(root)
    opened(roots[0]).salvage(tmp_path / "out", [opened(roots[1])])
    assert lost_of(tmp_path / "out") == []
    survivors_stand(logs[0], tmp_path / "out", set())


def test_what_a_file_lacks_that_was_cut_short_is_in_the_other_copy(tmp_path: Path) -> None:
    roots = [copy_of(NAME, tmp_path / name) for name in ("one", "two")]
    log = LogCopy(roots[1])
    with (roots[0] / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.truncate(2500)
    opened(roots[0]).salvage(tmp_path / "out", [opened(roots[1])])
    assert lost_of(tmp_path / "out") == []
    survivors_stand(log, tmp_path / "out", set())


def test_where_nothing_tells_the_earlier_copy_leads(tmp_path: Path) -> None:
    roots = [copy_of(NAME, tmp_path / name) for name in ("one", "two")]
    log = LogCopy(roots[1])
    place = late_record(log)
    log.put(place, "flag", 7)
    for root in roots:
        drop_queues(root)
    report = opened(roots[0]).salvage(tmp_path / "out", [opened(roots[1])])
    assert report.conflicts == {"nothing": 1}
    assert records_of(tmp_path / "out" / "commitlog") == records_of(roots[0] / "commitlog")


def _no_text(log: LogCopy, at: int) -> None:
    log.flip(at, 1 << 7)


def _no_name(log: LogCopy, at: int) -> None:
    log.flip(at, 1)


def _no_pairs(log: LogCopy, at: int) -> None:
    end = at + log.read(at, 1 << 9).index(b"\2", 40)
    log.write(end, b"?")


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("damage", [_no_text, _no_name, _no_pairs])
def test_properties_that_no_client_writes_lose(damage: object, tmp_path: Path, *, leads: bool) -> None:
    damaged = copy_of(NAME, tmp_path)
    log = LogCopy(damaged)
    damage(log, log.properties_length_at(late_record(log)) + 2)  # type: ignore[operator]
    report = salvaged(damaged, tmp_path, queues=False, leads=leads)
    assert report.conflicts == {"text": 1}
    survivors_stand(log, tmp_path / "out", set())
