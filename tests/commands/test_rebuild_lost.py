"""Every message that a rebuild has not is told once: held against the units that were there and are made."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.account.lost import LostReason
from tests.damage.cases import Case, load_cases
from tests.damage.lost_model import PlainLog, units_of
from tests.damage.mutations import Mutator
from tests.damage.running import damaged_copy
from tests.store.fixture_stores import fixture
from tests.strategies import campaign

if TYPE_CHECKING:
    from pathlib import Path

CASES = [
    case
    for case in load_cases()
    if case.code.startswith("CL-")
    and not case.properties
    and not case.no_rebuild
    and case.store.startswith(("plain", "crash", "segments"))
]
QUICK = {"CL-GAP", "CL-BAD-MAGIC", "CL-HOLE", "CL-CRC", "CL-TRANSIENT", "CL-PHY-MISMATCH"}
_OF_RECORDS = {LostReason.SKIPPED, LostReason.UNREACHABLE}


def check(root: Path, out: Path) -> tuple[rmqtool.RebuildReport, list[rmqtool.LostMessage]]:
    """Hold the list against both sets of units, and the totals against the list."""
    told: list[rmqtool.LostMessage] = []
    conf = root / "broker.conf"
    store = rmqtool.open(root, broker_conf=conf if conf.is_file() else None)
    report = store.rebuild(out, lost=told.append, jobs=1)
    there = {(one.topic, one.queue_id, one.physical_offset) for one in units_of(root)}
    made = {(one.topic, one.queue_id, one.physical_offset) for one in units_of(out)}
    messages = Counter((one.topic, one.queue_id, one.queue_offset) for one in told)
    assert [message for message, count in messages.items() if count > 1] == []
    placed = (one for one in told if one.physical_offset is not None)
    listed = Counter((one.topic, one.queue_id, one.physical_offset) for one in placed)
    assert [place for place, count in listed.items() if count > 1] == []
    reasons = Counter(one.reason for one in told)
    assert (reasons[LostReason.SKIPPED], reasons[LostReason.UNREACHABLE]) == (
        report.account.skipped,
        report.account.unreachable,
    )
    log = PlainLog.of(root)
    # The next start takes away the units that lead beyond the log: where nothing else proves their messages,
    # none is missed.
    seen = {one for one in there if one[2] < log.end} if report.log_losses.undecided else there
    assert report.fewer_messages == sum(place in seen - made for place in listed)
    for one in told:
        if one.reason not in {*_OF_RECORDS, LostReason.MISSING}:
            # A record that lies elsewhere than it says gets a unit, too, which leads to none.
            without = set() if one.reason in {LostReason.GONE, LostReason.DAMAGED} else made
            assert (one.topic, one.queue_id, one.physical_offset) in there - without
    for at, record in log.records.items():
        place = record.topic, record.head.queue_id, at
        if place in there - made:
            assert place in listed
    totals = report.lost_messages
    assert totals is not None
    assert (totals.messages, totals.bytes) == (len(told), sum(one.size or 0 for one in told))
    assert totals.reasons == {reason.value: count for reason, count in reasons.items()}
    return report, told


@pytest.mark.few(4)
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
    check(damaged_copy(case, tmp_path), tmp_path / "out")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "seed",
    [
        *range(6),
        *(pytest.param(seed, marks=pytest.mark.mutation) for seed in campaign(range(6, 60), 4)),
    ],
)
def test_random_damage(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    mutator = Mutator(root)
    targets = [one for one in mutator.targets if one.startswith(("commitlog", "record: t", "whole record"))]
    mutation = mutator.mutate(chance.choice(targets), chance)
    for label, data in (mutation.contents if mutation else {}).items():
        if data is None:
            (root / label).unlink()
        else:
            (root / label).write_bytes(data)
    check(root, tmp_path / "out")


def test_after_a_missing_file_nothing_is_reached(tmp_path: Path) -> None:
    """Records that are whole are told with their keys, those of the file by their units."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    (root / "commitlog" / f"{16384:020d}").unlink()
    report, told = check(root, tmp_path / "out")
    reasons = {one.reason for one in told}
    assert reasons == {LostReason.UNREACHABLE, LostReason.GONE}
    assert all((one.keys is None) == (one.reason is LostReason.GONE) for one in told)
    assert report.lost_messages is not None
    assert report.lost_messages.missing_queue_offsets == sum(one.reason is LostReason.GONE for one in told)


def test_a_part_loses_nothing_that_could_be_told(tmp_path: Path) -> None:
    store = rmqtool.open(fixture("plain-5.3.3"))
    for words in ({"topic": "Orders"}, {"until_offset": 5}, {"parts": "index"}):
        with pytest.raises(rmqtool.UsageError, match="whole rebuild"):
            store.rebuild(tmp_path / "out", lost=print, **words)
