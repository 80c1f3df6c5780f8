"""Files of a log under names that are not their own, as after a restore that went wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rmqtool.formats import message
from rmqtool.salvage.sidecars import plan_text, read_plan
from tests.broker.log_damage import LogCopy
from tests.salvage.incidents import drop_queues
from tests.salvage.test_heads import NAME, copy_of, lost_of, opened
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    return copy_of(NAME, tmp_path)


def files_of(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def exchange(one: Path, two: Path) -> None:
    first = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(first)


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize(("one", "two"), [(1, 2), (0, -1)])
def test_files_with_exchanged_names_are_read_as_what_they_are(
    damaged: Path, tmp_path: Path, one: int, two: int, *, queues: bool
) -> None:
    files = files_of(damaged)
    exchange(files[one], files[two])
    if not queues:
        drop_queues(damaged)
    out = tmp_path / "out"
    report = opened(damaged).salvage(out)
    assert [path.read_bytes() for path in files_of(out)] == [
        path.read_bytes() for path in files_of(fixture(NAME))
    ]
    assert (report.misnamed, report.is_whole, len(report.notes), lost_of(out)) == (2, False, 2, [])
    assert f"{files[one].name}: its records name the file that begins at {int(files[two].name)}," in " ".join(
        report.notes
    )
    opened(damaged).salvage(tmp_path / "again", plan=read_plan(plan_text(opened(damaged).plan_salvage())))
    assert [path.read_bytes() for path in files_of(tmp_path / "again")] == [
        path.read_bytes() for path in files_of(out)
    ]


def test_a_file_moved_over_another_is_read_as_itself(damaged: Path, tmp_path: Path) -> None:
    files, places = files_of(damaged), LogCopy(damaged).records
    files[3].rename(files[2])
    report = opened(damaged).salvage(tmp_path / "out")
    assert (report.misnamed, report.lost.proven) == (1, len(places[2]))
    assert report.records == sum(map(len, places)) - len(places[2])


def test_a_copy_over_another_file_is_none_of_that_name(damaged: Path, tmp_path: Path) -> None:
    files, places = files_of(damaged), LogCopy(damaged).records
    files[2].write_bytes(files[3].read_bytes())
    report = opened(damaged).salvage(tmp_path / "out")
    assert (report.misnamed, report.lost.proven) == (1, len(places[2]))


def test_both_of_two_files_of_one_place_are_read_if_one_is_given_as_a_copy(
    damaged: Path, tmp_path: Path
) -> None:
    files, places = files_of(damaged), LogCopy(damaged).records
    exchange(files[1], files[2])
    files[3].write_bytes(files[2].read_bytes())
    with files[2].open("r+b") as file:
        file.write(bytes(places[1][1] - places[1][0]))
    plan = opened(damaged).plan_salvage()
    note = next(one for one in plan.notes if one.startswith(f"commitlog/{files[3].name}: "))
    (place,) = re.findall(r"a directory COPY with this file as (\S+),", note)
    second = tmp_path / "COPY" / place
    second.parent.mkdir(parents=True)
    second.write_bytes(files[3].read_bytes())
    report = opened(damaged).salvage(tmp_path / "out", [opened(tmp_path / "COPY")])
    assert (report.healed, report.lost.proven) == (1, len(places[3]))
    assert report.records == sum(map(len, places)) - len(places[3])


def test_a_stale_block_at_its_head_renames_no_file(damaged: Path, tmp_path: Path) -> None:
    """The file that the block is of is gone; the other one has records of its own behind it."""
    files, places = files_of(damaged), LogCopy(damaged).records
    with files[2].open("r+b") as file:
        file.write(files[3].read_bytes()[:512])
    files[3].unlink()
    report = opened(damaged).salvage(tmp_path / "out")
    spoilt = sum(place - int(files[2].name) < 512 for place in places[2])
    assert report.misnamed == 0
    assert report.records == sum(map(len, places)) - len(places[3]) - spoilt


@pytest.mark.parametrize("queues", [True, False])
def test_a_rotted_bit_of_the_only_record_renames_no_file(tmp_path: Path, *, queues: bool) -> None:
    """A file of one record was read as one far beyond the log, which then took as many files."""
    root = copy_of("segments-5.3.3", tmp_path)
    log = LogCopy(root)
    (place,) = next(places for places in log.records if len(places) == 1)
    log.write(place + message.HEAD_OFFSETS[0]["physicalOffset"], (place ^ 1 << 23).to_bytes(8, "big"))
    if not queues:
        drop_queues(root)
    plan = opened(root).plan_salvage()
    assert not plan.misnamed
    assert plan.end <= log.segment_size * len(log.segments)
