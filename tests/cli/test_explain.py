"""``explain``: what a line of a log means for the store that it is asked about."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.findings import CATALOG
from rmqtool.findings.log_lines import LOG_LINES
from tests.cli.conftest import STORES
from tests.damage.cases import load_cases
from tests.damage.running import damaged_copy
from tests.schemas.validating import defects

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

    Runner = Callable[..., Run]

PLAIN = STORES / "plain-5.3.3"
FULL = (
    "WARN FlushConsumeQueueService - Offset not matched. Request offset: {0}, firstOffset: 0, "
    "lastOffset: {0}, mappedFileSize: {1}, mappedFiles count: 1"
)
ORDER = (
    "[BUG]logic queue order maybe wrong, expectLogicOffset: 80 currentLogicOffset: 60 "
    "Topic: {} QID: {} Diff: 20"
)
DISPATCH = "[BUG]dispatch message to consume queue error, COMMITLOG OFFSET: {}"


def _case(name: str, folder: Path) -> Path:
    return damaged_copy(next(case for case in load_cases() if case.name == name), folder)


def _line(run: Runner, *words: object) -> dict[str, Any]:
    document = run("explain", *words, "--format", "json", "-q").document
    assert defects("explain", document | {"run": _RUN}) == []
    (line,) = document["lines"]
    assert isinstance(line, dict)
    return line


_RUN = {"version": "", "arguments": [], "begin": "", "end": ""}


def test_a_queue_that_is_exactly_full_is_harmless(run: Runner) -> None:
    """Two queues of the store end where their files do; the line is in every broker's log then."""
    line = _line(run, FULL.format(200, 200), PLAIN)
    assert (line["name"], line["concern"], line["here"]) == ("at-full-end", "harmless", "nothing")
    assert line["places"] == [
        "2 queues end at queue offset 10, where a file is exactly full: Orders/1, Orders/7"
    ]
    assert "no queue ends at queue offset 5 now" in _line(run, FULL.format(100, 200), PLAIN)["places"]
    assert (
        "neither the log nor a queue has files of 7 bytes" in _line(run, FULL.format(7, 7), PLAIN)["places"]
    )


def test_pasted_lines_are_taken_one_by_one_though_wrapped(run: Runner) -> None:
    lines = (
        f"2024-01-09 03:12:44 {FULL.format(200, 200)}".replace(" ", "\n ", 7).replace("\n", "", 2),
        f"2024-01-09 03:12:45 ERROR x - {ORDER.format('TopicTest', 0)}",
    )
    told = run("explain", "\n".join(lines), "--format", "json").document["lines"]
    assert [line["name"] for line in told] == ["at-full-end", "queue-order"]


def test_units_in_wrong_slots_and_their_cure(run: Runner, tmp_path: Path) -> None:
    """The answer names the queue, the units, and the command that verify names."""
    root = _case("a unit lost, the next ones moved up", tmp_path)
    found = run("explain", ORDER.format("TopicTest", 0), root, "--format", "json", "-q")
    (line,) = found.document["lines"]
    assert (line["concern"], line["here"], found.status) == ("bad", "bad", 1)
    assert line["findings"]["CQ-MISPLACED"] == 6
    assert "the message's queue offset was 4, the queue ended at 3" in line["places"]
    assert any(place.startswith("CQ-MISPLACED: ") for place in line["places"])
    verdict = run("verify", root, "--predict-recovery", "--format", "json", "-q").document
    assert {found.document[name] for name in ("verdict", "next")} == {verdict["verdict"], verdict["next"]}
    assert found.document["next"] is not None
    assert verdict["next"] in run("explain", ORDER.format("TopicTest", 0), root).out


def test_a_line_about_damage_that_is_elsewhere(run: Runner) -> None:
    """A sound store has nothing of a line that is bad by itself."""
    line = _line(run, ORDER.format("Orders", 1), PLAIN)
    assert (line["concern"], line["here"], line["findings"]) == ("bad", "nothing", {})
    assert "Orders/1 has queue offsets 0 to before 10" in line["places"]
    assert "there is no queue Nobody/1" in _line(run, ORDER.format("Nobody", 1), PLAIN)["places"]


@pytest.mark.parametrize(
    ("offset", "place"),
    [
        (0, "at log offset 0 begins a message of TopicTest/0, queue offset 0"),
        (1, "at log offset 1 begins no message"),
        (55309, "log offset 55309 is the log's end"),
        (10**12, "log offset 1000000000000 lies after the log's end, 55309"),
    ],
)
def test_places_in_the_log(run: Runner, offset: int, place: str) -> None:
    assert _line(run, DISPATCH.format(offset), PLAIN)["places"] == [place]


def test_places_before_the_log_and_in_a_missing_file(run: Runner, plain_copy: Path) -> None:
    files = sorted((plain_copy / "commitlog").iterdir())
    files[0].unlink()
    files[2].unlink()
    second, third = int(files[1].name), int(files[2].name)
    assert _line(run, DISPATCH.format(5), plain_copy)["places"][0] == (
        f"log offset 5 lies before the log's first byte, {second}"
    )
    missing = _line(run, DISPATCH.format(third + 1), plain_copy)["places"]
    assert missing[0] == f"log offset {third + 1}: the file of the log that held it is missing"


def test_a_group_in_its_queue(run: Runner, plain_copy: Path) -> None:
    (plain_copy / "config" / "consumerOffset.json").write_text('{"offsetTable":{"Orders@billing":{1:99}}}')
    line = "the request offset too small. group=billing, topic=Orders, requestOffset=1, brokerMinOffset=4"
    assert _line(run, line, plain_copy)["places"] == [
        "group billing is at queue offset 99 of Orders/1, a queue of 0 to 10"
    ]


def test_what_one_store_does_not_show(run: Runner) -> None:
    line = _line(
        run, "master pushed offset not equal the max phy offset in slave, SLAVE: 10 MASTER: 20", PLAIN
    )
    assert (line["here"], line["codes"]) == (None, [])
    assert line["places"] == ["at log offset 10 begins no message"]


def test_a_log_file_and_standard_input(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other lines are passed over, those of a kind are one answer, and bytes of any kind are no error."""
    data = b"\xff\x00 nothing\n" + b"".join(f"{DISPATCH.format(number)}\n".encode() for number in range(1000))
    log = tmp_path / "store.log"
    log.write_bytes(data + b"found a illegal magic code 0x0")
    found = run("explain", log, "--format", "ndjson").objects
    assert [(one["name"], one["count"]) for one in found] == [("dispatch-skips", 1000), ("end-of-log", 1)]
    assert [one for line in found for one in defects("explain-line", line)] == []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert [one["name"] for one in run("explain", "-", "--format", "ndjson").objects] == ["dispatch-skips"]
    assert "1,000 lines, the first" in run("explain", log).out
    assert run("explain", log, "--format", "csv").out.splitlines()[0].startswith("type,name,line,count")


@pytest.mark.parametrize("words", [("GC pause (young) 12 ms",), ("/nowhere/at all",), ("/dev/null",)])
def test_nothing_that_says_anything_of_a_store(run: Runner, words: tuple[str, ...]) -> None:
    done = run("explain", *words)
    assert (done.status, done.out) == (1, "")
    assert "no line that says anything of a store" in done.err


def test_a_name_that_nothing_has(run: Runner) -> None:
    done = run("explain", "CL-CRX")
    assert done.status == 2
    assert "did you mean CL-CRC" in done.err


def test_a_part_of_a_store_is_refused(run: Runner) -> None:
    done = run("explain", DISPATCH.format(0), PLAIN / "commitlog")
    assert done.status == 2
    assert "is not a store root" in done.err


def test_codes_are_explained_as_verify_explains_them(run: Runner) -> None:
    for words in (["CL-HOLE"], ["ix-*", "--format", "csv"], ["end-of-log"]):
        assert run("explain", *words).out == run("verify", "--explain", *words).out != ""
    document = run("explain", "all", "--format", "json").document
    assert len(document["codes"]) == len(CATALOG)
    assert len(document["lines"]) == len(LOG_LINES)
    shown = run("explain", "all").out
    assert all(name in shown for name in (*CATALOG, *LOG_LINES))


def test_hostile_lines_stay_on_their_line(run: Runner) -> None:
    line = f"\x1b[31m{ORDER.format(chr(27) + '[2J', 0)}"
    assert "\x1b" not in run("explain", line, PLAIN).out


@pytest.mark.parametrize(
    ("part", "kinds"),
    [
        ("Offset not matched. Request offset", ["at-full-end", "slave-out-of-range", "out-of-range"]),
        ("found a illegal magic code 0x", ["end-of-log", "illegal-magic"]),
        ("logic queue order maybe wrong", ["queue-order"]),
        ("Build consume queue repeatedly", ["built-twice"]),
        ("matched, but hold failed", ["in-deletion"]),
        ("[BUG]dispatch message to consume queue error", ["dispatch-skips"]),
        ("CRC check failed", ["body-crc"]),
        ("truncate dirty logic files", ["queues-at-end", "queues-beyond"]),
        ("[BUG]The mappedFile queue's data is damaged", ["files-missing"]),
        ("The reputFromOffset=5 is smaller than minPyOffset", ["dispatch-behind-start"]),
        ("Compute logical min offset", ["minimum-moved"]),
        ("putKey exception", ["index-key"]),
        ("the mappedFile was destroyed once, but still alive", ["still-held"]),
        ("over flow badly", ["offset-beyond"]),
        ("CODE: 13 the message is illegal", ["too-long"]),
        ("putMessage in lock cost time", ["busy"]),
    ],
)
def test_a_part_of_a_line_shows_all_that_it_may_be_of(run: Runner, part: str, kinds: list[str]) -> None:
    """Who reports a line quotes it without its numbers."""
    ran = run("explain", part, "--format", "ndjson")
    assert (ran.status, [row["name"] for row in ran.objects]) == (0, kinds)


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("CRC check failed. bodyCRC={0}, currentCRC=1", "body-crc"),
        ("physic disk maybe full soon {0}.5", "disk-full"),
        ("dispatch message to consume queue error, COMMITLOG OFFSET: {0}", "dispatch-skips"),
    ],
)
def test_a_number_that_no_broker_writes_is_none(run: Runner, line: str, kind: str, digits: int) -> None:
    """One of more digits than Java's long has; the words say what the line is."""
    ran = run("explain", line.format("9" * digits), STORES / "plain-5.3.3", "--format", "ndjson")
    assert ran.status == 0
    assert [(row["name"], row["numbers"]) for row in ran.objects if row["type"] == "line"] == [(kind, [])]
