"""What is salvaged of small stores of real brokers: bytes, account, refusals; a model of random damage."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.account import AccountError
from rmqtool.check.digests import parse_line
from rmqtool.cli import main
from rmqtool.errors import ExitStatus, RefusedError, UsageError
from rmqtool.formats import message
from rmqtool.formats.consumequeue import BATCH_UNITS, BatchUnitFields
from rmqtool.salvage import Lost, PartKind
from rmqtool.salvage.layout import in_batches
from rmqtool.salvage.sidecars import plan_text, read_plan
from tests.broker.log_damage import LogCopy
from tests.broker.stores import fixture_store
from tests.salvage.campaign import Outcome, made_places, records_of, run, summary
from tests.salvage.incidents import INCIDENTS, bit_rot, drop_queues, lost_segment
from tests.scan.log_builder import record
from tests.store.fixture_stores import fixture
from tests.strategies import campaign

if TYPE_CHECKING:
    from pathlib import Path

NAME = "plain-5.5.1"
CAMPAIGN = [
    *("plain-5.5.1", "lmq-5.5.1", "batchcq-5.5.1", "unicode-4.9.8", "ext-5.3.3", "v2-5.5.1", "crash-5.3.3"),
    *("tags-5.5.1", "expiredhead-5.3.3", "ipv6-5.5.1", "transaction-4.9.8", "batch-5.3.3", "segments-5.5.1"),
    *("handovers-5.5.1", "delay-4.9.8"),
]


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    root = tmp_path / "damaged"
    papers = shutil.ignore_patterns("broker.conf", "recipe.toml", "SHA256SUMS", "reference")
    return shutil.copytree(fixture(NAME), root, ignore=papers)


def opened(root: Path) -> rmqtool.Store:
    return rmqtool.open(root, broker_conf=fixture(NAME) / "broker.conf")


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_an_undamaged_log_comes_back_byte_for_byte(damaged: Path, tmp_path: Path) -> None:
    report = opened(damaged).salvage(tmp_path / "out")
    assert report.is_whole
    assert report.exit_status() is ExitStatus.CLEAN
    assert tree(tmp_path / "out" / "commitlog") == tree(damaged / "commitlog")
    assert tree(tmp_path / "out" / "consumequeue") == tree(damaged / "consumequeue")
    assert (tmp_path / "out" / "config" / "topics.json").read_bytes() == (
        damaged / "config" / "topics.json"
    ).read_bytes()


def test_the_source_is_never_touched(damaged: Path, tmp_path: Path) -> None:
    bit_rot(damaged)
    for path in damaged.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: (path.stat(), path.is_file() and path.read_bytes()) for path in damaged.rglob("*")}
    opened(damaged).salvage(tmp_path / "out")
    opened(damaged).plan_salvage()
    for path, (status, data) in before.items():
        now = path.stat()
        assert (now.st_mtime_ns, now.st_ctime_ns, now.st_size) == (
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_size,
        )
        assert data is False or path.read_bytes() == data
    for path in (damaged, *damaged.rglob("*")):
        path.chmod(0o755)


def test_a_damaged_body_is_put_aside_and_a_tombstone_stands_in_its_place(
    damaged: Path, tmp_path: Path
) -> None:
    log = LogCopy(damaged)
    place = next(place for place in log.records[2] if log.head(place).body_length > 40)
    log.flip(log.body_at(place), 1)
    head = log.head(place)
    report = opened(damaged).salvage(tmp_path / "out")
    assert (report.lost.proven, report.lost.damaged, report.lost.placed) == (0, 1, 1)
    assert dict(report.lost.by_cause) == {"body": 1}
    assert "0 messages lost, 1 present but damaged" in report.verdict
    assert "Consumers receive 1 message with the body `lost` in the place of lost ones" in report.hint
    (queue,) = (one for one in report.queues if one.not_given_back)
    assert queue.not_recovered == ((head.queue_offset, head.queue_offset),)
    made_rows = opened(tmp_path / "out").messages()
    assert [one.physical_offset for one in made_rows if one.explanation == {"kind": "placeholder"}] == [place]
    raw = records_of(tmp_path / "out" / "commitlog")[place]
    made = message.decode_head(raw)
    assert made is not None
    assert (made.queue_id, made.queue_offset) == (head.queue_id, head.queue_offset)
    assert b"RMQTOOL_LOST" in raw
    assert (
        tree(tmp_path / "out" / "lost+found")[f"{place:020d}-body-0.bin"]
        == (damaged / "commitlog" / f"{place // 8192 * 8192:020d}").read_bytes()[place % 8192 :][
            : head.total_size
        ]
    )
    kept = opened(damaged).salvage(tmp_path / "kept", keep_damaged=True)
    assert kept.verdict.endswith(" recovered, 1 of them damaged; no message is proven to be lost.")
    assert int(kept.exit_status()) == 5
    assert tree(tmp_path / "kept" / "commitlog") == tree(damaged / "commitlog")


def test_the_papers_agree_with_the_result(damaged: Path, tmp_path: Path) -> None:
    lost_segment(damaged)
    out = tmp_path / "out"
    report = opened(damaged).salvage(out)
    lines = (out / "salvage" / "SHA256SUMS").read_text("utf-8").splitlines()
    sums = {line[66:]: line[:64] for line in lines}
    files = {name: data for name, data in tree(out).items() if not name.startswith("salvage/")}
    assert sums == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    lost = [json.loads(line) for line in (out / "salvage" / "lost.ndjson").read_text("utf-8").splitlines()]
    assert sum(one["count"] for one in lost) == report.lost.proven > 0
    pieces = [line.split() for line in (out / "salvage" / "log.map").read_text().splitlines()[4:]]
    assert sum(int(size, 16) for _, size, _ in pieces) == report.bytes.log
    assert {status for _, _, status in pieces} == {"+", "-"}
    parts = report.bytes
    assert parts.records + parts.tombstones + parts.fillers + parts.blank + parts.zeros == parts.log


def test_messages_before_the_log_are_said_and_listed(damaged: Path, tmp_path: Path) -> None:
    """The first file is gone, and queues and index still lead there."""
    gone = {one.physical_offset for one in opened(damaged).messages() if one.physical_offset < 8192}
    (damaged / "commitlog" / f"{0:020d}").unlink()
    out = tmp_path / "out"
    report = opened(damaged).salvage(out)
    assert f"{len(gone)} messages before the log's first byte" in report.verdict
    lost = [json.loads(line) for line in (out / "salvage" / "lost.ndjson").read_text("utf-8").splitlines()]
    assert {one["cause"] for one in lost} == {"before"}
    assert sorted(one["physicalOffset"] for one in lost) == sorted(gone)
    told: list[rmqtool.LostMessage] = []
    opened(damaged).rebuild(dry_run=True, lost=told.append)
    assert [(one.topic, one.queue_id, one.queue_offset, one.size) for one in told] == [
        (one["topic"], one["queueId"], one["queueOffset"], one["size"]) for one in lost
    ]
    shutil.rmtree(damaged / "consumequeue")
    assert opened(damaged).salvage(tmp_path / "again").lost.before == len(gone)
    lines = (tmp_path / "again" / "salvage" / "lost.ndjson").read_text("utf-8").splitlines()
    assert {json.loads(line)["topic"] for line in lines} == {None}


def test_names_with_ends_of_lines_are_listed_as_sha256sum_does(damaged: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"odd\nname\\of \xff.json")
    (damaged / "config" / name).write_text("{}", "utf-8")
    out = tmp_path / "out"
    opened(damaged).salvage(out)
    assert (out / "config" / name).exists()
    listed = [parse_line(line) for line in (out / "salvage" / "SHA256SUMS").read_bytes().splitlines()]
    files = {os.fsencode(label) for label in tree(out) if not label.startswith("salvage/")}
    assert {line.name for line in listed if line is not None} == files
    command = ["sha256sum", "--check", "--strict", "--quiet", "salvage/SHA256SUMS"]
    assert subprocess.run(command, cwd=out, check=False).returncode == 0


def test_a_plan_is_done_to_the_letter_and_refused_for_another_log(damaged: Path, tmp_path: Path) -> None:
    bit_rot(damaged)
    text = plan_text(opened(damaged).plan_salvage())
    opened(damaged).salvage(tmp_path / "one", plan=read_plan(text))
    opened(damaged).salvage(tmp_path / "two")
    assert tree(tmp_path / "one" / "commitlog") == tree(tmp_path / "two" / "commitlog")
    with pytest.raises(AccountError):
        read_plan(
            text.replace('"length": 8192', '"length": 8191', 1) if '"length": 8192' in text else _cut(text)
        )
    LogCopy(damaged).flip(LogCopy(damaged).records[0][0] + 50, 1)
    with pytest.raises(RefusedError, match="make a new plan"):
        opened(damaged).salvage(tmp_path / "three", plan=read_plan(text))
    assert not (tmp_path / "three").exists()
    with pytest.raises(UsageError, match="no plan"):
        read_plan("{}")


def _cut(text: str) -> str:
    plan = json.loads(text)
    plan["parts"].pop()
    return json.dumps(plan)


def test_holes_are_healed_from_a_copy(damaged: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(damaged, tmp_path / "copy")
    lost_segment(damaged)
    bit_rot(copy)
    report = opened(damaged).salvage(tmp_path / "out", [opened(copy)])
    assert report.healed > 0
    whole = tree(fixture(NAME) / "commitlog")
    missing = [name for name, data in tree(tmp_path / "out" / "commitlog").items() if data != whole[name]]
    assert len(missing) <= 1  # what both lack
    opened(damaged).salvage(tmp_path / "three", [opened(copy), opened(fixture(NAME))])
    assert tree(tmp_path / "three" / "commitlog") == whole
    with pytest.raises(UsageError, match="no copy of this log"):
        opened(damaged).salvage(tmp_path / "other", [opened(fixture("segments-5.5.1"))])


@pytest.mark.few(1)
@pytest.mark.parametrize("holes", ["repeat", "filler", "cut"])
def test_other_ways_to_fill_holes(holes: str, damaged: Path, tmp_path: Path) -> None:
    bit_rot(damaged)
    report = opened(damaged).salvage(tmp_path / "out", holes=holes)
    made = made_places(tmp_path / "out")
    result = records_of(tmp_path / "out" / "commitlog")
    dispatched = [raw for place, raw in result.items() if place in made and not _is_rollback(raw)]
    assert dispatched == []
    assert report.exit_status() is ExitStatus.LOG_DAMAGED
    if holes == "repeat":
        assert report.units == len(fixture_records())
    else:
        assert report.lost.placed == 0
        assert report.units == report.records


def _is_rollback(raw: bytes) -> bool:
    head = message.decode_head(raw)
    assert head is not None
    return head.sys_flag & message.TRANSACTION_MASK == message.TRANSACTION_ROLLBACK


def fixture_records() -> dict[int, bytes]:
    return records_of(fixture(NAME) / "commitlog")


@pytest.mark.full
def test_a_point_in_time_and_some_topics(damaged: Path, tmp_path: Path) -> None:
    records = fixture_records()
    middle = sorted(records)[len(records) // 2]
    report = opened(damaged).salvage(tmp_path / "until", until_offset=middle)
    assert records_of(tmp_path / "until" / "commitlog").keys() == {at for at in records if at < middle}
    head = message.decode_head(records[middle])
    assert head is not None
    report = opened(damaged).salvage(tmp_path / "then", until_timestamp=head.store_timestamp_ms)
    assert report.partial
    assert report.records < len(records)
    report = opened(damaged).salvage(tmp_path / "topic", topic="TopicTest")
    assert {one.topic for one in report.queues} == {"TopicTest"}
    with pytest.raises(UsageError):
        opened(damaged).salvage(tmp_path / "none", holes="bury")


def test_what_is_there_is_refused(damaged: Path, tmp_path: Path) -> None:
    with pytest.raises(RefusedError):
        opened(damaged).salvage(damaged / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(RefusedError):
        opened(damaged).salvage(tmp_path / "full")


def test_the_command(damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bit_rot(damaged)
    plan, out = str(tmp_path / "plan.json"), str(tmp_path / "out")
    assert main(["salvage", str(damaged), "--plan", plan]) == ExitStatus.LOG_DAMAGED
    command = ["salvage", str(damaged), "--apply", plan, "--out", out, "--format", "json"]
    assert main(command) == ExitStatus.LOG_DAMAGED
    shown = capsys.readouterr().out
    told = json.loads(shown[shown.index("{") :])
    assert told["schema"] == "rmqtool.salvage/1"
    assert told["exitStatus"] == ExitStatus.LOG_DAMAGED
    assert main(["salvage", str(damaged)]) == ExitStatus.USAGE


@pytest.mark.few(1)
@pytest.mark.parametrize("incident", INCIDENTS)
def test_after_an_incident_every_survivor_is_there(incident: str, damaged: Path, tmp_path: Path) -> None:
    INCIDENTS[incident](damaged)
    opened(damaged).salvage(tmp_path / "out")
    result, made = records_of(tmp_path / "out" / "commitlog"), made_places(tmp_path / "out")
    given_back = {place: raw for place, raw in result.items() if place not in made}
    assert given_back.items() <= fixture_records().items()
    assert len(given_back) > len(fixture_records()) // 2


def test_a_store_without_queues(damaged: Path, tmp_path: Path) -> None:
    drop_queues(damaged)
    assert opened(damaged).salvage(tmp_path / "out").is_whole


@pytest.mark.parametrize("version", ["5.3.3", pytest.param("5.5.1", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "gone",
    [
        ("batchconsumequeue",),
        pytest.param(("batchconsumequeue", "consumequeue", "config"), id="all"),
    ],
)
def test_inner_batches_tell_of_their_batch_queues(
    version: str, gone: tuple[str, ...], tmp_path: Path
) -> None:
    source = fixture(f"batchcq-{version}")
    papers = shutil.ignore_patterns("broker.conf", "recipe.toml", "SHA256SUMS", "reference", *gone)
    root = shutil.copytree(source, tmp_path / "store", ignore=papers)
    report = rmqtool.open(root, broker_conf=source / "broker.conf").salvage(tmp_path / "out")
    assert report.is_whole
    assert tree(tmp_path / "out" / "commitlog") == tree(root / "commitlog")
    expected = fixture_store(source.name).expected
    for name in ("batchconsumequeue", "consumequeue"):
        assert tree(tmp_path / "out" / name) == tree(expected / name)
    assert any("queue.type=BatchCQ" in note for note in report.notes) == ("config" in gone)


def judged(seeds: range, folder: Path, names: list[str]) -> list[Outcome]:
    outcomes = []
    for seed in seeds:
        at = folder / str(seed)
        at.mkdir()
        name = names[seed % len(names)]
        outcome, done = run(fixture(name), at, seed)
        assert not outcome.bad, f"seed {seed} on {name}: {done}: {outcome}"
        outcomes.append(outcome)
        shutil.rmtree(at)
    return outcomes


@pytest.mark.full
def test_random_damage(tmp_path: Path) -> None:
    counts = summary(judged(range(100, 110), tmp_path, [NAME, "segments-5.5.1"]))
    assert counts["missing"] == counts["strange"] == counts["misplaced"] == 0 < counts["survivors"]


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        *(("expiredhead-5.3.3", 188), ("v2-5.5.1", 2079), ("plain-5.5.1", 705), ("ext-5.3.3", 829)),
        *(("lmq-5.5.1", 4201), ("plain-5.5.1", 41280)),
    ],
)
def test_damage_that_was_misread_once(name: str, seed: int, tmp_path: Path) -> None:
    """A liar that fills a hole; a place that another record owns; a hole too short to name a light queue."""
    outcome, done = run(fixture(name), tmp_path, seed)
    assert not outcome.bad, f"{done}: {outcome}"


@pytest.mark.soak
@pytest.mark.parametrize("first", campaign(range(0, 120, 40), 3))
def test_campaign(first: int, tmp_path: Path) -> None:
    """Twelve kinds of damage and their combinations: nothing lost, nothing invented, all in its place."""
    counts = summary(judged(range(first, first + 40), tmp_path, CAMPAIGN))
    assert counts["missing"] == counts["strange"] == counts["misplaced"] == 0 < counts["survivors"]


def test_logs_of_compacted_topics_are_copied_where_the_new_queue_ends_no_earlier(
    damaged: Path, tmp_path: Path
) -> None:
    path = damaged / "config" / "topics.json"
    topics = json.loads(path.read_text("utf-8"))
    topics["topicConfigTable"]["Orders"]["attributes"] = {"cleanup.policy": "COMPACTION"}
    path.write_text(json.dumps(topics), "utf-8")
    for queue_id, first in ((0, 11), (1, 98)):
        for name in ("compactionLog", "compactionCq"):
            folder = damaged / "compaction" / name / "Orders" / str(queue_id)
            folder.mkdir(parents=True)
            unit = BATCH_UNITS.encode(BatchUnitFields(0, 200, 0, 0, first, 1, -1, 0))
            (folder / f"{0:020d}").write_bytes(unit.ljust(460, b"\0"))
    report = opened(damaged).salvage(tmp_path / "out")
    out = tmp_path / "out" / "compaction"
    copied = {path.parent.relative_to(out).as_posix() for path in out.glob("*/*/*/*")}
    assert copied == {"compactionLog/Orders/0", "compactionCq/Orders/0"}
    told = {one.label: one.problem for one in report.config if one.label.startswith("compaction")}
    assert [label[-8:] for label in told] == ["Orders/1", "Orders/7"]
    assert "ends at queue offset 99, the new queue at 10" in str(told["compaction/compactionLog/Orders/1"])
    assert "is not there" in str(told["compaction/compactionLog/Orders/7"])


def test_no_record_stands_for_more_of_a_batch_queue_than_a_short_tells() -> None:
    many = [
        Lost("Streams", 0, 5, 70_000, 0, 1 << 30, "hole"),
        Lost("Orders", 0, 5, 70_000, 0, 1 << 30, "hole"),
    ]
    told = [(one.topic, one.queue_offset, one.count) for one in in_batches(many, {"Streams"})]
    streams = [("Streams", 5, 32767), ("Streams", 32772, 32767), ("Streams", 65539, 4466)]
    assert told == [*streams, ("Orders", 5, 70_000)]


@pytest.mark.parametrize(
    ("body_length", "properties", "body"),
    [
        (36, {"TAGS": "rmqtool_lost", "RMQTOOL_LOST": "1"}, b"lost"),
        (35, {"L": "1"}, b"-".ljust(32)),
        (4, {"L": "1"}, b"-"),
        (3, {}, b"   "),
        (0, {}, b""),
    ],
)
def test_what_a_tombstone_says_depends_on_the_room_there_is(
    body_length: int, properties: dict[str, str], body: bytes, tmp_path: Path
) -> None:
    """Without a property it stops tiered storage, without a body a proxy: it has both where it can."""
    lost = len(record(0, body=bytes(body_length), properties=b""))
    log, first = bytearray(4096), record(0)
    stop = len(first) + lost
    last = record(stop, queueOffset=2)
    log[: len(first)], log[stop : stop + len(last)] = first, last
    (tmp_path / "damaged" / "commitlog").mkdir(parents=True)
    (tmp_path / "damaged" / "commitlog" / f"{0:020d}").write_bytes(log)
    rmqtool.open(tmp_path / "damaged").salvage(tmp_path / "out")
    made = list(rmqtool.open(tmp_path / "out").messages())[1]
    assert (made.physical_offset, made.queue_offset, made.total_size) == (len(first), 1, lost)
    assert (made.properties, made.body) == (properties, body)


def test_a_plan_that_does_not_add_up_is_no_plan(damaged: Path) -> None:
    plan = opened(damaged).plan_salvage()
    plan.check()
    assert plan.bytes_of(PartKind.RECORDS) == sum(map(len, fixture_records().values()))


def test_records_that_can_be_read_in_another_place_are_told_with_where_to_go(
    damaged: Path, tmp_path: Path
) -> None:
    log = LogCopy(damaged)
    place, moved = log.records[1][0], log.records[2][1]
    raw = log.read(moved, log.head(moved).total_size)
    log.write(place, raw)
    log.write(moved, bytes(len(raw)))
    report = opened(damaged).salvage(tmp_path / "out")
    (note,) = report.notes
    assert note.startswith("1 sound record lies in another place than named")
    assert "rmqtool carve" in note
    log.write(moved, raw)
    assert opened(damaged).salvage(tmp_path / "copy").notes == ()
