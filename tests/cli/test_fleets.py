"""Many stores as one run: each has its line, a bad one stops nothing, the worst status counts."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from xml.etree import ElementTree as ET

import pytest

from rmqtool.cli import verify
from rmqtool.cli.fleet import MakingQuestion
from rmqtool.errors import RefusedError
from rmqtool.formats.message import HEAD_OFFSETS
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import find_log_end
from rmqtool.store import open_store
from tests.cli.conftest import STORES
from tests.cli.spoiling import spoil_queue, state_of
from tests.schemas.validating import defects

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tests.runs import Run

    Runner = Callable[..., Run]

LOCAL = ("--engine", "local")


@pytest.fixture
def fleet(tmp_path: Path, plain: Path) -> Path:
    """A folder of four brokers: one sound, one with a spoiled queue, one without a store, one sound."""
    folder = tmp_path / "brokers"
    for name in "abd":
        shutil.copytree(plain, folder / name / "store")
    (folder / "c" / "store").mkdir(parents=True)
    spoil_queue(folder / "b" / "store")
    return folder


def rows(text: str) -> list[list[str]]:
    """Return status, name of the broker and what is said, by line of the table."""
    lines = (line.split(maxsplit=2) for line in text.splitlines() if "/brokers/" in line)
    return [[status, Path(store).parent.name, what] for status, store, what in lines]


def test_a_glob_is_a_line_for_each_store_and_the_worst_comes_first(run: Runner, fleet: Path) -> None:
    before = state_of(fleet)
    done = run("verify", fleet / "*" / "store", "--level", "2")
    shown = rows(done.out)
    assert [row[:2] for row in shown] == [["3", "c"], ["1", "b"], ["0", "a"], ["0", "d"]]
    assert shown[0][2].startswith("is not a store (no commitlog/ in it)")
    assert shown[1][2].startswith("Damage outside the commit log")
    assert shown[2][2].startswith("No damage found")
    assert done.out.startswith("4 stores, 2 of them without error\n")
    assert done.status == 3
    assert state_of(fleet) == before


@pytest.mark.full
def test_details_are_what_each_store_would_print(run: Runner, fleet: Path) -> None:
    shown = run("verify", fleet / "a/store", fleet / "b/store", "--level", "2", "-v").out
    assert f"Damage outside the commit log: {fleet}/b/store\n" in shown
    assert shown.index("Next: rmqtool rebuild") < shown.rindex("No damage found in the examined part")


def test_json_has_the_ordinary_documents_in_the_order_in_which_they_were_named(
    run: Runner, fleet: Path
) -> None:
    alone = run("verify", fleet / "b/store", "--format", "json").document
    done = run("verify", fleet / "[b-d]" / "store", fleet / "a/store", fleet / "b/store", "--format", "json")
    found = done.document
    assert defects("fleet", found) == []
    assert (found["schema"], found["command"], found["exitStatus"]) == ("rmqtool.fleet/1", "verify", 3)
    assert [Path(one["store"]).parent.name for one in found["stores"]] == ["b", "c", "d", "a"]
    assert found["stores"][0]["document"] == alone
    assert found["stores"][1]["document"] is None
    assert "is not a store" in found["stores"][1]["failure"]
    summary = found["summary"]
    assert (summary["stores"], summary["failed"]) == (4, 1)
    assert summary["byStatus"] == {"3": 1, "1": 1, "0": 2}
    assert summary["totals"]["records"] == 3 * alone["examined"]["records"]
    assert summary["logBytes"] == sum(one["logBytes"] for one in found["stores"]) > 0


@pytest.mark.parametrize("command", ["verify", "topics"])
def test_lines_say_whose_they_are(run: Runner, fleet: Path, command: str) -> None:
    lines = run(command, fleet / "b/store", fleet / "c/store", "--format", "ndjson").objects
    *others, last = lines
    stores = [one for one in others if one["type"] == "store"]
    assert [one["exitStatus"] for one in stores] == [1 if command == "verify" else 0, 3]
    assert (last["type"], last["stores"], last["failed"]) == ("fleet", 2, 1)
    assert {one["store"] for one in others} == {f"{fleet}/b/store", f"{fleet}/c/store"}
    kinds = {"store": "fleet-line", "fleet": "fleet-line"}
    assert [one for line in lines for one in defects(kinds.get(line["type"], f"{command}-line"), line)] == []


@pytest.mark.parametrize("command", ["verify", "topics"])
def test_csv_has_a_column_for_the_store(run: Runner, fleet: Path, command: str) -> None:
    alone = list(csv.reader(io.StringIO(run(command, fleet / "b/store", "--format", "csv").out)))
    table = list(csv.reader(io.StringIO(run(command, fleet / "[bc]/store", "--format", "csv").out)))
    own = 2 if command == "verify" else 1  # findings also have the part
    assert table[0][0] == "store"
    assert [row[own:] for row in table] == alone
    assert {row[0] for row in table[1:]} == {f"{fleet}/b/store"}


def test_topics_of_many_stores(run: Runner, fleet: Path) -> None:
    done = run("topics", fleet / "*" / "store", "--top", "1", "--format", "csv")
    assert "more rows of 3 stores are left out" in done.err
    found = run("topics", fleet / "*" / "store", "--top", "1", "--format", "json").document
    assert defects("fleet", found) == []
    assert [None if one["document"] is None else len(one["document"]["rows"]) for one in found["stores"]] == [
        *(1, 1),
        *(None, 1),
    ]


def test_reports_for_ci_have_every_store(run: Runner, fleet: Path, tmp_path: Path) -> None:
    words = ("--report", f"junit:{tmp_path}/x.xml", "--report", f"sarif:{tmp_path}/x.sarif")
    assert run("verify", fleet / "*" / "store", "--level", "1", *words).status == 3
    suites = ET.parse(tmp_path / "x.xml").getroot()
    errors = {suite.get("name"): suite.get("errors") for suite in suites}
    assert errors == {f"{fleet}/{name}/store": "1" if name == "c" else "0" for name in "abcd"}
    runs = json.loads((tmp_path / "x.sarif").read_text())["runs"]
    assert sorted(one["invocations"][0]["executionSuccessful"] for one in runs) == [False, True, True, True]


def test_what_is_of_one_store_is_refused(run: Runner, fleet: Path, tmp_path: Path) -> None:
    both, out = (fleet / "a/store", fleet / "b/store"), ("--out", tmp_path / "out", *LOCAL)
    for words in (
        ("verify", *both, "--baseline", "x"),
        ("verify", fleet / "*/store", "--manifest", "write:x"),
        ("verify", fleet / "*/store", "--predict-recovery", "--lost", "x"),
        ("rebuild", *both, *out, "--lost", "x"),
        ("rebuild", *both, *out, "--until-offset", "5"),
        ("rebuild", *both, *out, "--tag-items", "from:5"),
        ("rebuild", *both),
        ("rebuild", fleet / "a/store", *out, "--resume"),
    ):
        done = run(*words)
        assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), words
    assert not (tmp_path / "out").exists()


def test_a_prediction_for_a_part_fails_that_part_alone(run: Runner, fleet: Path) -> None:
    words = (fleet / "a/store", fleet / "d/store/index", "--level", "0", "--predict-recovery")
    found = run("verify", *words, "--format", "json").document
    assert [one["document"] is None for one in found["stores"]] == [False, True]
    assert found["stores"][0]["document"]["predictions"]
    assert "whole stores" in found["stores"][1]["failure"]


def test_nothing_that_fits_is_a_failure(run: Runner, fleet: Path) -> None:
    done = run("verify", fleet / "x*")
    assert done.status == 3
    assert "no match" in done.out
    os.mkdir(fleet / "x*")  # a name is no glob where it is there  # noqa: PTH102
    assert run("verify", fleet / "x*").err.startswith(f"error: {fleet}/x*: is not a store")


def test_outputs_do_not_lie_in_a_store(run: Runner, fleet: Path) -> None:
    before = state_of(fleet)
    both = (fleet / "a/store", fleet / "b/store")
    assert run("verify", *both, "-o", fleet / "b/store/x").status == 4
    assert run("rebuild", *both, "--out", fleet / "a/store/x", *LOCAL).status == 4
    assert state_of(fleet) == before


def test_rebuild_makes_a_directory_for_each_and_goes_on_where_it_ended(
    run: Runner, fleet: Path, tmp_path: Path
) -> None:
    out, one = tmp_path / "out", tmp_path / "one"
    words = ("rebuild", fleet / "*" / "store", "--out", out, *LOCAL, "--format", "json")
    first = run(*words)
    assert first.status == 3
    assert defects("fleet", first.document) == []
    assert sorted(path.name for path in out.iterdir()) == ["a-store", "b-store", "d-store"]
    assert "/NAME/consumequeue" in first.err
    run("rebuild", fleet / "a/store", "--out", one, *LOCAL)
    assert not _differing(out / "a-store", one)

    assert run(*words).status == 4
    shutil.rmtree(out / "b-store")
    kept = state_of(out / "a-store")
    again = run(*words, "--resume")
    assert again.status == 3
    assert state_of(out / "a-store") == kept
    assert (out / "b-store" / "rebuild.json").is_file()
    before = ["earlier run" in (one["verdict"] or "") for one in again.document["stores"]]
    assert before == [True, False, False, True]
    assert defects("fleet", again.document) == []
    assert [_steady(one) for one in again.document["stores"]] == [
        _steady(one) for one in first.document["stores"]
    ]


@pytest.mark.full
def test_results_made_otherwise_are_not_taken(run: Runner, fleet: Path, tmp_path: Path) -> None:
    words = (fleet / "[ad]" / "store", "--out", tmp_path / "out", *LOCAL, "--resume", "--format", "json")
    assert run("rebuild-index", *words).status == 0
    for more in ((), ("--topic", "TopicTest"), ("-p", "messageDelayLevel=1s")):
        found = run("rebuild", *words, *more).document
        assert [one["exitStatus"] for one in found["stores"]] == [4, 4]
    assert run("rebuild-index", *words).document["command"] == "rebuild-index"


@pytest.mark.full
def test_a_part_of_other_messages_is_not_taken(run: Runner, fleet: Path, tmp_path: Path) -> None:
    words = ("rebuild", fleet / "[ad]" / "store", "--out", tmp_path / "out", *LOCAL, "--resume", "--format")
    part = ("--topic", "TopicTest", "--topic", "Other*")
    made = run(*words, "json", *part).document
    assert [one["document"]["asked"]["topics"] for one in made["stores"]] == [["TopicTest", "Other*"]] * 2
    for more, told in {
        (): "asked.topics",
        (*part, "--exclude-topic", "X"): 'asked.excludeTopics [], now it is ["X"]',
        (*part, "--until-timestamp", "1650000000000"): "asked.untilTimestamp null, now it is 1650000000000",
        (*part, "--tag-items", "none"): 'asked.tagItems "auto", now it is "none"',
        (*part, "--generations", "all"): 'asked.generations "auto", now it is "all"',
    }.items():
        found = run(*words, "json", *more).document["stores"]
        assert [one["exitStatus"] for one in found] == [4, 4]
        assert told in found[0]["failure"]
    again = run(*words, "text", *part, "-v")
    assert (again.status, again.out.count("(by an earlier run)")) == (0, 4)


@pytest.mark.full
def test_a_result_of_a_log_that_has_grown_is_not_taken(run: Runner, fleet: Path, tmp_path: Path) -> None:
    words = ("rebuild", fleet / "[ad]" / "store", "--out", tmp_path / "out", *LOCAL, "--resume")
    assert run(*words).status == 0
    _grow(fleet / "a/store")
    found = run(*words, "--format", "json").document["stores"]
    assert [one["exitStatus"] for one in found] == [4, 0]
    assert "log.end" in found[0]["failure"]


@pytest.mark.full
def test_findings_of_an_earlier_run_count(run: Runner, fleet: Path, tmp_path: Path) -> None:
    path = next((fleet / "a/store/commitlog").iterdir())
    path.write_bytes(path.read_bytes()[:700] + bytes(200) + path.read_bytes()[900:])
    words = ("rebuild", fleet / "[ad]" / "store", "--out", tmp_path / "out", *LOCAL, "--resume")
    for fail_on, status in (("error", 5), ("warning", 5), ("never", 0)):
        assert run(*words, "--fail-on", fail_on).status == status
    assert "1 result is not to be installed" not in run(*words).err  # it was said when it was made


def test_a_defect_of_the_tool_is_the_failure_of_one_store(
    run: Runner, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict_on = verify.verdict_on

    def question(session: Any, store: Any, *more: Any) -> Any:  # noqa: ANN401 - passed on
        if "/a/" in str(store.path):
            raise ZeroDivisionError("of nothing")
        if "/b/" in str(store.path):
            raise RefusedError(f"{store.path}: somebody holds it")
        if "/d/" in str(store.path):
            raise KeyboardInterrupt
        return verdict_on(session, store, *more)

    monkeypatch.setattr(verify, "verdict_on", question)
    done = run("verify", fleet / "*" / "store", "--format", "json")
    found = {Path(one["store"]).parent.name: one for one in done.document["stores"]}
    assert done.status == 130
    assert found["a"]["failure"].startswith("internal error: ZeroDivisionError: of nothing (run it alone")
    assert [found[name]["exitStatus"] for name in "abcd"] == [3, 4, 3, 130]
    assert "interrupted" in done.err


def test_warnings_name_their_store(run: Runner, fleet: Path) -> None:
    (fleet / "a/store/config/consumerOffset.json").write_text("{")
    (fleet / "a/store/config/consumerOffset.json.bak").write_text("{")
    done = run("topics", fleet / "[ad]" / "store", "--format", "json")
    first, second = done.document["stores"]
    assert (first["exitStatus"], second["warnings"]) == (1, [])
    assert all(
        f"warning: {one}" in done.err or f"{fleet}/a/store: {one}" in done.err for one in first["warnings"]
    )


@pytest.mark.full
def test_exports_leave_bad_stores_out(run: Runner, fleet: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "out"
    words = (fleet / "[acd]" / "store", fleet / "d/store/index", "--out", out, "--format", "csv")
    assert run("export", *words).status == 3
    report = json.loads((out / "_export.json").read_text())
    assert defects("export", report) == []
    assert [Path(one["store"]).parent.name for one in report["leftOut"]] == ["c", "store"]
    assert sorted(path.name for path in out.iterdir()) == ["_export.json", "store=a-store", "store=d-store"]
    nothing = run("export", fleet / "c/store", fleet / "x", "--out", tmp_path / "none")
    assert (nothing.status, (tmp_path / "none").exists()) == (3, False)


@pytest.mark.full
def test_exports_go_on_where_they_ended(run: Runner, fleet: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "out"
    words = ("export", fleet / "*" / "store", "--out", out, "--format", "ndjson", "--resume")
    first = run(*words)
    assert [row[:2] for row in rows(first.out)] == [["3", "c"], ["0", "a"], ["0", "b"], ["0", "d"]]
    assert {path.name for path in out.iterdir()} == {"store=a-store", "store=b-store", "store=d-store"}
    shutil.rmtree(out / "store=b-store")
    kept = state_of(out / "store=a-store")
    again = run(*words)
    assert ["earlier run" in row[2] for row in rows(again.out)] == [False, True, False, True]
    assert state_of(out / "store=a-store") == kept
    assert (out / "store=b-store" / "_export.json").is_file()
    otherwise = {
        ("--columns", "topic"): "columns",
        ("--topic", "TopicTest"): 'asked.messages.topic null, now it is "TopicTest"',
        ("--to-offset", "9000"): "asked.toOffset null, now it is 9000",
        ("--decompress",): "asked.decompress",
    }
    for more, told in otherwise.items():
        found = rows(run(*words, *more).out)
        assert [row[0] for row in found] == ["4", "4", "4", "3"]
        assert told in found[0][2]
    _grow(fleet / "a/store")
    found = rows(run(*words).out)
    assert [row[:2] for row in found] == [["4", "a"], ["3", "c"], ["0", "b"], ["0", "d"]]
    assert "logs.end" in found[0][2]
    assert "delete it" in found[0][2]
    assert run("export", fleet / "a/store", "--out", tmp_path / "one", "--resume").status == 2


def _grow(store: Path) -> None:
    """Append to a log what its last record says once more."""
    log = open_store(store)
    end = find_log_end(FoundEdge.of(log))
    assert end.last is not None
    segment = log.commitlog.segment_at(end.last.physical_offset)
    assert segment is not None
    raw = bytearray(end.last.raw)
    at = HEAD_OFFSETS[0]["physicalOffset"]
    raw[at : at + 8] = end.end.to_bytes(8, "big")
    with Path(str(segment.path)).open("r+b") as file:
        file.seek(end.end - segment.start)
        file.write(raw)


def _differing(one: Path, other: Path, reports: Collection[str] = ("rebuild.json",)) -> list[str]:
    found = [(path, root) for root in (one, other) for path in root.rglob("*") if path.is_file()]
    names = {str(path.relative_to(root)) for path, root in found if path.name not in reports}
    return [name for name in names if (one / name).read_bytes() != (other / name).read_bytes()]


def _steady(entry: dict[str, Any]) -> dict[str, Any]:
    """Return what of a store does not depend on when and by which run it was made."""
    document = entry["document"] and {
        name: value for name, value in entry["document"].items() if name not in {"seconds", "stages"}
    }
    return {"store": entry["store"], "status": entry["exitStatus"], "document": document}


@pytest.mark.full
def test_all_fixtures_are_asked_as_they_are_alone(run: Runner) -> None:
    names = ("batch-5.5.1", "crash-5.5.1", "ext-5.5.1")
    found = run("verify", *(STORES / name for name in names), "--format", "json").document
    for name, one in zip(names, found["stores"], strict=True):
        alone = run("verify", STORES / name, "--format", "json")
        assert (one["document"], one["exitStatus"]) == (alone.document, alone.status)


@pytest.mark.full
@pytest.mark.spark
def test_one_session_of_spark_serves_all(run: Runner, fleet: Path) -> None:
    words = ("verify", fleet / "*" / "store", "--format", "json")
    spark = run(*words, "--engine", "spark", "--jobs", "2").document
    assert [_steady(one) for one in spark["stores"]] == [
        _steady(one) for one in run(*words).document["stores"]
    ]
    assert spark["exitStatus"] == 3


def _interrupt(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("verify",), "interrupted"),
        (("topics",), "interrupted"),
        (("rebuild", "--compare", *LOCAL), "interrupted"),
        (("rebuild", "--out", "OUT", *LOCAL), "interrupted; nothing was written"),
        (("rebuild", "--out", "OUT", "--resume", *LOCAL), "interrupted; nothing was written"),
        (("export", "--out", "OUT"), "interrupted; nothing was written"),
        (("export", "--out", "OUT", "--resume"), "interrupted; nothing was written"),
    ],
    ids=" ".join,
)
def test_an_interrupt_before_the_first_store_says_what_is_true(
    run: Runner,
    fleet: Path,
    words: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rmqtool.cli.fleet.gathered", _interrupt)
    out = tmp_path / "out"
    command, *options = [str(out) if word == "OUT" else word for word in words]
    done = run(command, fleet / "*" / "store", *options)
    assert (done.status, done.err) == (130, f"error: {told}\n")
    assert not out.exists()


@pytest.mark.parametrize("command", ["rebuild", "export"])
def test_an_interrupt_amid_the_stores_tells_of_results_that_are_there(
    run: Runner, fleet: Path, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command == "export":
        pytest.importorskip("pyarrow")
    out, left = tmp_path / "out", [0]
    words = (command, fleet / "[ad]" / "store", "--out", out, "--resume", *LOCAL)
    asked: Any = MakingQuestion.__call__

    def interrupted(self: Any, *arguments: Any) -> Any:  # noqa: ANN401 - passed on
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return asked(self, *arguments)

    monkeypatch.setattr(MakingQuestion, "__call__", interrupted)
    assert "error: interrupted; nothing was written\n" in run(*words).err
    left[0] = 1
    made = f"error: interrupted; complete results are in {out}; --resume continues\n"
    assert made in run(*words).err
    monkeypatch.setattr("rmqtool.cli.fleet.gathered", _interrupt)
    assert run(*words).err == made


def test_topics_say_that_they_were_interrupted(
    run: Runner, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqtool.cli.topics._add_up", _interrupt)
    done = run("topics", fleet / "[ad]" / "store")
    assert (done.status, done.err) == (130, "error: interrupted\n")
