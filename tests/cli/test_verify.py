"""The door of verify: exit statuses after real edits, files written whole, the evidence left alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rmqtool.findings import CATALOG
from rmqtool.releases import RELEASES
from tests.cli.conftest import STORES
from tests.cli.spoiling import LOG_FILE, spoil_log, spoil_queue

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

_HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("locked", flush=True)
sys.stdin.read()
"""


# Exit statuses


@pytest.mark.parametrize("level", range(4))
def test_undamaged_store_is_clean_at_every_level(run: Callable[..., Run], plain: Path, level: int) -> None:
    done = run("verify", plain, "--level", level)
    assert done.status == 0
    assert done.out.startswith("No damage found")


def test_damaged_queue_is_status_1(run: Callable[..., Run], plain_copy: Path) -> None:
    spoil_queue(plain_copy)
    done = run("verify", plain_copy, "--format", "json")
    assert (done.status, done.document["exitStatus"], done.document["result"]) == (1, 1, "derived-damage")
    assert "consumequeue/TopicTest/0/00000000000000000000" in {
        one["file"] for one in done.document["findings"]
    }


def test_damaged_log_is_status_5(run: Callable[..., Run], plain_copy: Path) -> None:
    spoil_queue(plain_copy)
    spoil_log(plain_copy)
    done = run("verify", plain_copy, "--format", "json")
    assert (done.status, done.document["exitStatus"], done.document["result"]) == (5, 5, "log-damage")
    (crc,) = [one for one in done.document["findings"] if one["code"] == "CL-CRC"]
    assert crc["file"] == LOG_FILE
    assert crc["physicalOffset"] == 8192 + crc["position"]


@pytest.mark.full
def test_fail_on_chooses(run: Callable[..., Run], plain_copy: Path) -> None:
    (plain_copy / "abort").write_bytes(b"")
    assert run("verify", plain_copy).status == 0
    assert run("verify", plain_copy, "--fail-on", "warning").status == 1
    spoil_log(plain_copy)
    assert run("verify", plain_copy).status == 5
    assert run("verify", plain_copy, "--fail-on", "never").status == 0


@pytest.mark.full
def test_worst_of_several_stores_decides(run: Callable[..., Run], plain: Path, plain_copy: Path) -> None:
    spoil_queue(plain_copy)
    done = run("verify", plain, plain_copy, "--format", "json")
    assert done.status == 1
    assert [one["exitStatus"] for one in done.document["stores"]] == [0, 1]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "give a PATH"),
        (["STORE", "--level", "4"], "0<=x<=3"),
        (["STORE", "--level", "deep"], "not a valid integer"),
        (["STORE", "--max-findings", "0"], "x>=1"),
        (["STORE", "--report", "xunit:x"], "junit:FILE or sarif:FILE"),
        (["STORE", "--report", "junit:"], "junit:FILE or sarif:FILE"),
        (["STORE", "--manifest", "x"], "write:FILE or check:FILE"),
        (["STORE", "--report", "junit:absent", "--report", "sarif:absent"], "one file"),
        (["STORE", "--predict-recovery=4.8"], "'4.9.8', '5.3.3', '5.3.4', '5.4.0', '5.5.0', '5.5.1', 'all'"),
        (["--predict-recovery", "5.4.9", "STORE"], "'5.4.9' is not one of '4.9.8'"),
        (["--predict-recovery", "5.x", "STORE"], "'5.x' is not one of '4.9.8'"),
        (["--predict-recovery", "v5.5.1", "STORE"], "'v5.5.1' is not one of '4.9.8'"),
        (["--predict-recovery", "5.5.1"], "give a PATH"),
        (["STORE", "--master", "local[2]"], "--engine spark"),
        (["STORE", "STORE", "--baseline", "x"], "one store"),
        (["STORE", "STORE", "--manifest", "check:x"], "one store"),
        (["--explain", "CL-CRX"], "did you mean CL-CRC"),
        (["STORE", "-p", "noSuchSetting=1"], "noSuchSetting"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_usage_is_status_2(run: Callable[..., Run], plain: Path, words: list[str], part: str) -> None:
    done = run("verify", *[plain if word == "STORE" else word for word in words])
    assert (done.status, done.out) == (2, "")
    assert part in done.err


def test_what_cannot_be_done_is_status_3(run: Callable[..., Run], plain: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for words in (
        [tmp_path / "nothing"],
        [tmp_path],
        [tmp_path / "fifo"],
        [plain, "--baseline", tmp_path / "nothing"],
        [plain, "--manifest", f"check:{tmp_path / 'nothing'}"],
        [plain, "--report", f"junit:{tmp_path / 'nowhere' / 'x'}"],
    ):
        done = run("verify", *words)
        assert (done.status, done.out, len(done.err.splitlines())) == (3, "", 1), words


def test_running_broker_is_status_4_unless_live(run: Callable[..., Run], plain_copy: Path) -> None:
    command = [sys.executable, "-c", _HOLDER, str(plain_copy / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"locked\n"
        refused = run("verify", plain_copy)
        live = run("verify", plain_copy, "--live", "--format", "ndjson")
        broker.communicate()
    assert (refused.status, refused.out) == (4, "")
    assert f"process {broker.pid}" in refused.err
    assert "--live" in refused.err
    assert live.status == 0
    assert "ST-LOCKED" in {one.get("code") for one in live.objects}


@pytest.mark.full
def test_a_bind_mount_of_the_store_is_the_store(plain_copy: Path, tmp_path: Path) -> None:
    """Paths differ, device and inode do not."""
    other, index, queue = tmp_path / "other", tmp_path / "index", tmp_path / "a queue"
    for place in (other, index, queue):
        place.mkdir()
    rmqtool = f"{sys.executable} -m rmqtool"
    script = f"""
        mount --bind {plain_copy} {other} && mount --bind {plain_copy}/index {index} || exit 77
        mount --bind {plain_copy}/consumequeue/Orders/0 "{queue}" || exit 77
        {rmqtool} verify {plain_copy} -o {index}/report; echo $?
        {rmqtool} verify {other} --report sarif:{plain_copy}/report; echo $?
        {rmqtool} verify {plain_copy} --log-file {other}/log; echo $?
        {rmqtool} rebuild {plain_copy} --engine local --out {other}/out; echo $?
        {rmqtool} rebuild {plain_copy} --engine local --out "{queue}"/out; echo $?
        {rmqtool} info {other} -o "{queue}"/out; echo $?
        TMPDIR={other} {rmqtool} rebuild {plain_copy} --engine local --compare; echo $?
        """
    before = sorted(plain_copy.rglob("*"))
    words = ["unshare", "--mount", "--map-root-user", "bash", "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no mount is allowed here: {done.stderr}")
    assert done.stdout.split() == ["4"] * 7
    assert sorted(plain_copy.rglob("*")) == before


# Outputs


def test_lines_end_with_a_summary(run: Callable[..., Run], plain_copy: Path) -> None:
    spoil_queue(plain_copy)
    *findings, summary = run("verify", plain_copy, "--format", "ndjson").objects
    assert {one["type"] for one in findings} == {"finding"}
    assert summary["type"] == "summary"
    assert sum(summary["counts"].values()) >= len(findings) > 0
    assert summary["examined"]["records"] == 163
    assert summary["exitStatus"] == 1


@pytest.mark.full
def test_csv_is_one_row_a_finding(run: Callable[..., Run], plain_copy: Path) -> None:
    spoil_queue(plain_copy)
    done = run("verify", plain_copy, "--format", "csv")
    head, *rows = done.out.splitlines()
    assert head.startswith("type,code,severity,file,position")
    assert any(row.startswith("finding,CQ-") for row in rows)


@pytest.mark.full
def test_reader_that_has_enough_does_not_make_the_store_clean(plain_copy: Path) -> None:
    spoil_queue(plain_copy)
    command = (
        f"{sys.executable} -m rmqtool verify {plain_copy} --format ndjson | true; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("1\n", "")


# Explanations and predictions


def test_every_code_is_explained(run: Callable[..., Run]) -> None:
    for code, entry in CATALOG.items():
        done = run("verify", "--explain", code)
        assert (done.status, done.err) == (0, "")
        words = " ".join(done.out.split())
        for part in (code, entry.title, entry.meaning, entry.remedy):
            assert part in words


def test_explanations_are_data_too(run: Callable[..., Run]) -> None:
    (found,) = run("verify", "--explain", "CL-CRC", "--format", "ndjson").objects
    assert (found["code"], found["severity"], found["structure"]) == ("CL-CRC", "error", "commitlog")
    document = run("verify", "--explain", "all", "--format", "json").document
    assert [one["code"] for one in document["codes"]] == list(CATALOG)
    assert len(run("verify", "--explain", "all", "--format", "csv").out.splitlines()) == len(CATALOG) + 1


@pytest.mark.parametrize(
    ("words", "versions"),
    [
        (["--predict-recovery", "STORE"], ["4.9.8"]),
        (["STORE", "--predict-recovery"], ["4.9.8"]),
        (["--predict-recovery", "inferred", "STORE"], ["4.9.8"]),
        (["--predict-recovery=inferred", "STORE"], ["4.9.8"]),
        (["--predict-recovery", "all", "STORE"], list(RELEASES)),
        *((["--predict-recovery", name, "STORE"], [name]) for name in RELEASES),
        (["--predict-recovery=5.3.3", "STORE"], ["5.3.3"]),
        (["--predict-recovery", "--", "STORE"], ["4.9.8"]),
        (["STORE"], []),
    ],
    ids=" ".join,
)
def test_prediction_takes_a_version_or_none(
    run: Callable[..., Run], plain: Path, words: list[str], versions: list[str]
) -> None:
    done = run(
        "verify", "--level", 0, "--format", "json", *[plain if one == "STORE" else one for one in words]
    )
    assert done.status == 0
    assert [one["brokerVersion"] for one in done.document.get("predictions", [])] == versions


@pytest.mark.parametrize("name", ["5.4.9", "5.5.1-copy", "v5.3"])
def test_a_store_may_be_named_like_a_version(
    run: Callable[..., Run], plain_copy: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(plain_copy.parent)
    plain_copy.rename(plain_copy.parent / name)
    done = run("verify", "--level", 0, "--format", "json", "--predict-recovery", name)
    assert [one["brokerVersion"] for one in done.document["predictions"]] == ["4.9.8"]


def test_a_store_named_as_a_release_is_taken_by_its_path(
    run: Callable[..., Run], plain_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(plain_copy.parent)
    plain_copy.rename(plain_copy.parent / "5.4.0")
    words = ["verify", "--level", 0, "--format", "json", "--predict-recovery"]
    for rest in (["5.4.0", "5.4.0"], ["./5.4.0"]):
        (one,) = run(*words, *rest).document["predictions"]
        assert one["brokerVersion"] == ("5.4.0" if len(rest) == 2 else "4.9.8")


# Parts of a store and engines


def test_only_of_a_whole_store_a_start_can_be_predicted(run: Callable[..., Run], plain: Path) -> None:
    done = run("verify", "--predict-recovery", plain / "index")
    assert (done.status, done.out) == (2, "")
    assert "give a store root" in done.err


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "consumequeue/TopicTest/0", "index", LOG_FILE])
def test_part_of_a_store_is_verified_alone(run: Callable[..., Run], plain: Path, part: str) -> None:
    done = run("verify", plain / part, "--format", "json")
    assert done.status == 0
    assert (done.document["store"], done.document["part"]) == (str(plain), part)


@pytest.mark.full
def test_findings_are_the_same_whatever_the_number_of_jobs(run: Callable[..., Run], plain_copy: Path) -> None:
    spoil_log(plain_copy)
    spoil_queue(plain_copy)
    one, two = (run("verify", plain_copy, "--format", "ndjson", "--jobs", jobs) for jobs in (1, 2))
    assert one.out == two.out


@pytest.mark.full
def test_hostile_names_are_shown_harmless(run: Callable[..., Run], plain_copy: Path) -> None:
    topics = plain_copy / "consumequeue"
    (topics / "TopicTest").rename(topics / "a\x1b[2J[red]")
    for format_name in ("text", "json", "ndjson", "csv"):
        done = run("verify", plain_copy, "--format", format_name)
        assert done.status == 1
        assert "\x1b" not in done.out + done.err


def test_store_that_is_read_only_is_verified(run: Callable[..., Run], tmp_path: Path) -> None:
    store = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    for path in store.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert run("verify", store).status == 0


@pytest.mark.parametrize("command", ["verify", "rebuild"])
def test_a_cluster_needs_a_place_that_it_sees(
    run: Callable[..., Run], plain: Path, tmp_path: Path, command: str
) -> None:
    """Said before anything is started; nothing is written into the store that is read."""
    words = ["--compare"] if command == "rebuild" else []
    master = ["--engine", "spark", "--master", "spark://nowhere:7077"]
    done = run(command, plain, *words, *master)
    assert (done.status, done.out) == (2, "")
    assert "give --scratch DIR" in done.err
    inside = run(command, plain, *words, "--engine", "local", "--scratch", plain / "index")
    assert (inside.status, inside.out) == (4, "")
    missing = run(command, plain, *words, "--engine", "local", "--scratch", tmp_path / "none")
    assert missing.status == 3
    assert str(tmp_path / "none") in missing.err


def test_blocks_lie_where_the_user_says(run: Callable[..., Run], plain: Path, tmp_path: Path) -> None:
    """Beside ``--out`` there is room; without it, nothing stays."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert run("verify", plain, "--scratch", scratch).status == 0
    assert list(scratch.iterdir()) == []
    refused = run("rebuild", plain, "--out", tmp_path / "out", "--scratch", scratch)
    assert (refused.status, "give a URL for it, and fetch the result" in refused.err) == (2, True)


def test_advice_names_the_store(run: Callable[..., Run], plain_copy: Path) -> None:
    (plain_copy / "config" / "topics.json").unlink()
    assert f"Remedy: Run rmqtool repair {plain_copy} --plan" in run("verify", plain_copy).out


def test_a_copy_without_config_is_no_sound_store(run: Callable[..., Run], plain_copy: Path) -> None:
    """A broker that starts on it knows no topic, and deletes the queues."""
    shutil.rmtree(plain_copy / "config")
    found = run("verify", plain_copy, "--format", "json")
    assert found.status == 0
    assert found.document["notLookedAt"] == [
        "without config/: a start on this copy forgets topics and offsets, and deletes queues"
    ]
    assert "in the examined part (without config/" in found.document["verdict"]


def test_a_stray_file_is_no_damage(run: Callable[..., Run], plain: Path, tmp_path: Path) -> None:
    store = shutil.copytree(plain, tmp_path / "store")
    (store / "commitlog" / "notes.txt").write_text("moved on Friday")
    for more in ((), ("--predict-recovery",)):
        found = run("verify", store, *more)
        assert found.out.startswith("No damage found, but a stray file in commitlog/ stops a start")
        assert f"Next: rmqtool repair {store} --plan" in found.out
        assert found.status == (5 if more else 1)
