"""Every command with readers that go away, full disks, narrow terminals, odd locales and hostile bytes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import STORES
from tests.scan.log_builder import record

ROOT = Path(__file__).parents[2]
HOSTILE_TOPIC = "a\x1b[31m\x07\u202eb"
HUGE_KEY = "k" * 20000
WRITE_ERROR = rb"^error: standard output: (cannot be written: )?"
COMMANDS = {
    "info": ("info", "STORE"),
    "dump": ("dump", "STORE"),
    "dump-ndjson": ("dump", "STORE", "--format", "ndjson"),
    "query": ("query", "STORE", "--scan", "-t", HOSTILE_TOPIC, "-k", HUGE_KEY),
    "verify": ("verify", "STORE"),
    "rebuild": ("rebuild", "STORE", "--dry-run", "--engine", "local"),
    "rebuild-index": ("rebuild-index", "STORE", "--dry-run", "--engine", "local", "--format", "json"),
    "offsets": ("offsets", "STORE"),
    "diff": ("diff", "STORE", "OTHER"),
    "decode-id": ("decode-id", "C0A80114E24018B4AAC24AF57400002A", "\x1b[31m"),
    "completion": ("completion", "bash"),
    "help": ("info", "--help"),
    "manual": ("help", "tour"),
}
ROWS = {"dump", "dump-ndjson", "query", "diff", "completion", "help", "manual"}
"""End with their reader; what reports keeps its status."""
FORMATS = {
    "info": ("json", "ndjson", "csv"),
    "dump": ("text", "json", "csv"),
    "query": ("json", "ndjson", "csv"),
    "verify": ("json", "ndjson", "csv"),
    "offsets": ("json", "ndjson", "csv"),
    "diff": ("json", "ndjson", "csv"),
}
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_SESSIONS = ("dump", "dump-ndjson", "verify", "manual")
"""Rows as text, rows by kernels, a report and a page: streams are opened, written and closed in one place."""
each_way = pytest.mark.parametrize("name", _SESSIONS)
_ENVIRONMENTS = {
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "narrow": {"COLUMNS": "40", "NO_COLOR": "1"},
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store whose topic, key, group and body hold what a terminal would obey."""
    store = tmp_path_factory.mktemp("hostile") / "store"
    (store / "commitlog").mkdir(parents=True)
    properties = f"KEYS\x01{HUGE_KEY}\x02TAGS\x01\x1b]0;x\x07".encode()
    data = record(0, topic=HOSTILE_TOPIC.encode(), body=b"\x1b[2J\xff\x00", properties=properties)
    (store / "commitlog" / f"{0:020d}").write_bytes(data.ljust(1 << 16, b"\0"))
    queue = store / "consumequeue" / HOSTILE_TOPIC / "0"
    queue.mkdir(parents=True)
    (queue / f"{0:020d}").write_bytes(bytes(200))
    (store / "config").mkdir()
    table = {"offsetTable": {f"{HOSTILE_TOPIC}@g\x1b[31m": {"0": 7}}}
    (store / "config" / "consumerOffset.json").write_text(json.dumps(table))
    return store


def run(name: str, store: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    names = {"STORE": str(store), "OTHER": str(STORES / "plain-4.9.8")}
    words = [names.get(word, word) for word in COMMANDS[name]]
    return subprocess.run(
        [sys.executable, "-m", "rmqtool", *words, *more],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        timeout=300,
        check=False,
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "environment"),
    [
        (name, environment)
        for name in COMMANDS
        for environment in (_ENVIRONMENTS if name in _SESSIONS else ("narrow",))
    ],
)
def test_hostile_bytes_never_reach_the_terminal(name: str, environment: str, hostile: Path) -> None:
    done = run(name, hostile, **_ENVIRONMENTS[environment])
    assert done.returncode in {0, 1, 5}, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"internal error" not in done.stderr
    if name != "completion":
        assert harmful(done) == []


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "format_name"), [(name, one) for name, formats in FORMATS.items() for one in formats]
)
def test_no_format_lets_them_through(name: str, format_name: str, hostile: Path) -> None:
    """As csv has no escapes of its own, what a terminal would obey is escaped in it, too: also in a pipe.

    What is read from a pipe ends on a terminal in the end, and no reader gets other data than another.
    """
    more = ["--body", "text"] if name in {"dump", "query"} else []
    more += ["--predict-recovery", "all"] if name == "verify" else []
    done = run(name, hostile, "--format", format_name, *more)
    assert done.returncode in {0, 1, 5}, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"internal error" not in done.stderr
    assert done.stdout
    assert harmful(done) == []


def harmful(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    """Return what a terminal would obey; all that is written is UTF-8."""
    return HARMFUL.findall(done.stdout.decode()) + HARMFUL.findall(done.stderr.decode("utf-8", "replace"))


@pytest.mark.few(1)
@each_way
def test_a_full_disk_is_said_in_one_sentence(name: str, hostile: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    words = [str(hostile) if word == "STORE" else word for word in COMMANDS[name]]
    words = [str(STORES / "plain-4.9.8") if word == "OTHER" else word for word in words]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rmqtool", *words],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=300,
            check=False,
        )
    assert done.returncode == 3, done.stderr
    assert re.search(WRITE_ERROR + rb"No space left", done.stderr, re.MULTILINE), done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.few(1)
@each_way
def test_a_reader_that_is_gone_ends_a_command_quietly(name: str, hostile: Path, tmp_path: Path) -> None:
    store = shutil.copytree(hostile, tmp_path / "store")
    names = {"STORE": str(store), "OTHER": str(STORES / "plain-4.9.8")}
    words = [names.get(word, word) for word in COMMANDS[name]]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "rmqtool", *words],
        cwd=ROOT,
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=300,
        check=False,
    )
    os.close(writing)
    assert done.returncode in ({141} if name in ROWS else {0, 1, 5}), done.stderr
    assert b"Broken pipe" not in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.full
@each_way
def test_a_closed_output_is_a_failure_and_a_closed_error_stream_is_none(
    name: str, hostile: Path, tmp_path: Path
) -> None:
    """Neither number goes to a file that the command opens."""
    names = {"STORE": str(hostile), "OTHER": str(STORES / "plain-4.9.8")}
    words = [sys.executable, "-m", "rmqtool", *(names.get(word, word) for word in COMMANDS[name])]
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *words],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        timeout=300,
        check=False,
    )
    assert closed.returncode == 3, closed.stderr
    assert re.search(WRITE_ERROR + rb"Bad file descriptor", closed.stderr, re.MULTILINE), closed.stderr
    silent = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        timeout=300,
        check=False,
    )
    assert silent.returncode in {0, 1, 5}
    assert silent.stdout


@pytest.mark.full
def test_topics_are_utf8_in_any_locale(hostile: Path) -> None:
    """Directories named after topics agree with the log, and with what is typed."""
    odd = _ENVIRONMENTS["C"]
    for words in (("verify",), ("rebuild", "--compare", "--engine", "local")):
        done = subprocess.run(
            [sys.executable, "-m", "rmqtool", words[0], STORES / "unicode-5.3.3", *words[1:]],
            cwd=ROOT,
            env=os.environ | odd,
            capture_output=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout.decode()
    assert run("query", hostile, **odd).returncode == run("query", hostile).returncode == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("lines", [0, 1, 10])
def test_lost_messages_are_listed_though_nobody_reads_the_report(lines: int, tmp_path: Path) -> None:
    """Status and `--lost` stay, though ``2>&1 | head`` closes both streams."""
    store = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    os.truncate(store / "commitlog" / "00000000000000049152", 0)
    words = [sys.executable, "-m", "rmqtool", "rebuild", str(store), "--engine", "local", "--dry-run"]
    words += ["--lost", str(tmp_path / "lost")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT) as done:
        assert done.stdout is not None
        for _ in range(lines):
            done.stdout.readline()
        done.stdout.close()
        assert done.wait(60) == 5
    assert len((tmp_path / "lost").read_text().splitlines()) == 19
