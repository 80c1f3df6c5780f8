"""All commands name the same messages when they say what a log has lost."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.account.lost import LostReason
from rmqtool.commands.info import summarise
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings.commitlog import CL_LOST
from tests.damage.cases import Case, load_cases
from tests.damage.mutations import Mutator
from tests.damage.running import damaged_copy
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_FROM_LOG = {LostReason.GONE, LostReason.DAMAGED, LostReason.MISSING}
_LAST, _MIDDLE = f"{49152:020d}", f"{16384:020d}"

Place = tuple[str, int, int]


def told_by(told: list[rmqtool.LostMessage]) -> list[Place]:
    """Return the messages without a record in the log, by queue."""
    return sorted((one.topic, one.queue_id, one.queue_offset) for one in told if one.reason in _FROM_LOG)


def salvaged(store: rmqtool.Store) -> list[Place] | None:
    """Return what a salvage calls lost; None without a plan."""
    try:
        plan = store.plan_salvage(jobs=1)
    except EnvironmentFailureError:
        return None
    lost = [one for one in plan.lost if not one.in_light and not one.is_there]
    return sorted(
        (one.topic, one.queue_id, one.queue_offset + number) for one in lost for number in range(one.count)
    )


def check(root: Path) -> tuple[list[Place], rmqtool.RebuildReport]:
    """Hold prediction, rebuild and salvage against each other."""
    conf = root / "broker.conf"
    store = rmqtool.open(root, broker_conf=conf if conf.is_file() else None)
    by_start: list[rmqtool.LostMessage] = []
    prediction = store.predict_recovery(lost=by_start.append)
    by_rebuild: list[rmqtool.LostMessage] = []
    report = store.rebuild(dry_run=True, lost=by_rebuild.append, jobs=1)
    lost = told_by(by_start)
    assert len(lost) == len(set(lost))
    assert told_by(by_rebuild) == lost
    assert prediction.log_losses == report.log_losses
    assert report.log_losses.messages == len(lost)
    by_salvage = salvaged(store)
    assert by_salvage is None or by_salvage == lost
    silent = store.rebuild(dry_run=True, jobs=1)
    assert silent.log_losses == report.log_losses
    assert silent.verdict == report.verdict
    return lost, report


def _without_the_last(root: Path) -> None:
    (root / "commitlog" / _LAST).unlink()


def _cut_short(root: Path, name: str, size: int) -> None:
    file = root / "commitlog" / name
    file.write_bytes(file.read_bytes()[:size])


def _zero_a_page(root: Path) -> None:
    file = root / "commitlog" / _MIDDLE
    data = bytearray(file.read_bytes())
    data[4096:] = bytes(4096)
    file.write_bytes(data)


CUTS: list[tuple[str, Callable[[Path], None], int, int]] = [
    ("last file gone", _without_the_last, 19, 19),
    ("last file cut short", lambda root: _cut_short(root, _LAST, 3000), 10, 10),
    ("middle file cut short", lambda root: _cut_short(root, _MIDDLE, 4096), 13, 0),
    ("a page of zeros", _zero_a_page, 12, 0),
]


@pytest.mark.parametrize(("edit", "lost", "beyond"), [one[1:] for one in CUTS], ids=[one[0] for one in CUTS])
def test_a_log_that_lost_records_is_counted_by_its_units(
    edit: Callable[[Path], None], lost: int, beyond: int, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    edit(root)
    places, report = check(root)
    assert (len(places), report.log_losses.messages, report.log_losses.beyond) == (lost, lost, beyond)
    assert report.fewer_messages >= lost
    assert report.is_log_damaged
    found = rmqtool.open(root).verify(jobs=1)
    assert found.log_losses == report.log_losses
    assert found.findings.counts.get(CL_LOST.code, 0) == (1 if beyond else 0)
    assert int(found.exit_status()) == 5
    ends = [one.expected for one in summarise(rmqtool.open(root).files).findings if one.code is CL_LOST]
    assert ends == ([beyond] if beyond else [])


def test_a_kill_that_lost_unflushed_pages_says_so_and_is_no_damage(tmp_path: Path) -> None:
    """With ``abort`` the messages are lost all the same, and a start puts the queues right."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    _without_the_last(root)
    (root / "abort").touch()
    places, report = check(root)
    assert len(places) == 19
    assert "the log has lost 19 messages" in report.verdict
    assert (report.fewer_messages, report.is_log_damaged) == (0, False)


CASES = [
    case
    for case in load_cases()
    if case.code.startswith(("CL-", "CQ-"))
    and not case.properties
    and not case.no_rebuild
    and case.store.startswith(("plain", "crash", "segments"))
]
QUICK = {"CL-GAP", "CL-HOLE", "CL-LOST", "CL-QOFF-GAP"}


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, id=f"{case.code}: {case.name}", marks=() if case.code in QUICK else pytest.mark.mutation
        )
        for case in CASES
    ],
)
def test_damage_cases(case: Case, tmp_path: Path) -> None:
    check(damaged_copy(case, tmp_path))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed < 4 else pytest.mark.mutation) for seed in range(60)]
)
def test_random_damage(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    mutator = Mutator(root)
    targets = [one for one in mutator.targets if one.startswith(("commitlog", "whole record"))]
    mutation = mutator.mutate(chance.choice(targets), chance)
    for label, data in (mutation.contents if mutation else {}).items():
        if data is None:
            (root / label).unlink()
        else:
            (root / label).write_bytes(data)
    check(root)
