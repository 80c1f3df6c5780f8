"""What goes to standard error, in every mode."""

from __future__ import annotations

import io
import json

import pytest

from rmqtool.progress import Compilation, expected_s
from rmqtool.report.console import Console, ProgressMode
from rmqtool.report.output import size_text
from rmqtool.times import time_text


def test_remarks_in_text(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.stage("scan", 100)
    console.advance(50)
    console.note("a note")
    console.warn("a warning\x1b")
    console.detail("a detail")
    console.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "a note\nwarning: a warning\\x1b\n"


def test_progress_as_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(ProgressMode.JSON)
    console.stage("scan", 100)
    console.warn("mind")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["type"] for line in lines] == ["progress", "warning"]
    assert (lines[0]["stage"], lines[0]["doneBytes"], lines[0]["totalBytes"]) == ("scan", 0, 100)


def test_quiet_keeps_warnings_and_the_log_keeps_everything(capsys: pytest.CaptureFixture[str]) -> None:
    log = io.StringIO()
    console = Console(quiet=True)
    console.note("a note")
    console.log_to(log)
    console.detail("a detail")
    console.warn("a warning")
    assert capsys.readouterr().err == "warning: a warning\n"
    assert [line.split(" ", 1)[1] for line in log.getvalue().splitlines()] == [
        'note "a note"',
        'detail "a detail"',
        'warning "a warning"',
    ]


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    console = Console(color=False)
    console.stage("scan [red]", 1 << 20)
    console.advance(1 << 19)
    console.note("[bold] stays")
    console.close()
    assert "scan [red]" in terminal.getvalue()
    assert "[bold] stays" in terminal.getvalue()


def test_compiling_is_said_with_a_bar_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    console = Console(color=False)
    compilation = Compilation()
    compilation.listener, compilation.kernels = console.compiling, 3
    compilation.begin()
    compilation.end()
    compilation.begin()
    console.note("meanwhile")
    before = terminal.getvalue()
    assert "compiling once, about 5 s" in before
    assert "0/3 kernels" in before
    assert "1/3 kernels" in before
    compilation.end()
    console.note("afterwards")
    console.close()
    during, _, afterwards = terminal.getvalue().rpartition("afterwards")
    assert "3/3 kernels" in during  # not all were needed
    assert "compiling once" not in afterwards


@pytest.mark.parametrize("is_terminal", [True, False])
def test_compiling_is_said_in_one_sentence_where_no_bar_is(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stderr", stream)
    console = Console()
    console.draws_bars = False
    for ready in (0, 1):
        console.compiling(ready, 100, under_way=True)
    console.compiling(100, 100, under_way=False)
    console.close()
    assert stream.getvalue() == "compiling once, about 10 s; the next runs need none of it\n"


def test_how_long_compiling_takes_is_known_better_after_some_kernels() -> None:
    assert expected_s(0, 0, 0.0) == 5
    assert expected_s(2, 98, 20.0) == 30
    assert expected_s(10, 90, 10.0) == 100


def test_compiling_is_no_remark_where_nobody_wants_one(capsys: pytest.CaptureFixture[str]) -> None:
    for console in (Console(quiet=True), Console(ProgressMode.NEVER), Console(ProgressMode.JSON)):
        console.compiling(0, 2, under_way=True)
        console.close()
    assert capsys.readouterr().err == ""


def test_a_remark_breaks_between_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "To install: stop the broker and move consumequeue/ away."
    for is_terminal, expected in (
        (False, [sentence]),
        (True, ["To install: stop the broker", "and move consumequeue/ away."]),
    ):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda answer=is_terminal: answer)
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("COLUMNS", "30")
        Console(ProgressMode.NEVER).note(sentence)
        assert stream.getvalue().splitlines() == expected


def test_a_line_to_paste_stays_whole_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("COLUMNS", "30")
    line = f"  mv {'a/very/long/place/' * 5} there"
    Console(ProgressMode.NEVER).note(f"Stop the broker, look around, and run\n{line}\nKeep it.")
    assert stream.getvalue().splitlines() == ["Stop the broker, look around,", "and run", line, "Keep it."]


def test_times_and_sizes() -> None:
    from datetime import UTC

    assert time_text(1_650_000_000_123, UTC) == "2022-04-15 05:20:00.123Z"
    assert time_text(2**63 - 1, UTC) == str(2**63 - 1)
    assert [size_text(size) for size in (0, 1023, 1024, 1 << 30)] == ["0 B", "1023 B", "1.0 KiB", "1.0 GiB"]
