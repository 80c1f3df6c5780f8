"""Every message that a start loses is told once, and nothing else: held against a plain walk."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from rmqtool.account.lost import LostMessage, LostReason
from rmqtool.account.survey import survey
from rmqtool.recovery.predict import predict_recovery
from rmqtool.store import open_store
from rmqtool.topics import TopicKind
from tests.damage.cases import Case, load_cases
from tests.damage.lost_model import PlainLog, PlainUnit, units_of
from tests.damage.mutations import Mutator
from tests.damage.running import damaged_copy
from tests.store.fixture_stores import fixture
from tests.strategies import campaign

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.recovery import Prediction

_OF_UNITS = {LostReason.DAMAGED, LostReason.GONE}
_LATE = 52045
"""Where the record lies whose body is spoiled in ``night``."""

CASES = [
    case
    for case in load_cases()
    if case.code.startswith(("CL-", "CQ-"))
    and not case.properties
    and case.store.startswith(("plain", "crash"))
    and case.code != "CL-NUMBER"  # such a record is true for who examines, and damage for a broker
    and case.name not in {"a segment renamed", "two segments swapped"}  # the model goes by the files' names
]
QUICK = {"CL-GAP", "CL-BAD-MAGIC", "CL-HOLE", "CL-CRC", "CQ-MISSING-MSG", "CQ-BAD-UNIT", "CQ-ZERO-INSIDE"}
QUICK |= {"CL-HALF-RECORD", "CQ-STALE-TAIL"}


def predicted(root: Path) -> tuple[Prediction, list[LostMessage]]:
    told: list[LostMessage] = []
    conf = root / "broker.conf"
    store = open_store(root, broker_conf=conf if conf.is_file() else None)
    return predict_recovery(store, store.settings.release, told.append), told


def check(root: Path) -> tuple[Prediction, list[LostMessage]]:
    """Hold the list against the model, and the totals against the list."""
    prediction, told = predicted(root)
    log, units = PlainLog.of(root), units_of(root)
    places = Counter((one.topic, one.queue_id, one.queue_offset, one.physical_offset) for one in told)
    assert [place for place, count in places.items() if count > 1] == []
    cut = prediction.cut.physical_offset if prediction.cut else None
    by_reason: dict[LostReason, list[LostMessage]] = {reason: [] for reason in LostReason}
    for one in told:
        by_reason[one.reason].append(one)
    if cut is not None:
        wanted = {at for at in log.records if at >= cut}
        assert {one.physical_offset for one in by_reason[LostReason.CUT]} == wanted
        dangling = {
            one for one in units if one.physical_offset >= log.start and not log.holds(one.physical_offset)
        }
        of_units = {
            PlainUnit(one.topic, one.queue_id, one.queue_offset, one.physical_offset)
            for reason in _OF_UNITS
            for one in by_reason[reason]
            if one.physical_offset is not None and one.topic is not None and one.keys is None
            if one.queue_id is not None and one.queue_offset is not None
        }
        assert of_units <= dangling
        there = {(one.topic, one.head.queue_id, one.head.queue_offset) for one in log.records.values()}
        # A unit that leads nowhere proves no loss where the log has its message elsewhere.
        # One that leads farther after the log than it is long is rotted, and proves none either.
        far = max(one.physical_offset for one in log.records.values()) * 2
        assert {one[:3] for one in dangling - of_units if one.physical_offset <= far} <= there
        assert all(one[:3] not in there for one in of_units)
    readable = [one for one in by_reason[LostReason.DAMAGED] if one.keys is not None]  # and not as stored
    for one in (*by_reason[LostReason.CUT], *by_reason[LostReason.NO_UNIT], *readable):
        assert one.physical_offset is not None
        record = log.records[one.physical_offset]
        assert (one.topic, one.queue_id, one.queue_offset, one.size) == (
            record.topic,
            record.head.queue_id,
            record.head.queue_offset,
            len(record.raw),
        )
        assert one.uniq_key == record.properties.get("UNIQ_KEY")
        assert one.keys == record.properties.get("KEYS", "").split()
    check_totals(prediction, told)
    return prediction, told


def check_totals(prediction: Prediction, told: list[LostMessage]) -> None:
    totals = prediction.lost_messages
    assert totals is not None
    lost = [one for one in told if one.reason is not LostReason.BEFORE]
    sizes = {(one.topic, one.physical_offset or number): one.size or 0 for number, one in enumerate(lost)}
    assert (totals.messages, totals.bytes) == (len(lost), sum(sizes.values()))
    assert totals.reasons == Counter(one.reason.value for one in told)
    known = [one.topic for one in lost if one.topic is not None]  # the index alone names no topic
    assert {one.topic: one.messages for one in totals.topics} == Counter(known)
    cut = Counter(one.topic for one in told if one.reason is LostReason.CUT)
    assert {one.topic: one.messages for one in prediction.lost} == cut
    without_unit = sum(queue.missing + queue.dropped for queue in prediction.queues)
    assert totals.reasons.get("no-unit", 0) + totals.unnamed == without_unit


def night(folder: Path) -> Path:
    """A store with a byte of the body of a late record flipped, and an ``abort``."""
    root = folder / "night"
    shutil.copytree(fixture("plain-5.3.3"), root)
    file = root / "commitlog" / f"{49152:020d}"
    data = bytearray(file.read_bytes())
    data[_LATE - 49152 + 200] ^= 1
    file.write_bytes(data)
    (root / "abort").touch()
    return root


def test_a_late_body_that_is_spoiled(tmp_path: Path) -> None:
    """All from that record on is cut off, and can be told with its keys."""
    prediction, told = check(night(tmp_path))
    assert prediction.cut is not None
    assert prediction.cut.physical_offset == _LATE
    assert {one.reason for one in told} == {LostReason.CUT}
    assert (told[0].keys, told[0].store_timestamp) == (["order-140"], "2026-11-21T03:28:48.710Z")
    assert len(told) == 10


@pytest.mark.parametrize("store", ["plain-5.3.3", "plain-4.9.8", "segments-5.3.3", "transaction-4.9.8"])
@pytest.mark.parametrize("unclean", [False, True])
def test_nothing_is_lost_of_a_sound_store(store: str, unclean: bool, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture(store), root)
    if unclean:
        (root / "abort").touch()
    prediction, told = predicted(root)
    assert told == []
    assert prediction.lost_messages is not None
    assert prediction.lost_messages.missing_queue_offsets == 0


@pytest.mark.few(25)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, id=f"{case.code}: {case.name}", marks=() if case.code in QUICK else pytest.mark.mutation
        )
        for case in CASES
        if case.code != "CL-FOREIGN"  # to the model every whole record is one of the log: see test_foreign.py
    ],
)
@pytest.mark.parametrize("unclean", [False, True])
def test_damage_cases(case: Case, unclean: bool, tmp_path: Path) -> None:
    root = damaged_copy(case, tmp_path)
    if unclean:
        (root / "abort").touch()
    check(root)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "seed",
    [
        *range(8),
        *(pytest.param(seed, marks=pytest.mark.mutation) for seed in campaign(range(8, 80), 4)),
    ],
)
def test_random_damage(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    mutator = Mutator(root)
    targets = [
        one for one in mutator.targets if one.startswith(("commitlog", "record: t", "whole", "consumequeue"))
    ]
    mutation = mutator.mutate(chance.choice(targets), chance)
    for label, data in (mutation.contents if mutation else {}).items():
        if data is None:
            (root / label).unlink()
        else:
            (root / label).write_bytes(data)
    if seed % 2:
        (root / "abort").touch()
    check(root)


def test_a_batch_whose_properties_are_zeroed_is_listed_by_message(tmp_path: Path) -> None:
    """Its unit knows how many messages it has; they share the record, and its bytes."""
    root = tmp_path / "store"
    shutil.copytree(fixture("batchcq-5.3.3"), root)
    at, size = 3169, 1323
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        data = file.read()
        start = data.index(b"INNER_NUM", at)
        file.seek(start)
        file.write(bytes(at + size - start))
    prediction, told = predicted(root)
    lost = [(one.topic, one.queue_id, one.queue_offset, one.physical_offset, one.reason) for one in told]
    assert lost == [("Streams", 0, number, at, LostReason.DAMAGED) for number in range(2, 8)]
    totals, losses = prediction.lost_messages, prediction.log_losses
    assert totals is not None
    assert losses is not None
    assert losses.states is not None
    assert (totals.messages, totals.bytes, losses.states.readable) == (6, size, 6)


def test_a_file_that_is_gone_is_known_by_its_units(tmp_path: Path) -> None:
    """Its messages have a place and a size only; their queue offsets are missing in the log."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    (root / "commitlog" / f"{16384:020d}").unlink()
    prediction, told = check(root)
    assert prediction.lost_messages is not None
    gone = [one for one in told if one.reason is LostReason.GONE]
    assert len(gone) == prediction.lost_messages.missing_queue_offsets > 0
    assert {(one.keys, one.uniq_key, one.store_timestamp) for one in gone} == {(None, None, None)}
    assert all(one.tags_code is not None and 16384 <= (one.physical_offset or 0) < 24576 for one in gone)
    queues = {(one.topic, one.queue_id) for one in gone}
    assert prediction.lost_messages.queues_with_missing == len(queues)
    kinds = {one.topic: one.kind for one in gone}
    assert kinds.get("%RETRY%billing", TopicKind.RETRY) is TopicKind.RETRY


def test_gaps_of_queue_offsets_are_those_of_the_records_that_were_there(tmp_path: Path) -> None:
    """Whichever file of the middle goes, as many are missing as it had records with a unit."""
    whole = PlainLog.of(fixture("plain-5.3.3"))
    for start in range(8192, 49152, 8192):
        root = tmp_path / str(start)
        shutil.copytree(fixture("plain-5.3.3"), root)
        (root / "commitlog" / f"{start:020d}").unlink()
        gone = [one for at, one in whole.records.items() if start <= at < start + 8192]
        last = {(one.topic, one.head.queue_id): at for at, one in whole.records.items()}
        inner = [one for one in gone if last[one.topic, one.head.queue_id] >= start + 8192]
        assert survey(open_store(root).commitlog).gaps.offsets == len(inner)
