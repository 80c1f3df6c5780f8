"""``verify`` of what ``salvage`` made is satisfied, whichever field of a record was damaged."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.findings import Severity
from rmqtool.store.broker_json import parse_broker_json
from tests.damage.edits import edited
from tests.damage.places import Places
from tests.salvage.campaign import lost_lines
from tests.salvage.fixed_point import errors_after
from tests.store.fixture_stores import fixture
from tests.strategies import campaign

if TYPE_CHECKING:
    from pathlib import Path


def salvaged(name: str, edits: list[dict[str, Any]], folder: Path) -> tuple[Path, list[str]]:
    """Damage a fixture, salvage it, and return the result and the errors that it still has."""
    store = fixture(name)
    root = edited(store, folder / "damaged", edits)
    for paper in ("recipe.toml", "SHA256SUMS"):
        (root / paper).unlink(missing_ok=True)
    shutil.rmtree(root / "reference", ignore_errors=True)
    conf = store / "broker.conf"
    rmqtool.open(root, broker_conf=conf).salvage(folder / "out")
    report = rmqtool.open(folder / "out", broker_conf=conf).verify()
    errors = [one.code.code for one in report.findings if one.severity is Severity.ERROR]
    return folder / "out", errors


def number_of(name: str, topic: str, queue_offset: int, **others: int) -> int:
    """Return the number of a record in the log of a fixture."""
    return next(
        number
        for number, one in enumerate(Places(fixture(name)).records)
        if (one.topic, one.head.queue_offset) == (topic, queue_offset)
        and all(getattr(one.head, field) == value for field, value in others.items())
    )


OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"


@pytest.mark.parametrize("name", ["transaction-4.9.8", "transaction-5.3.3", "transaction-5.5.1"])
def test_a_lost_op_message(name: str, tmp_path: Path) -> None:
    """Its placeholder names no half message, and is none that names a wrong one."""
    out, errors = salvaged(name, [{"record": number_of(name, OP, 2), "zero": 0}], tmp_path)
    assert errors == []
    assert [(one["topic"], one["queueOffset"]) for one in lost_lines(out)] == [(OP, 2)]


def test_a_record_whose_properties_contradict_its_size(tmp_path: Path) -> None:
    """What is left of its room beside the placeholder has a topic, if a short one."""
    name = "plain-5.3.3"
    number = number_of(name, "TopicTest", 15, queue_id=0)
    edit = {"record": number, "field": "propertiesLength", "add": -7}
    _, errors = salvaged(name, [edit], tmp_path)
    assert errors == []


@pytest.mark.parametrize("queues", [True, False])
def test_a_hole_in_an_inner_batch(queues: bool, tmp_path: Path) -> None:
    """As many messages are lost as the unit says, or are missing up to the next record."""
    name = "batchcq-5.3.3"
    number, record = next(
        (number, one)
        for number, one in enumerate(Places(fixture(name)).records)
        if one.properties.get("INNER_NUM") == "6" and one.head.queue_offset > 0
    )
    at = record.raw.index(b"INNER_NUM")
    edits: list[dict[str, Any]] = [{"record": number, "plus": at, "zero": len(record.raw) - at}]
    if not queues:
        edits += [{"file": "batchconsumequeue", "delete": True}, {"file": "index", "delete": True}]
    out, errors = salvaged(name, edits, tmp_path)
    assert errors == []
    (lost,) = lost_lines(out)
    assert (lost["queueOffset"], lost["count"], lost["placed"]) == (record.head.queue_offset, 6, True)


def test_a_record_of_the_wrong_address_family(tmp_path: Path) -> None:
    """One bit of SYSFLAG moves all fields after it: its body has a negative length, and it is put aside."""
    name, checked = "plain-5.3.3", 0
    for number in range(0, 160, 40):
        out = tmp_path / str(number)
        edit = {"record": number, "field": "sysFlag", "plus": 3, "flip": 0x10}
        assert salvaged(name, [edit], out)[1] == []
        checked += 1
    assert checked == 4


def test_records_without_checksum_stay_as_they_are(tmp_path: Path) -> None:
    """All of a run: a setting reads them, and nothing of them is damaged."""
    name = "batch-5.3.3"
    records = Places(fixture(name)).records
    edits = [{"record": number, "field": "bodyCrc", "zero": 0} for number in range(40, len(records))]
    root = edited(fixture(name), tmp_path / "damaged", edits)
    store = rmqtool.open(root)
    (finding,) = (one for one in store.verify().findings if one.severity is Severity.ERROR)
    assert (finding.code.code, finding.observed, finding.count) == ("CL-NO-CRC", len(records) - 40, 1)
    report = store.salvage(tmp_path / "out")
    assert (report.records, report.lost.damaged, dict(report.left_out)) == (len(records), 0, {})
    assert any("checkCRCOnRecover=false" in note for note in report.notes)
    for path in (root / "commitlog").iterdir():
        assert (tmp_path / "out" / "commitlog" / path.name).read_bytes() == path.read_bytes()
    unchecked = rmqtool.open(tmp_path / "out", properties=["checkCRCOnRecover=false"]).verify()
    assert int(unchecked.exit_status()) == 0


def test_another_copy_with_checksums_replaces_records_without(tmp_path: Path) -> None:
    source = fixture("plain-5.3.3")
    root = edited(source, tmp_path / "damaged", [{"record": 30, "field": "bodyCrc", "zero": 0}])
    report = rmqtool.open(root).salvage(tmp_path / "out", [rmqtool.open(source)])
    assert (report.healed, report.notes) == (1, ())
    for path in (source / "commitlog").iterdir():
        assert (tmp_path / "out" / "commitlog" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("queue_is_there", [True, False])
@pytest.mark.parametrize(("group", "offset"), [("TopicTest@readers", 25), ("Orders@billing", 30)])
def test_a_group_beyond_the_end_of_its_queue(
    group: str, offset: int, queue_is_there: bool, tmp_path: Path
) -> None:
    """A whole queue outweighs it; of one that is gone, it proves what it can, and the result is sound."""
    source = fixture("plain-5.5.1")
    root = edited(source, tmp_path / "damaged", [])
    max((root / "commitlog").iterdir()).unlink()
    topic = group.partition("@")[0]
    if not queue_is_there:
        shutil.rmtree(root / "consumequeue" / topic / "0")
    path = root / "config" / "consumerOffset.json"
    offsets = parse_broker_json(path.read_text("utf-8"))
    assert isinstance(offsets, dict)
    offsets["offsetTable"][group]["0"] = offset
    path.write_text(json.dumps(offsets))
    rmqtool.open(root).salvage(tmp_path / "out")
    lost = [one for one in lost_lines(tmp_path / "out") if (one["topic"], one["queueId"]) == (topic, 0)]
    assert ("consumed" in {one["cause"] for one in lost}) is not queue_is_there
    report = rmqtool.open(tmp_path / "out", broker_conf=source / "broker.conf").verify()
    assert [one.code.code for one in report.findings if one.severity is Severity.ERROR] == []


@pytest.mark.parametrize("seed", [0, 13, 53, 71, 81, 87, 104, 211, 270, 276, 479, 669, 709])
def test_a_field_of_a_record(seed: int, tmp_path: Path) -> None:
    done, errors = errors_after(seed, tmp_path / "one")
    assert errors == [], done


_SEEDS = 100


@pytest.mark.mutation
@pytest.mark.parametrize("first", campaign(range(1000, 1500, _SEEDS), 5))
def test_fields_of_records(first: int, tmp_path: Path) -> None:
    failed = {}
    for seed in range(first, first + _SEEDS):
        done, errors = errors_after(seed, tmp_path / str(seed))
        if errors:
            failed[done] = errors
    assert not failed


@pytest.mark.mutation
@pytest.mark.parametrize("name", ["lmqtwice-5.5.1", "delay-5.4.0"])
def test_fields_of_records_of_one_store(name: str, tmp_path: Path) -> None:
    failed = {}
    for seed in range(40):
        done, errors = errors_after(seed, tmp_path / str(seed), name)
        if errors:
            failed[done] = errors
    assert not failed
