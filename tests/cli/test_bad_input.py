"""Bad input: one sentence or a finding, the right status; no traceback, no hang, no change of evidence."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import STORES
from tests.scan.log_builder import record

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runs import Run

LOOK_UPS = (
    ("info",),
    ("dump", "--format", "ndjson", "--body", "hex"),
    ("dump", "--format", "text"),
    ("query", "-t", "TopicTest", "-k", "hot"),
    ("query", "-t", "TopicTest", "--queue", "0", "--queue-offset", "0", "-m", "0"),
    ("query", "--offset", "0"),
    ("query", "-t", "TopicTest", "-k", "hot", "--scan"),
)


def words_for(look_up: tuple[str, ...], path: Path) -> list[object]:
    return [look_up[0], path, *look_up[1:]]


@pytest.mark.parametrize("look_up", LOOK_UPS, ids=" ".join)
def test_what_is_no_store_is_said_in_one_sentence(
    run: Callable[..., Run], tmp_path: Path, look_up: tuple[str, ...]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "random.bin").write_bytes(random.Random(1).randbytes(5000))
    (tmp_path / "nothing.bin").touch()
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo")
    for name in ("missing", "empty", "random.bin", "nothing.bin", "link", "fifo"):
        found = run(*words_for(look_up, tmp_path / name))
        assert (found.status, found.out) == (3, ""), name
        assert found.err.startswith(f"error: {tmp_path / name}")
        assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("salvage", "STORE", "--plan", "-"),
        ("verify", "STORE", "--report", "junit:-"),
        ("rebuild", "STORE", "--out", "-"),
    ],
    ids=" ".join,
)
def test_a_dash_is_no_file(
    run: Callable[..., Run], plain_copy: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(plain_copy.parent)
    found = run(*(plain_copy if word == "STORE" else word for word in words))
    assert (found.status, found.out) == (2, "")
    assert "standard output is not possible here; give a name, or ./- for that one" in found.err
    assert not (plain_copy.parent / "-").exists()


def test_data_to_a_dash_go_to_standard_output(run: Callable[..., Run], plain_copy: Path) -> None:
    assert run("info", plain_copy, "-o", "-").out == run("info", plain_copy).out


@pytest.mark.few(1)
@pytest.mark.parametrize("look_up", LOOK_UPS, ids=" ".join)
@pytest.mark.parametrize("kind", ["zeros", "random", "cut", "empty", "fifo", "directory", "missing"])
def test_no_damage_to_any_file_breaks_a_look_up(
    run: Callable[..., Run], plain_copy: Path, look_up: tuple[str, ...], kind: str
) -> None:
    """Each file of a store in turn becomes something else; every command ends with a status of the table."""
    files = [path for path in plain_copy.rglob("*") if path.is_file()]
    chosen = random.Random(kind).sample(sorted(files), 8)
    chosen += [plain_copy / "checkpoint", plain_copy / "commitlog" / f"{0:020d}"]
    for path in chosen:
        original = path.read_bytes() if path.is_file() else b""
        spoil(path, kind, original)
        found = run(*words_for(look_up, plain_copy))
        assert found.status in {0, 1, 3, 5}, found.err
        assert "internal error" not in found.err
        restore(path, original)


def spoil(path: Path, kind: str, original: bytes) -> None:
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(
            {
                "zeros": bytes(len(original)),
                "random": random.Random(7).randbytes(len(original)),
                "cut": original[: len(original) // 2 + 3],
                "empty": b"",
            }[kind]
        )


def restore(path: Path, original: bytes) -> None:
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.write_bytes(original)


def test_a_part_of_the_wrong_type_is_shown_as_damage(run: Callable[..., Run], plain: Path) -> None:
    """``--type`` is believed: a log read as a queue is units and damage, not a crash."""
    log = plain / "commitlog" / f"{0:020d}"
    for kind in ("consumequeue", "consumequeue-ext", "batchconsumequeue", "index", "checkpoint", "commitlog"):
        assert run("dump", log, "--type", kind, "--format", "ndjson").status in {0, 1, 5}
    assert run("dump", plain / "checkpoint", "--type", "commitlog").status == 5


@pytest.mark.parametrize(
    "topic", [b"..", b"../../../../etc/passwd", b"/etc/passwd", b"a\0b", b"x" * 127, b"\xff\xfe", b"[bold]"]
)
def test_hostile_topic_names_reach_no_file(run: Callable[..., Run], tmp_path: Path, topic: bytes) -> None:
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    raw = record(0, topic=topic, queueOffset=2**63 - 1, queueId=-1, sysFlag=0x7FFFFFCF)
    (store / "commitlog" / f"{0:020d}").write_bytes(raw + bytes(64))
    found = run("dump", store, "--format", "ndjson")
    assert found.status == 0
    assert found.objects[0]["queueOffset"] == 2**63 - 1
    for words in (("info", store), ("dump", store), ("query", store, "--offset", 0)):
        assert run(*words).status == 0
    name = topic.decode(errors="replace")
    assert run("query", store, "-t", name, "--queue", 0, "--queue-offset", 0).status == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


@pytest.mark.parametrize(
    "setting",
    ["mappedFileSizeCommitLog=-1", "maxHashSlotNum=0", "mappedFileSizeConsumeQueue=99999999999", "x", "a=b"],
)
def test_wrong_settings_are_usage_errors(run: Callable[..., Run], plain: Path, setting: str) -> None:
    found = run("info", plain, "-p", setting)
    assert (found.status, found.out) == (2, "")


@pytest.mark.parametrize("settings", [("maxHashSlotNum=2147483647",), ("maxHashSlotNum=1", "maxIndexNum=7")])
def test_a_geometry_that_contradicts_the_files_reads_nothing_beyond_them(
    run: Callable[..., Run], plain: Path, settings: tuple[str, ...]
) -> None:
    given = [word for setting in settings for word in ("-p", setting)]
    found = run("dump", plain / "index", "--format", "ndjson", "--slots", "--chains", *given)
    assert found.status in {0, 1}
    assert run("query", plain, "-t", "TopicTest", "-k", "hot", *given).status in {0, 1}


def identity(root: Path) -> dict[str, tuple[int, int, int, str]]:
    """Return mode, mtime, ctime and contents of everything below a directory."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(root))] = (status.st_mode, status.st_mtime_ns, status.st_ctime_ns, digest)
    return found


@pytest.mark.parametrize("look_up", LOOK_UPS, ids=" ".join)
def test_evidence_stays_as_it_is(run: Callable[..., Run], tmp_path: Path, look_up: tuple[str, ...]) -> None:
    store = Path(shutil.copytree(STORES / "crash-4.9.8", tmp_path / "store"))
    before = identity(store)
    run(*words_for(look_up, store))
    assert identity(store) == before


def test_a_fifo_among_the_files_does_not_block_a_process(plain_copy: Path) -> None:
    """In a process of its own, so that a hang is seen as one."""
    (plain_copy / "checkpoint").unlink()
    os.mkfifo(plain_copy / "checkpoint")
    os.mkfifo(plain_copy / "commitlog" / f"{8192 * 7:020d}")
    done = subprocess.run(
        [sys.executable, "-m", "rmqtool", "dump", plain_copy],
        capture_output=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode in {0, 5}
    assert b"a FIFO" in done.stderr


def test_a_dledger_store_is_named(run: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "dledger-n0" / "data").mkdir(parents=True)
    (tmp_path / "commitlog").mkdir()
    assert "dledger-n0: DLedger store" in run("dump", tmp_path).err
    assert "ST-DLEDGER" in run("info", tmp_path, "--format", "json").document["counts"]
    assert run("query", tmp_path, "--offset", 0).status == 3
