"""Files that the heavy commands write, on a disk that is full: one sentence, status 3, and nothing half."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import STORES

ROOT = Path(__file__).parents[2]
STORE = STORES / "plain-4.9.8"
LIMIT_BYTES = 1000
LAYOUT = {"verify": ("--level", "0", "--predict-recovery", "all")}
"""A report without scratch files."""


def limited(folder: Path, *words: str, limit: int = LIMIT_BYTES) -> subprocess.CompletedProcess[bytes]:
    """Run a command that can write no file larger than ``limit`` bytes, with temporary files in a folder."""
    temporary = folder / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "rmqtool", *words],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert b"Traceback" not in done.stderr
    assert b"internal error" not in done.stderr
    assert list(temporary.iterdir()) == []
    temporary.rmdir()
    return done


@pytest.mark.few(1)
@pytest.mark.parametrize("option", ["--report=junit:", "--report=sarif:", "--manifest=write:"])
def test_a_file_beside_the_data_is_there_whole_or_not_at_all(option: str, tmp_path: Path) -> None:
    target = tmp_path / "file"
    done = limited(tmp_path, "verify", str(STORE), "--level", "0", f"{option}{target}", limit=200)
    assert done.returncode == 3
    assert f"error: {target}: cannot be written: File too large".encode() in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize(
    "words",
    [
        ("verify", "--format", "json"),
        ("verify", "--format", "ndjson"),
        ("verify", "--format", "csv"),
    ],
    ids=" ".join,
)
def test_data_that_does_not_fit_is_told_of(words: tuple[str, ...], tmp_path: Path) -> None:
    """A device takes the data as it comes, a disk that is full takes a part: both are status 3."""
    full = limited(tmp_path, words[0], str(STORE), *words[1:], "-o", "/dev/full", limit=1 << 20)
    assert (full.returncode, full.stdout) == (3, b"")
    assert b"error: /dev/full: cannot be written: No space left" in full.stderr
    target = str(tmp_path / "file")
    part = limited(
        tmp_path, words[0], str(STORE), *words[1:], *LAYOUT.get(words[0], ()), "-o", target, limit=100
    )
    assert (part.returncode, part.stdout) == (3, b"")
    assert f"error: {target}: cannot be written: File too large".encode() in part.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize("command", ["rebuild", "rebuild-index"])
def test_a_rebuild_leaves_nothing(command: str, tmp_path: Path) -> None:
    """Neither a part of the result, nor an empty report that would be in the way of the next run."""
    out, report = tmp_path / "out", tmp_path / "report"
    done = limited(tmp_path, command, str(STORE), "--out", str(out), "--engine", "local", "-o", str(report))
    assert done.returncode == 3
    assert b"cannot be written: File too large" in done.stderr
    assert done.stdout == b""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize("words", [("verify",), ("rebuild", "--compare")], ids=" ".join)
def test_blocks_that_do_not_fit_are_no_damage(words: tuple[str, ...], tmp_path: Path) -> None:
    """Scratch files are ours: that they cannot be written says nothing of the store."""
    scratch = ("--scratch", str(tmp_path)) if words[0] == "verify" else ()  # else these stay in memory
    done = limited(tmp_path, words[0], str(STORE), *words[1:], "--engine", "local", *scratch)
    assert done.returncode == 3
    assert b"cannot be written: File too large" in done.stderr
    assert done.stdout == b""


@pytest.mark.full
@pytest.mark.parametrize(
    "words",
    [
        ("info", str(STORE)),
        ("info", str(STORE), "--format", "json"),
        ("offsets", str(STORE)),
        ("decode-id", "C0A80114E24018B4AAC24AF57400002A", "--format", "json"),
        ("verify", "--explain", "CL-CRC"),
        ("explain", "found a illegal magic code 0x0"),
    ],
    ids=" ".join,
)
def test_a_short_report_is_there_whole_or_not_at_all(words: tuple[str, ...], tmp_path: Path) -> None:
    target = tmp_path / "file"
    done = limited(tmp_path, *words, "-o", str(target), limit=100)
    assert (done.returncode, done.stdout) == (3, b"")
    assert f"error: {target}: cannot be written: File too large".encode() in done.stderr
    assert list(tmp_path.iterdir()) == []
    full = limited(tmp_path, *words, "-o", "/dev/full")
    assert full.returncode == 3
    assert b"error: /dev/full: cannot be written: No space left on device" in full.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "words",
    [
        ("dump", str(STORE)),
        ("dump", str(STORE), "--format", "ndjson"),
        ("query", str(STORE), "-t", "TopicTest", "-b", "2000-01-01", "--format", "json"),
        ("diff", str(STORE), str(STORES / "plain-5.3.3")),
    ],
    ids=" ".join,
)
def test_rows_that_do_not_fit_are_told_of(words: tuple[str, ...], tmp_path: Path) -> None:
    """Nothing of a file is left."""
    target = tmp_path / "file"
    done = limited(tmp_path, *words, "-o", str(target))
    assert done.returncode == 3
    assert f"error: {target}: cannot be written: File too large".encode() in done.stderr
    assert list(tmp_path.iterdir()) == []
    full = limited(tmp_path, *words, "-o", "/dev/full", limit=1 << 20)
    assert full.returncode == 3
    assert b"error: /dev/full: cannot be written: No space left on device" in full.stderr


@pytest.mark.full
def test_a_question_that_fails_before_its_first_row_leaves_no_file(tmp_path: Path) -> None:
    """The next one, put right, may use the name."""
    target = tmp_path / "file"
    for words in (
        ("dump", str(STORE / "checkpoint"), "--tag", "x"),
        ("query", str(STORE), "--keys-file", "-"),
    ):
        assert limited(tmp_path, *words, "-o", str(target)).returncode != 0
        assert list(tmp_path.iterdir()) == []
