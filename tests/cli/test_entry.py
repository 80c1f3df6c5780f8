"""The outermost function: exit statuses, one sentence for every failure, clean ends."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import click
import pytest

from rmqtool.cli import entry, group
from rmqtool.errors import RefusedError
from tests.cli.waiting import readable
from tests.commands.rebuilding import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.runs import Run

PROGRAM = (sys.executable, "-m", "rmqtool")
ROOT = Path(__file__).parents[2]


def start(*words: object, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [*PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, **options
    )


def test_help_names_every_command_and_imports_none(run: Callable[..., Run]) -> None:
    found = run("--help")
    assert found.status == 0
    assert all(name in found.out for name in group.COMMANDS)


@pytest.mark.parametrize("name", group.COMMANDS)
def test_the_list_of_commands_says_what_each_command_says(name: str) -> None:
    """The one line in the list is written apart from the command, so that the list imports nothing."""
    command = group.ROOT.get_command(click.Context(group.ROOT), name)
    assert command is not None
    assert command.get_short_help_str(200) == group.COMMANDS[name].summary


def test_version(run: Callable[..., Run]) -> None:
    assert run("--version").out.startswith("rmqtool ")


@pytest.mark.parametrize("watch", ["sys.setprofile(lambda *_: None)", "threading.Timer(2, print).start()"])
def test_a_process_that_is_watched_or_at_work_ends_as_usual(watch: str) -> None:
    script = f"import sys, threading; {watch}; sys.argv[1:] = ['--version']; from rmqtool.cli import main; "
    done = subprocess.run(
        [sys.executable, "-c", f"{script}print('status', main())"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "status 0" in done.stdout


@pytest.mark.parametrize("name", group.COMMANDS)
def test_an_option_of_one_value_is_given_once(name: str) -> None:
    """Never the last one silently; flags and repeatable options may be said again."""
    command = group.ROOT.get_command(click.Context(group.ROOT), name)
    assert command is not None
    settings = group.ROOT.context_settings  # click keeps the help option that a context asks for first
    options = [one for one in command.params if isinstance(one, click.Option)]
    for one in options:
        value = () if one.is_flag else (_a_value(one.type),)
        words = [word for _ in range(2) for word in (one.opts[0], *value)]
        if one.is_flag or one.multiple:
            command.parse_args(click.Context(command, resilient_parsing=True, **settings), words)
            continue
        with pytest.raises(
            click.UsageError, match=f"{max(one.opts, key=len)} takes one value, and is given 2"
        ):
            command.parse_args(click.Context(command, **settings), words)


def _a_value(kind: object) -> str:
    return str(kind.choices[0]) if isinstance(kind, click.Choice) else "1"


def test_the_last_of_two_values_is_not_taken_silently(run: Callable[..., Run], plain: Path) -> None:
    found = run("query", plain, "-t", "TopicTest", "--topic", "Orders", "--key", "order-1")
    assert (found.status, found.out) == (2, "")
    assert "--topic takes one value, and is given 2 times" in found.err


def test_a_wrong_command_is_a_usage_error_with_the_closest_name(run: Callable[..., Run]) -> None:
    found = run("inof", ".")
    assert found.status == 2
    assert "Did you mean 'info'?" in found.err


@pytest.mark.parametrize(
    ("failure", "status", "says"),
    [
        (RefusedError("no"), 4, "error: no"),
        (
            OSError(28, "No space left on device", "/some/file"),
            3,
            "error: /some/file: No space left on device",
        ),
        (ZeroDivisionError("oops"), 3, "internal error: ZeroDivisionError: oops"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_every_failure_is_one_sentence_and_a_status(
    run: Callable[..., Run],
    monkeypatch: pytest.MonkeyPatch,
    plain: Path,
    failure: BaseException,
    status: int,
    says: str,
) -> None:
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr("rmqtool.commands.info.summarise", fail)
    found = run("info", plain)
    assert (found.status, found.out) == (status, "")
    assert says in found.err
    assert found.err.count("\n") == 1


def test_debug_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, plain: Path
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("here")

    monkeypatch.setattr("rmqtool.commands.info.summarise", fail)
    assert entry.main(["info", str(plain), "--debug"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_ends_the_command_quietly(plain: Path) -> None:
    process = start("dump", plain, "--format", "ndjson", "--body", "hex")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(100)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(120) == 141


@pytest.fixture
def narrow_fifo(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A FIFO that is soon full, and a descriptor that reads of it without waiting."""
    fifo = tmp_path / "out"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    yield fifo, reader
    os.close(reader)


def test_an_interrupt_ends_with_130(narrow_fifo: tuple[Path, int]) -> None:
    """What nobody reads on keeps the command waiting until it is interrupted."""
    fifo, reader = narrow_fifo
    process = start("dump", "fixtures/stores/plain-4.9.8", "-o", fifo)
    assert readable(reader, 60)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert err.startswith(b"error: interrupted")
    assert b"Traceback" not in err


def test_a_terminal_that_is_closed_does_not_end_what_runs_under_nohup(narrow_fifo: tuple[Path, int]) -> None:
    fifo, reader = narrow_fifo
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # children inherit it
    try:
        process = start("dump", "fixtures/stores/plain-4.9.8", "-o", fifo)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert readable(reader, 60)
    process.send_signal(signal.SIGHUP)
    os.set_blocking(reader, True)
    while os.read(reader, 65536):
        pass
    process.communicate(timeout=300)
    assert process.returncode == 0


def test_a_full_disk_is_named() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    process = start("dump", "fixtures/stores/plain-4.9.8", "-o", "/dev/full")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 3
    assert b"error: /dev/full: cannot be written: No space left" in err


def test_output_into_the_evidence_is_refused_and_over_a_file_replaces_it(
    run: Callable[..., Run], plain_copy: Path, tmp_path: Path
) -> None:
    inside = run("dump", plain_copy, "-o", plain_copy / "commitlog" / "dump.txt")
    assert inside.status == 4
    assert not (plain_copy / "commitlog" / "dump.txt").exists()
    there = tmp_path / "there"
    there.write_text("mine")
    assert run("dump", plain_copy, "-o", there, "--limit", "many").status == 2
    assert there.read_text() == "mine"
    assert run("dump", plain_copy, "-o", there, "--limit", 1).status == 0
    assert "TopicTest" in there.read_text()


@pytest.mark.parametrize("name", ["log", "commitlog/00000000000000008192"])
@pytest.mark.parametrize(
    ("words", "status"),
    [(("info",), 4), (("info", "-p", "noSuchName=1"), 2), (("query", "--offset", "0"), 4)],
)
def test_a_log_file_in_the_evidence_is_not_touched(
    name: str, words: tuple[str, ...], status: int, run: Callable[..., Run], plain_copy: Path
) -> None:
    """Neither created nor appended to, also where the command fails before it knows what is evidence."""
    before = fingerprint(plain_copy)
    command, *more = words
    assert run(command, plain_copy, *more, "--log-file", plain_copy / name).status == status
    assert fingerprint(plain_copy) == before


def test_a_log_file_in_the_second_of_two_stores_is_not_touched(
    run: Callable[..., Run], plain: Path, plain_copy: Path
) -> None:
    before = fingerprint(plain_copy)
    assert run("diff", plain, plain_copy, "--log-file", plain_copy / "checkpoint").status == 4
    assert fingerprint(plain_copy) == before


def test_output_and_log_files(run: Callable[..., Run], plain: Path, tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    found = run("dump", plain, "-o", out, "--format", "ndjson", "--log-file", log)
    assert (found.status, found.out) == (0, "")
    assert len(out.read_text().splitlines()) > 100
    assert "storePathRootDir" in log.read_text()


def test_a_wrong_zone_or_time_is_a_usage_error(run: Callable[..., Run], plain: Path) -> None:
    assert run("info", plain, "--timezone", "Mars/Olympus").status == 2
    assert run("dump", plain, "--begin", "someday").status == 2


def test_quiet_and_verbose(run: Callable[..., Run], plain: Path) -> None:
    assert run("query", plain, "--offset", 0, "-q").err == ""
    assert "mappedFileSizeCommitLog=8192 (inferred)" in run("query", plain, "--offset", 0, "-v").err


def test_remarks_as_json(run: Callable[..., Run], plain: Path) -> None:
    found = run("query", plain, "--offset", 0, "--progress", "json", "--scan")
    assert '{"type": "note", "message": "answered by the commit log"}' in found.err


def test_a_second_interrupt_waits_for_nothing() -> None:
    """Such as an object store that is asked what is there."""
    state = group.SharedState()
    state.interruption = Mock(side_effect=KeyboardInterrupt)
    assert state.interrupted == "interrupted"
