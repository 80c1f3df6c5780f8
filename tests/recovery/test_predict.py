"""What a prediction says; whether brokers agree is tested in `tests/broker/test_prediction.py`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqtool.account.lost import LostReason
from rmqtool.errors import UsageError
from rmqtool.projection import json_object
from rmqtool.recovery.predict import NotPredictedError, predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store
from tests.broker.start_cases import EDITS
from tests.broker.stores import fixture_store
from tests.damage.cases import load_cases
from tests.damage.running import damaged_copy
from tests.recovery.states import is_not_predicted

if TYPE_CHECKING:
    from rmqtool.account.lost import LostMessage
    from rmqtool.recovery import Prediction
    from rmqtool.releases import Release
    from tests.damage.cases import Case

EACH_RELEASE = pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give a copy of a store that was stopped cleanly."""
    return fixture_store("plain-5.3.3").copy_to(tmp_path / "store")


def _records(root: Path) -> list[Record]:
    log = open_store(root).commitlog
    found = [event for event in walk(log.segments) if isinstance(event, Record)]
    log.close()
    return found


def _flip(root: Path, physical_offset: int) -> None:
    """Flip a bit in the body of the record at an offset of the log."""
    segment = open_store(root).commitlog.segment_at(physical_offset)
    assert segment is not None
    path = Path(str(segment.path))
    data = bytearray(path.read_bytes())
    data[physical_offset - segment.start + 88] ^= 1
    path.write_bytes(data)


def _predict(root: Path, release: Release) -> Prediction:
    return predict_recovery(open_store(root), release)


@EACH_RELEASE
def test_whole_store_loses_nothing(root: Path, release: Release) -> None:
    """A clean store starts, keeps every record, and has nothing to catch up."""
    prediction = _predict(root, release)
    last = _records(root)[-1]
    assert prediction.starts
    assert prediction.cut is not None
    assert (prediction.cut.code, prediction.cut.physical_offset) == (
        None,
        last.physical_offset + len(last.raw),
    )
    assert (prediction.lost, prediction.deleted_files, prediction.hazards) == ((), (), ())
    assert prediction.missing_index_entries == 0


@EACH_RELEASE
def test_flipped_bit_costs_every_record_behind_it(root: Path, release: Release) -> None:
    """Recovery cuts the log at a wrong checksum; what it loses is counted by topic."""
    every = _records(root)
    (root / "abort").touch()
    (root / "checkpoint").unlink()
    victim = next(record for record in every[3:] if record.body_length)
    _flip(root, victim.physical_offset)
    prediction = _predict(root, release)
    after = [record for record in every if record.physical_offset >= victim.physical_offset]
    assert prediction.cut is not None
    assert prediction.cut.code == "CL-CRC"
    assert prediction.cut.physical_offset == victim.physical_offset
    assert sum(loss.messages for loss in prediction.lost) == len(after)
    assert sum(loss.bytes for loss in prediction.lost) == sum(len(record.raw) for record in after)
    assert {loss.topic for loss in prediction.lost} == {record.topic for record in after}
    assert sum(label.startswith("commitlog/") for label in prediction.deleted_files) > 0


@EACH_RELEASE
def test_stray_file_stops_the_broker(root: Path, release: Release) -> None:
    """A file that an operator left in the log's directory is named as the reason why nothing starts."""
    (root / "commitlog" / "notes.txt").write_text("moved on Tuesday")
    prediction = _predict(root, release)
    assert not prediction.loads
    assert [refusal.file for refusal in prediction.refusals] == ["commitlog/notes.txt"]
    assert "16 bytes" in prediction.refusals[0].reason
    assert prediction.recovery is None


@EACH_RELEASE
def test_a_broker_infers_nothing(root: Path, tmp_path: Path, release: Release) -> None:
    """All that its own file does not name is the default of that release, whatever the files suggest."""
    conf = tmp_path / "broker.conf"
    conf.write_text("mapedFileSizeConsumeQueue=200\n")
    store = open_store(root, broker_conf=conf)
    assert store.settings.consumequeue_file_size == 200  # what is read with
    prediction = predict_recovery(store, release)
    assert {refusal.file.partition("/")[0] for refusal in prediction.refusals} == {
        "commitlog",
        "consumequeue",
    }
    reason = next(one.reason for one in prediction.refusals if one.file.startswith("consumequeue"))
    default = f"the default of {release.name}: {conf} does not name it"
    assert reason == f"has 200 bytes instead of 6000000 (mappedFileSizeConsumeQueue, {default})"
    unread = f"{conf}: no broker reads mapedFileSizeConsumeQueue; did you mean mappedFileSizeConsumeQueue?"
    assert prediction.hazards[0] == unread
    assert _predict(root, release).loads


def test_what_the_files_show_and_the_broker_has_not_is_a_hazard(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=8192\nmappedFileSizeConsumeQueue=200\n")
    store = open_store(fixture_store("ext-5.5.1").root, broker_conf=conf)
    prediction = predict_recovery(store, RELEASES["5.5.1"])
    assert prediction.starts
    told = [text.partition(";")[0] for text in prediction.hazards]
    assert told == [
        "The files show maxHashSlotNum=25",
        "The files show maxIndexNum=40",
        "The files show enableConsumeQueueExt=true",
    ]


def test_lag_costs_a_unit_in_5_3_and_none_in_4_9(root: Path) -> None:
    """5.3 passes over the first record that was not dispatched; 4.9 dispatches it."""
    last = _records(root)[-1]
    queue = root / "consumequeue" / last.topic / str(last.head.queue_id)
    file = max(queue.iterdir())
    data = file.read_bytes()
    used = len(data.rstrip(b"\0")) // 20 if any(data) else 0
    unit = last.physical_offset.to_bytes(8)
    at = data.rindex(unit)
    assert at // 20 in {used, used - 1}
    file.write_bytes(data[:at] + bytes(len(data) - at))
    old, new = _predict(root, RELEASES["4.9.8"]), _predict(root, RELEASES["5.3.3"])
    assert sum(one.missing for one in old.queues) == 0
    assert sum(one.appended for one in old.queues) == 1
    assert sum(one.missing for one in new.queues) == 1
    assert any("none will come" in text for text in new.hazards)


@pytest.mark.parametrize("version", ["4.9.8", "5.5.1"])
def test_a_zero_unit_that_truncation_keeps_costs_one_message(tmp_path: Path, version: str) -> None:
    """The record that the unit led to is missing once in the sum, and once in the list."""
    store = fixture_store(f"expiredhead-{version}")
    root = store.copy_to(tmp_path / "store")
    next(one for one in EDITS if one.name == "zero unit").apply(root, store.conf)
    lost: list[LostMessage] = []
    prediction = predict_recovery(open_store(root, broker_conf=store.conf), RELEASES[version], lost.append)
    without = [one for one in prediction.queues if one.missing + one.dropped]
    assert [(one.topic, one.queue_id, one.missing + one.dropped) for one in without] == [
        (one.topic, one.queue_id, 1) for one in lost if one.reason is LostReason.NO_UNIT
    ]
    assert len(without) == 1


@EACH_RELEASE
def test_log_without_files_costs_all_queues(root: Path, release: Release) -> None:
    """Where the log has no file, a broker deletes every consume queue file."""
    queue_files = {
        path.relative_to(root).as_posix() for path in (root / "consumequeue").rglob("*") if path.is_file()
    }
    shutil.rmtree(root / "commitlog")
    prediction = predict_recovery(open_store(root), release)
    assert set(prediction.deleted_files) == queue_files
    assert all(one.max_offset == 0 for one in prediction.queues)


@EACH_RELEASE
def test_document_is_json_of_plain_numbers(root: Path, release: Release) -> None:
    """The report can be written as JSON, and says which release it speaks of."""
    (root / "abort").touch()
    document = json.loads(json.dumps(json_object(_predict(root, release))))
    assert document["schema"] == "rmqtool.prediction/1"
    assert document["brokerVersion"] == release.name
    assert document["recovery"]["kind"] == "abnormal"
    assert document["dispatchedByRecovery"]["messages"] > 0


def test_part_of_a_store_is_refused(root: Path) -> None:
    """A start cannot be predicted from a directory of the store alone."""
    with pytest.raises(UsageError, match="store root"):
        predict_recovery(open_store(root / "commitlog"), RELEASES["5.3.3"])


def _rocksdb(path: Path) -> None:
    path.mkdir()
    (path / "CURRENT").write_text("MANIFEST-000005\n")
    (path / "MANIFEST-000005").write_bytes(bytes(50))


def test_pop_records_in_rocksdb_change_no_start(root: Path) -> None:
    """A broker on file queues may keep pop records in kvStore; its start is the same as without."""
    without = json_object(_predict(root, RELEASES["5.3.3"]))
    _rocksdb(root / "kvStore")
    assert json_object(_predict(root, RELEASES["5.3.3"])) == without


def test_start_on_rocksdb_queues_is_refused(root: Path) -> None:
    """Queues in RocksDB recover in other ways, so nothing is said of that start."""
    shutil.rmtree(root / "consumequeue")
    _rocksdb(root / "consumequeue")
    with pytest.raises(UsageError, match="consumequeue: RocksDB"):
        _predict(root, RELEASES["5.3.3"])


@pytest.mark.parametrize(
    "case",
    [one for one in load_cases() if is_not_predicted(one)],
    ids=lambda one: f"{one.code}: {one.name}",
)
def test_a_store_that_recovers_by_other_rules_is_refused(case: Case, tmp_path: Path) -> None:
    root, conf = damaged_copy(case, tmp_path), tmp_path / "broker.conf"
    settings = fixture_store(case.store).conf.read_text("utf-8")
    conf.write_text("\n".join([settings, *case.properties, ""]), "utf-8")
    with pytest.raises(NotPredictedError, match=r"a start .* is not predicted"):
        predict_recovery(open_store(root, broker_conf=conf), RELEASES["5.5.1"])


@EACH_RELEASE
def test_nothing_is_written(root: Path, release: Release) -> None:
    """The evidence has the same files with the same times afterwards."""
    (root / "abort").touch()
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in root.rglob("*")}
    _predict(root, release)
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in root.rglob("*")}


@pytest.mark.parametrize("name", ["topics.json", "delayOffset.json.bak"])
def test_a_fifo_among_the_settings_is_told_and_not_opened(root: Path, name: str) -> None:
    """A broker waits there for ever; whoever predicts it must not."""
    path = root / "config" / name
    for one in (path, path.with_name(name.removesuffix(".bak"))):
        one.unlink(missing_ok=True)
    os.mkfifo(path)
    (refusal,) = _predict(root, RELEASES["5.3.3"]).refusals
    assert (refusal.file, refusal.reason) == (f"config/{name}", "is a FIFO: opening it blocks for ever")


def test_a_link_to_an_endless_device_among_the_settings_is_an_empty_file(root: Path) -> None:
    """As for a broker, which reads as many bytes as the file is said to have."""
    path = root / "config" / "topics.json"
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")
    assert _predict(root, RELEASES["5.3.3"]).starts


@pytest.mark.parametrize(
    ("length", "properties", "refuses"),
    [
        (38_707_200, [], False),
        (0, [], False),
        (38_707_232, [], True),
        (64, [], True),
        (64, ["timerWheelEnable=false"], False),
    ],
)
def test_a_timer_wheel_of_another_length_refuses_a_start(
    tmp_path: Path, length: int, properties: list[str], refuses: bool
) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture_store("plain-5.3.3").root, root)
    with (root / "timerwheel").open("wb") as file:
        file.truncate(length)
    store = open_store(root, properties=properties)
    found = predict_recovery(store, RELEASES["5.3.3"])
    assert [one.file for one in found.refusals] == (["timerwheel"] if refuses else [])
    assert not predict_recovery(store, RELEASES["4.9.8"]).refusals
