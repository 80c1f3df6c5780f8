"""A verdict for people: the outcome first, 80 columns at most, hostile bytes harmless."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.commands.verify import Baseline, identity
from rmqtool.findings import CATALOG, Finding, FindingLog, Severity, codes
from rmqtool.projection import json_object
from rmqtool.recovery import Cut, Loss, Prediction, Recovery, Refusal
from rmqtool.releases import RELEASES
from rmqtool.report.explain_text import explanations_text
from rmqtool.report.text_report import TextReport
from rmqtool.report.verdict import verify_text
from tests.report.verdicts import ABORT, CRC, LOG_FILE, MISSING, TAIL, verdict

if TYPE_CHECKING:
    import pytest

    from rmqtool.commands.verify import Verdict


def text(one: Verdict, *, color: bool = False) -> str:
    stream = io.StringIO()
    verify_text(one, TextReport(stream, color=color))
    return stream.getvalue()


def test_summary_comes_first() -> None:
    first = text(verdict(TAIL, ABORT, CRC, MISSING)).splitlines()
    assert first[0] == "The commit log is damaged: /data/store"
    head = "\n".join(first[:9])
    facts = ("163 records", "160 consume queue units", "412 index items", "2 errors, 1 warning, 1 note")
    for fact in facts:
        assert fact in head
    assert "exit status  5" in head


def test_clean_store_says_so() -> None:
    lines = text(verdict(TAIL)).splitlines()
    assert lines[0] == "No damage found: /data/store"
    assert [line.split()[0] for line in lines[1:]] == ["commit", "queues", "index", "seconds"]


def test_no_first_line_promises_more_than_was_looked_at() -> None:
    limits = ("queues alone: not compared with the log",)
    one = verdict()
    one.report = replace(one.report, limits=limits)
    first = text(one).splitlines()[0]
    assert first == (
        "No damage found in the examined part (queues alone: not compared with the log): /data/store"
    )
    damaged = verdict(MISSING)
    damaged.report = replace(damaged.report, limits=limits)
    assert "not examined  queues alone: not compared with the log\n" in text(damaged)


def test_a_lost_index_is_told_in_the_first_line() -> None:
    gone = Finding(code=codes.IX_GONE, message="1,200 entries have no item")
    first = text(verdict(gone)).splitlines()[0]
    assert first == "No damage found, but the index lacks 1 entry that the log requires: /data/store"


def test_what_follows_is_told_with_its_root() -> None:
    """One lost file explains what pointed into it; what points elsewhere is told by itself."""
    gap = Finding(code=codes.CL_GAP, file=LOG_FILE, physical_offset=8192, length=8192)
    inside = Finding(
        code=codes.CQ_DANGLING, topic="Orders", queue_id=0, physical_offset=9000, message="inside"
    )
    outside = replace(inside, physical_offset=1 << 40, message="outside")
    skipped = Finding(code=codes.CL_QOFF_GAP, physical_offset=16384)
    shown = text(verdict(inside, outside, gap, skipped, inside))
    assert "Explains 2 CQ-DANGLING, unit points outside the log" in shown
    assert "Explains 1 CL-QOFF-GAP, queue offset skipped" in shown
    assert (
        "ERROR CQ-DANGLING unit points outside the log\n  Orders/0, physical offset 1099511627776: outside"
        in shown
    )
    assert "CL-QOFF-GAP queue offset skipped\n  " not in shown
    assert "; 3 of them follow from others" in shown


def test_the_next_command_is_ready_to_be_pasted() -> None:
    assert "\nNext: rmqtool verify /data/store --predict-recovery\n" in text(verdict(CRC))
    derived = verdict(MISSING)
    derived.setting_arguments = ("-c", "my broker.conf")
    assert "\nNext: rmqtool rebuild /data/store -c 'my broker.conf' --out /data/store.rebuilt\n" in text(
        derived
    )


def test_damage_elsewhere_promises_nothing_about_the_log() -> None:
    assert text(verdict(MISSING)).startswith("Damage outside the commit log: /data/store\n")


def test_findings_are_grouped_errors_first_and_folded() -> None:
    shown = text(verdict(TAIL, ABORT, *[CRC] * 30, cap=10))
    heads = [line for line in shown.splitlines() if line.startswith(("ERROR", "WARNING", "NOTE"))]
    assert heads == [
        "ERROR CL-CRC body checksum differs (30)",
        "WARNING ST-ABORT abort file present",
    ]
    stream = io.StringIO()
    verify_text(verdict(TAIL), TextReport(stream, color=False), notes=True)
    assert "NOTE CL-TAIL-ZERO zeros after the last record\n" in stream.getvalue()
    assert "… 30 in all" in shown
    assert shown.count("@1234") == 5
    assert shown.count("Remedy:") == 2
    assert "30 errors, 1 warning, 1 note" in shown


def test_each_remedy_stands_with_its_own_findings() -> None:
    """A cut log file is not moved out because notes lie beside it; counts add up, with those not kept."""
    cut = Finding(code=codes.CL_STRAY, file=LOG_FILE, message=f"{LOG_FILE} has 8000 bytes instead of 8192")
    notes = [
        Finding(
            code=codes.CL_STRAY,
            file=f"commitlog/{name}",
            message=f"commitlog/{name} is no log file",
            remedy_override="Move it out.",
        )
        for name in ("a.txt", "b.txt")
    ]
    harmless = replace(notes[0], severity_override=Severity.WARNING, effect_override="Skips it.")
    cuts = [replace(cut, position=number) for number in range(3)]
    one = verdict(notes[0], *cuts, notes[1], harmless)
    assert isinstance(one.report.findings, FindingLog)
    one.report.findings.add(cut, count=8)
    parts = text(one).split("CL-STRAY entry that is no log file")[1:]
    assert [part.partition("\n")[0] for part in parts] == [" (2)", " (11)", ""]
    assert all(name in parts[0] for name in ("a.txt", "b.txt"))
    assert "Remedy: Move it out." in parts[0]
    assert "restore it from a replica" in parts[1]
    assert "Move it out." not in parts[1]
    assert "Broker: Skips it." in parts[2]
    baseline = Baseline()
    baseline.listed[identity(json_object(notes[0]))] += 1
    one.comparison = baseline.compare(one.report.findings)
    heads = [part.partition("\n")[0] for part in text(one).split("CL-STRAY entry that is no log file")[1:]]
    assert heads == [" (2), 1 finding known", " (11)", ""]


def test_place_is_told_once_and_values_only_where_the_sentence_does_not() -> None:
    shown = " ".join(text(verdict(CRC)).split())
    assert shown.count(LOG_FILE) == 1
    assert "Orders/1 #7, physical offset 1234: the body's CRC-32 differs (expected 1, found 2)" in shown


def test_a_terminal_is_filled_and_never_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Off a terminal each finding, and each remedy, is one line."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    verify_text(verdict(CRC, MISSING, ABORT, TAIL), TextReport(terminal, color=False))
    assert max(map(len, terminal.getvalue().splitlines())) in range(70, 81)
    assert f"  Remedy: {CRC.code.remedy}\n" in text(verdict(CRC))


def test_no_hostile_character() -> None:
    shown = text(verdict(CRC, MISSING, ABORT, TAIL))
    assert "[red]x\\x1b[2J\\u202e" in shown
    assert not set(shown) & {"\x1b", "\u202e", "\udc80"}


def test_colour_only_where_it_is_wanted() -> None:
    assert "\x1b[" in text(verdict(CRC), color=True)
    assert "\x1b[" not in text(verdict(CRC), color=False)


def test_known_findings_are_counted_as_such() -> None:
    one = verdict(CRC, CRC)
    baseline = Baseline()
    baseline.listed[identity(json_object(CRC))] = 1
    one.comparison = baseline.compare(one.report.findings)
    shown = text(one)
    assert "1 new, 1 known, 0 no longer found" in shown
    assert "ERROR CL-CRC body checksum differs (2), 1 finding known" in shown


def test_prediction_tells_what_is_lost() -> None:
    one = verdict()
    one.predictions = (
        Prediction(
            "/data/store",
            RELEASES["5.3.3"],
            recovery=Recovery("abnormal", LOG_FILE, 0, "it is the first file"),
            cut=Cut(1234, LOG_FILE, 1234, "CL-CRC", "the body's CRC differs"),
            lost=(Loss("Orders", 12, 2048), Loss("Pay", 1, 100)),
            deleted_files=("commitlog/00000000000000008192",),
        ),
        Prediction("/data/store", RELEASES["4.9.8"], refusals=(Refusal(LOG_FILE, "has the wrong size"),)),
    )
    shown = " ".join(text(one).split())
    assert "Next start of a 5.3.3 broker: it starts" in shown
    assert "abnormal, from commitlog/00000000000000000000: it is the first file" in shown
    assert "13 messages of 2.1 KiB after that: Orders 12, Pay 1" in shown
    assert "1 file: commitlog/00000000000000008192" in shown
    assert "Next start of a 4.9.8 broker: it refuses to start" in shown
    assert "refuses commitlog/00000000000000000000 has the wrong size" in shown


def test_explanation_has_all_headings_and_many_are_a_table() -> None:
    stream = io.StringIO()
    explanations_text([CATALOG["CL-CRC"]], [], None, TextReport(stream, color=False))
    names = [line.split()[0] for line in stream.getvalue().splitlines() if line[1:2].isupper()]
    assert names[1:] == ["Severity", "Part", "Meaning", "Broker", "Remedy", "Origin"]
    stream = io.StringIO()
    explanations_text(list(CATALOG.values()), [], None, TextReport(stream, color=False))
    assert all(code in stream.getvalue() for code in CATALOG)
