"""Tables and paragraphs at every width: nothing is lost, and numbers and names stay in one piece."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.findings import Finding, Severity, StoreFinding, codes
from rmqtool.report.outcome_text import rebuild_text
from rmqtool.report.terminal import columns_of, fold
from rmqtool.report.text_report import TextReport
from tests.damage.edits import edited
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ("topic", "queue", "offset", "what")
LINES = [
    ("TopicTest", "0", "1234567890123", "a sentence of several words that says something"),
    ("%RETRY%" + "g" * 40, "12", "7", ""),
    ("订单订单", "3", "-1", "short"),
]


class Terminal(io.StringIO):
    """A stream that is a terminal, as wide as COLUMNS says."""

    def isatty(self) -> bool:
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, width: int | None) -> str:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO() if width is None else Terminal()
    monkeypatch.setenv("COLUMNS", str(width or 30))
    tables = TextReport(stream)
    tables.pairs(
        "Title", [("name", "value"), ("longer name", "one two three four five six seven eight nine")]
    )
    tables.table("Queues", COLUMNS, LINES)
    tables.paragraph("Broker: recovery cuts the log here and drops everything after.", 2)
    return stream.getvalue()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200, None])
def test_every_word_is_there_in_one_piece(monkeypatch: pytest.MonkeyPatch, width: int | None) -> None:
    out = drawn(monkeypatch, width)
    wanted = {word for line in LINES for cell in line for word in cell.split()}
    assert wanted | {"seven", "everything", "after."} <= set(out.split())
    assert not re.search(r"[ \t]$", out, re.MULTILINE)


@pytest.mark.parametrize("width", [80, 200])
def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = drawn(monkeypatch, width).splitlines()
    assert max(map(columns_of, lines)) <= width


def test_off_a_terminal_a_row_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever COLUMNS says: what is broken there is two lines to grep."""
    lines = drawn(monkeypatch, None).splitlines()
    found = [line.split() for line in lines if line.startswith("  TopicTest")]
    assert found == [["TopicTest", "0", "1234567890123", *LINES[0][3].split()]]
    assert any(line.endswith("drops everything after.") for line in lines)


def test_a_terminal_too_narrow_for_a_table_gets_paragraphs(monkeypatch: pytest.MonkeyPatch) -> None:
    out = drawn(monkeypatch, 40)
    assert "  TopicTest\n    queue   0\n    offset  1234567890123\n" in out


def test_numbers_stand_to_the_right(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(monkeypatch, 200).splitlines()
    rows = [line for line in lines if re.match(r"  (TopicTest|%RETRY|订单)", line)]
    ends = {columns_of(re.split(r"(?<=\d)  |(?<=\d)$", line)[0]) for line in rows}
    assert len(ends) == 1


@pytest.mark.parametrize("width", [10, 24, 40, None])
def test_a_folded_line_keeps_its_parts(width: int | None) -> None:
    parts = ["TopicTest/0 #12", "2026-11-21 03:28:40.424Z", "334 B"]
    text = fold(parts, width, 6, "   0  ")
    assert all(part in text for part in parts)
    assert ("\n" in text) is (width is not None)


def test_spare_columns_leave_where_a_table_is_too_wide_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    lines = [("TopicTest", "0", "1234567890123", "29.5 KiB"), ("Orders", "12", "7", "332 B")]
    for width, gone in ((80, ""), (40, "queue"), (22, "queue, offset")):
        stream = Terminal()
        monkeypatch.setenv("COLUMNS", str(width))
        TextReport(stream).table("Queues", COLUMNS, lines, spare=("queue", "offset"))
        text = " ".join(stream.getvalue().split())
        assert (f"Queues; --format json also has {gone} topic" in text) is bool(gone)
        assert ("1234567890123" in text) is ("offset" not in gone)
        assert "29.5 KiB" in text


def test_a_short_report_says_its_verdict_once_and_a_long_one_at_its_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first line of a long one scrolls away on a terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    edits = [{"record": 60, "field": "body", "flip": 1}]
    report = rmqtool.open(edited(fixture("plain-5.3.3"), tmp_path / "store", edits)).rebuild(
        dry_run=True, jobs=1
    )
    shown = {}
    for lines in (0, 40):
        for stream in (Terminal(), io.StringIO()):
            text = TextReport(stream, color=False)
            for number in range(lines):
                text.line(f"line {number}")
            rebuild_text(report, text)
            text.finish()
            shown[bool(lines), stream.isatty()] = stream.getvalue().splitlines()
    assert shown[False, True] == shown[False, False]
    assert shown[False, True].count(shown[False, True][0]) == 1
    assert shown[True, True][-1] == shown[False, True][0]
    assert shown[True, False][-1] != shown[False, False][0]


@pytest.mark.parametrize("width", [20, 80, None])
def test_whatever_a_report_is_given_is_harmless(monkeypatch: pytest.MonkeyPatch, width: int | None) -> None:
    """Commands give the writer what a store holds, as it is."""
    hostile = "a\x1b[31m\n\u202e\udcff\\"
    monkeypatch.setenv("COLUMNS", str(width or 30))
    stream = io.StringIO() if width is None else Terminal()
    text = TextReport(stream, color=False)
    text.verdict(hostile, [(hostile, hostile)], next_command=hostile, first=hostile)
    text.heading(Severity.ERROR, hostile)
    finding = Finding(code=codes.CL_CRC, file=hostile, topic=hostile, message=hostile)
    text.findings([StoreFinding.of(finding, hostile)])
    text.table(hostile, ("column", "other"), [(hostile, hostile)])
    text.line(hostile)
    text.paragraph(hostile, 2)
    text.finish()
    shown = stream.getvalue()
    assert shown.count("a\\x1b[31m\\x0a\\u202e\\xff\\\\") >= 14
    assert not set(shown) & {"\x1b", "\u202e", "\udcff"}
    assert "\n\u202e" not in shown
