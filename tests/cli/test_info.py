"""``info`` on real stores, whole and in parts."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import PathKind, open_store
from tests.cli.conftest import STORES
from tests.damage.cases import one_of_each_code
from tests.damage.edits import edited

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.damage.cases import Case
    from tests.runs import Run


def lies_in_place(record: Record) -> bool:
    """Whether it is no copy of an older one, as a log written by whole pages has after its end."""
    return record.head.physical_offset == record.physical_offset


@pytest.mark.few(10)
def test_the_summary_agrees_with_the_whole_store(run: Callable[..., Run], any_store: Path) -> None:
    """What is found from ends and headers is what reading everything finds."""
    found = run("info", any_store, "--format", "json")
    assert (found.status, found.err) == (0, "")
    summary = found.document
    log = open_store(any_store).commitlog
    records = [event for event in walk(log.segments) if isinstance(event, Record) and lies_in_place(event)]
    assert summary["commitlog"]["start"] == log.start
    assert summary["commitlog"]["lastStoreTimestamp"] == records[-1].head.store_timestamp_ms
    assert summary["commitlog"]["firstStoreTimestamp"] == records[0].head.store_timestamp_ms
    last_end = records[-1].physical_offset + len(records[-1].raw)
    assert last_end <= summary["commitlog"]["end"] <= log.stop
    assert summary["commitlog"]["cleanEnd"] is True


@pytest.mark.few(8)
def test_queue_bounds_are_those_of_the_log(run: Callable[..., Run], any_store: Path) -> None:
    store = open_store(any_store, broker_conf=any_store / "broker.conf")
    newest: dict[tuple[str, int], int] = {}
    for event in walk(store.commitlog.segments):
        if isinstance(event, Record) and lies_in_place(event) and event.head.sys_flag & 0xC in {0, 8}:
            step = int(event.properties.get("INNER_NUM", "1"))
            newest[event.topic, event.head.queue_id] = event.head.queue_offset + step
    queues = run("info", any_store, "--format", "json").document["queues"]
    bounds = {(one["topic"], one["queueId"]): one["maxOffset"] for one in queues}
    assert {place: bounds[place] for place in newest} == newest
    assert all(0 <= one["minOffset"] <= one["maxOffset"] for one in queues)


def test_settings_show_their_origin(run: Callable[..., Run], plain: Path) -> None:
    settings = run("info", plain, "-p", "maxMessageSize=1000", "--format", "json").document["settings"]
    assert (settings["maxMessageSize"]["value"], settings["maxMessageSize"]["origin"]) == (1000, "given")
    assert settings["mappedFileSizeCommitLog"]["origin"] == "inferred"
    assert settings["messageIndexEnable"]["origin"] == "default"
    assert run("info", plain, "-p", "mappedFileSizeComitLog=1").status == 2


def test_text_is_plain(run: Callable[..., Run], plain: Path) -> None:
    out = run("info", plain).out
    assert "\x1b" not in out
    assert "TopicTest" in out
    assert "\x1b[1m" in run("info", plain, "--color", "always").out


def test_ndjson_and_csv(run: Callable[..., Run], plain: Path) -> None:
    kinds = {one["type"] for one in run("info", plain, "--format", "ndjson").objects}
    assert {"store", "setting", "commitlog", "queue", "index", "checkpoint"} <= kinds
    table = list(csv.DictReader(io.StringIO(run("info", plain, "--format", "csv").out)))
    assert {"topic", "queueId", "minOffset", "maxOffset"} <= set(table[0])
    assert len(table) == 10


@pytest.mark.parametrize("name", ["batchcq-5.5.1", "ext-5.5.1", "transaction-5.5.1"])
@pytest.mark.parametrize("kind", sorted(set(PathKind) - {PathKind.STORE, PathKind.CONFIG}))
def test_every_part_can_be_summed_up(run: Callable[..., Run], name: str, kind: PathKind) -> None:
    store, part = STORES / name, {"consumequeue-ext": "consumequeue_ext"}.get(kind.value, kind.value)
    if not (store / part).exists():
        assert run("info", store / part).status == 3
        return
    summary = run("info", store / part, "--format", "json").document
    assert summary["kind"] == kind.value
    assert run("info", store, "--type", kind.value, "--format", "json").document == summary


def test_gaps_and_strays_are_told(run: Callable[..., Run], plain_copy: Path) -> None:
    (plain_copy / "commitlog" / f"{8192:020d}").unlink()
    (plain_copy / "commitlog" / "notes.txt").write_text("x")
    found = run("info", plain_copy, "--format", "json")
    assert found.status == 5
    assert (found.document["commitlog"]["gaps"], found.document["commitlog"]["missingBytes"]) == (1, 8192)
    assert {"CL-GAP", "CL-STRAY"} <= set(found.document["counts"])


def test_abort_is_told(run: Callable[..., Run], plain_copy: Path) -> None:
    assert run("info", plain_copy, "--format", "json").document["abort"] is False
    (plain_copy / "abort").write_text("17")
    document = run("info", plain_copy, "--format", "json").document
    assert (document["abort"], document["abortProcess"]) == (True, 17)
    assert "abort is there, of process 17" in run("info", plain_copy).out


_HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


def test_queues_that_are_gone_are_damage(run: Callable[..., Run], plain_copy: Path) -> None:
    shutil.rmtree(plain_copy / "consumequeue")
    found = run("info", plain_copy)
    assert (found.status, run("verify", plain_copy).status) == (1, 1)
    assert "onsume queues are missing" in found.out.splitlines()[0]
    assert [one["code"] for one in run("info", plain_copy, "--format", "json").document["findings"]] == [
        "CQ-MISSING-MSG"
    ]


def test_records_that_are_not_confirmed_are_in_the_text(run: Callable[..., Run], plain_copy: Path) -> None:
    checkpoint = bytearray((plain_copy / "checkpoint").read_bytes())
    checkpoint[32:40] = (49152).to_bytes(8, "big")
    (plain_copy / "checkpoint").write_bytes(checkpoint)
    controlled = ("-p", "enableControllerMode=true")
    line = r"not confirmed +11 records: replicas may lack them"
    for command in ("verify", "info"):
        assert re.search(line, run(command, plain_copy, *controlled).out)


def test_epochs_are_told(run: Callable[..., Run], plain_copy: Path) -> None:
    """Of a file that is damaged, and has a .bak, those of the .bak."""
    assert run("info", plain_copy, "--format", "json").document["epochs"] is None
    file = plain_copy / "epochFileCheckpoint"
    file.write_text("3\n0\n1-0\n")
    assert "epochFileCheckpoint: none that a broker loads" in run("info", plain_copy).out
    file.with_name(f"{file.name}.bak").write_text("2\n0\n1-0\n4-404\n")
    told = run("info", plain_copy, "--format", "json").document["epochs"]
    assert told == {"file": f"{file.name}.bak", "number": 2, "newest": 4, "start": 404}
    assert (
        "epochFileCheckpoint.bak: 2, the newest 4 from physical offset 404 on" in run("info", plain_copy).out
    )


def test_a_broker_at_work_is_named_and_reading_goes_on(run: Callable[..., Run], plain_copy: Path) -> None:
    (plain_copy / "lock").touch()
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, plain_copy / "lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        found = run("info", plain_copy, "--format", "json")
        assert f"process {holder.pid}" in found.document["lockHolder"]
        assert "in use by" in run("dump", plain_copy / "checkpoint").err
        assert run("query", plain_copy, "--offset", 0).status == 0


def test_rocksdb_is_named(run: Callable[..., Run], plain_copy: Path) -> None:
    shutil.rmtree(plain_copy / "consumequeue")
    (plain_copy / "consumequeue").mkdir()
    (plain_copy / "consumequeue" / "CURRENT").write_text("MANIFEST-000004\n")
    (plain_copy / "consumequeue" / "MANIFEST-000004").write_bytes(b"x")
    found = run("info", plain_copy, "--format", "json")
    assert "ST-ROCKSDB" in found.document["counts"]
    part = {"name": "RocksDB instead of files", "path": "consumequeue", "code": "ST-ROCKSDB", "empty": False}
    part["note"] = ""
    assert part in found.document["otherParts"]
    assert "consumequeue: not examined" in run("info", plain_copy).out


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("consumequeue_r/CURRENT", "ST-ROCKSDB"),
        ("dledger-n0/data/0", "ST-DLEDGER"),
        ("kvStore/CURRENT", "ST-POP"),
        ("timerwheel", "ST-TIMER"),
        ("timerlog/0", "ST-TIMER"),
        ("compaction/compactionLog/T/0/0", "ST-COMPACTION"),
        ("config/tieredStoreMetadata.json", "ST-TIERED"),
    ],
)
def test_parts_that_are_not_examined_are_named(
    run: Callable[..., Run], plain_copy: Path, place: str, code: str
) -> None:
    path = plain_copy / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    if path.name == "CURRENT":
        path.with_name("MANIFEST-000001").touch()
    parts = run("info", plain_copy, "--format", "json").document["otherParts"]
    assert [part["code"] for part in parts] == [code]
    assert parts[0]["path"].startswith(place.split("/", maxsplit=1)[0])
    assert "part" in {one["type"] for one in run("info", plain_copy, "--format", "ndjson").objects}


@pytest.mark.few(8)
def test_what_the_index_covers_is_told(run: Callable[..., Run], any_store: Path) -> None:
    summary = run("info", any_store, "--format", "json").document
    files = [one for one in summary["index"] if one["items"]]
    coverage = summary["indexCoverage"]
    if not files:
        assert coverage is None
        return
    assert coverage["items"] == sum(one["items"] for one in files)
    assert coverage["items"] <= coverage["room"]
    assert coverage["beginPhyOffset"] >= summary["commitlog"]["start"] or "expired" in any_store.name
    assert coverage["endPhyOffset"] + coverage["behindBytes"] == summary["commitlog"]["end"]
    assert coverage["beginTimestamp"] <= coverage["endTimestamp"]


def test_an_index_beyond_the_logs_end_is_not_before_it(run: Callable[..., Run], plain_copy: Path) -> None:
    max((plain_copy / "commitlog").iterdir()).unlink()
    text = run("info", plain_copy, "--format", "text").out
    assert re.search(r"index covers +physical offset \d+ to \d+, [\d.]+ KiB beyond the log's end\n", text)


def _case_id(case: Case) -> str:
    return f"{case.code}-{case.name}"


@pytest.mark.few(7)
@pytest.mark.parametrize("case", one_of_each_code(), ids=_case_id)
def test_every_damaged_store_is_summed_up(run: Callable[..., Run], tmp_path: Path, case: Case) -> None:
    """No damage hides the rest; it counts as in verify, if names, sizes and ends show it."""
    store = STORES / case.store
    copy = edited(store, tmp_path / "copy", case.edits)
    words = ("info", copy, "-c", store / "broker.conf", *(f"-p{one}" for one in case.properties))
    found = run(*words, "--format", "json")
    assert found.status in {0, case.status}
    assert {"commitlog", "queues", "index", "findings"} <= set(found.document)
    for format_name in ("text", "ndjson", "csv"):
        assert run(*words, "--format", format_name).status == found.status


@pytest.mark.parametrize("command", ["info", "topics", "verify", "rebuild"])
def test_first_files_that_cannot_have_expired_are_damage_of_every_command(
    run: Callable[..., Run], command: str, tmp_path: Path
) -> None:
    """Their queue and index files are still there, which a broker deletes with them."""
    root = tmp_path / "store"
    shutil.copytree(STORES / "plain-5.3.3", root)
    (root / "commitlog" / f"{0:020d}").unlink()
    found = run(command, root, *(["--dry-run"] if command == "rebuild" else []))
    assert found.status == 5
    assert "fileReservedTime is 72 h by default" in found.out
    assert "25 messages of 8 queues lay before 8192" in found.out


def test_what_was_not_read_is_not_called_in_order(run: Callable[..., Run], tmp_path: Path) -> None:
    """A body in the middle of the log is damaged: names, sizes and ends of files do not show it."""
    root = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    with (root / "commitlog" / f"{16384:020d}").open("r+b") as file:
        file.seek(3000)
        file.write(b"X")
    assert run("verify", root).status == 5
    for part in (root, root / "commitlog"):
        assert "ames and sizes in order, contents not checked: " in run("info", part).out.splitlines()[0]
