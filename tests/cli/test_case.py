"""``--case``: every run leaves a record of what was read, made and found; ``case verify`` checks it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from rmqtool.cli import main
from rmqtool.cli.group import ROOT
from rmqtool.cli.options import A_PATH, A_STORE
from rmqtool.commands.case import SEAL_BYTES, CaseDirectory, CaseOutcome, CaseRecord
from rmqtool.commands.case.recording import facts_now
from rmqtool.errors import EnvironmentFailureError
from tests.cli.conftest import STORES
from tests.schemas.validating import defects

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runs import Run

    Runner = Callable[..., Run]

RUNS = {
    "verify": ("STORE", "--level", "1", "--report", "junit:OUT"),
    "rebuild": ("STORE", "--out", "OUT", "--engine", "local"),
    "rebuild-index": ("STORE", "--out", "OUT", "--engine", "local"),
    "salvage": ("STORE", "--out", "OUT"),
    "carve": ("STORE/commitlog/00000000000000000000", "--out", "OUT"),
    "repair": ("STORE", "--only", "abort", "--yes"),
}


NOT_HASHED = {"case", "log_file", "scratch", "paths", "store_path", "store_paths", "images"}
"""Paths without a digest, or whose digest the command adds itself."""


def recorded(case: Path, number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((case / f"{number:04d}.json").read_bytes())
    return found


def contents(root: Path) -> dict[Path, tuple[str, int]]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {
        path: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in files
        if path.name != "lock"
    }


@pytest.mark.few(2)
@pytest.mark.parametrize("command", RUNS)
def test_a_run_leaves_a_record(run: Runner, command: str, plain_copy: Path, tmp_path: Path) -> None:
    if command == "repair":
        (plain_copy / "abort").write_bytes(b"77")
    before = contents(plain_copy)
    out, case = tmp_path / "out", tmp_path / "case"
    words = [word.replace("STORE", str(plain_copy)).replace("OUT", str(out)) for word in RUNS[command]]
    done = run(command, *words, "--case", case, "-p", "maxHashSlotNum=25")
    assert done.status in {0, 5}, done.err
    record = recorded(case)
    assert defects("case", record) == []
    assert (record["number"], record["previous"], record["outcome"]) == (1, None, "done")
    assert record["exitStatus"] == done.status
    assert record["run"]["command"][:2] == ["rmqtool", command]
    assert record["run"]["options"]["--property"] == {"value": ["maxHashSlotNum=25"], "origin": "given"}
    assert record["report"]["schema"].startswith(f"rmqtool.{command.removesuffix('-index')}/")
    read = {Path(one["path"]): one["sha256"] for one in record["inputs"]}
    wanted = {Path(words[0])} if command == "carve" else before.keys()
    assert read == {path: before[path][0] for path in wanted}
    made = {Path(one["path"]): one["sha256"] for one in record["outputs"]}
    now = contents(tmp_path)
    assert made.items() <= {path: digest for path, (digest, _) in now.items()}.items()
    if command == "repair":
        assert {path.name for path in made} >= {"abort", "journal.ndjson"}
        gone = [one["path"] for one in record["inputs"] if one["afterwards"] == "gone"]
        assert gone == [str(plain_copy / "abort")]
    else:
        assert made.keys() == {path for path in now if path == out or path.is_relative_to(out)} != set()
        assert contents(plain_copy) == before
    settings = {} if command == "carve" else record["settings"][0]["settings"]["maxHashSlotNum"]
    assert settings == ({} if command == "carve" else {"value": 25, "origin": "given"})
    checked = run("case", "verify", case, "--files", "--format", "json")
    assert defects("case-verify", checked.document) == []
    states = checked.document["files"]
    assert (checked.status, states.get("changed", 0), states.get("gone", 0)) == (0, 0, 0)
    assert states["unchanged"] >= len(made)


def three_runs(folder: Path) -> Path:
    for number in range(3):
        words = ("--level", "0", "-o", folder / f"report-{number}.txt", "-q", "--case", folder / "case")
        assert main(["verify", str(STORES / "plain-4.9.8"), *map(str, words)]) == 0
    return folder / "case"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_runs(tmp_path_factory.mktemp("three"))


@pytest.fixture
def case(three: Path, tmp_path: Path) -> Path:
    """Three records of three runs."""
    return Path(shutil.copytree(three, tmp_path / "case"))


def test_the_chain_holds_and_ordinary_tools_can_tell(run: Runner, case: Path) -> None:
    records = [recorded(case, number) for number in (1, 2, 3)]
    assert [one["previous"] for one in records] == [None, records[0]["sha256"], records[1]["sha256"]]
    for number, record in enumerate(records, 1):
        data = (case / f"{number:04d}.json").read_bytes()
        assert hashlib.sha256(data[:-SEAL_BYTES]).hexdigest() == record["sha256"]
    assert f"head -c -{SEAL_BYTES} " in run("help", "case").out
    done = run("case", "verify", case, "--head", records[1]["sha256"])
    assert done.status == 0
    assert done.out.splitlines()[-1].endswith(records[2]["sha256"])
    assert sorted(path.name for path in case.iterdir()) == [".lock", "0001.json", "0002.json", "0003.json"]


def _change(case: Path) -> None:
    path = case / "0002.json"
    path.write_bytes(path.read_bytes().replace(b'"exitStatus": 0', b'"exitStatus": 5', 1))


def _reseal(case: Path) -> None:
    path = case / "0002.json"
    body = path.read_bytes()[:-SEAL_BYTES].replace(b'"outcome": "done"', b'"outcome": "none"')
    digest = hashlib.sha256(body).hexdigest()
    path.write_bytes(body + f',\n "sha256": "{digest}"\n}}\n'.encode())


def _cut(case: Path) -> None:
    path = case / "0003.json"
    path.write_bytes(path.read_bytes()[:-20])


def _swap(case: Path) -> None:
    first, second = (case / f"000{number}.json" for number in (1, 2))
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("alter", "problem"),
    [
        (_change, "0002.json: has changed"),
        (_reseal, "0003.json: names "),
        (_cut, "0003.json: has no digest at its end"),
        (_swap, "0001.json: calls itself record 2"),
        (lambda case: (case / "0002.json").unlink(), "0003.json: record 2 is missing"),
        (lambda case: (case / "0001.json").unlink(), "0002.json: record 1 is missing"),
    ],
)
def test_what_was_altered_is_found(
    run: Runner, case: Path, alter: Callable[[Path], object], problem: str
) -> None:
    alter(case)
    done = run("case", "verify", case)
    assert done.status == 5
    assert re.search(rf" ERROR +{re.escape(problem)}", done.out)
    assert json.loads(run("case", "verify", case, "--format", "json").out)["result"] == "altered"


def test_a_chain_that_lost_its_end_is_told_by_a_digest_from_elsewhere(run: Runner, case: Path) -> None:
    last = recorded(case, 3)["sha256"]
    (case / "0003.json").unlink()
    assert run("case", "verify", case).status == 0
    done = run("case", "verify", case, "--head", last)
    assert (done.status, f" {last}: no record has this digest" in done.out) == (5, True)


def test_nothing_is_added_to_an_altered_case(run: Runner, case: Path, plain: Path) -> None:
    _cut(case)
    done = run("verify", plain, "--level", "0", "--case", case)
    assert done.status == 4
    assert "start another case" in done.err
    assert not (case / "0004.json").exists()


def test_files_that_differ_or_are_gone(run: Runner, tmp_path: Path) -> None:
    case = three_runs(tmp_path)
    (tmp_path / "report-0.txt").write_text("other")
    assert run("case", "verify", case).status == 0
    assert run("case", "verify", case, "--files", "--fail-on", "never").status == 0
    done = run("case", "verify", case, "--files")
    assert done.status == 1
    assert "report-0.txt: SHA-256 is " in done.out
    (tmp_path / "report-1.txt").unlink()
    done = run("case", "verify", case, "--files", "--format", "json")
    assert (done.status, done.document["files"]["gone"], done.document["files"]["changed"]) == (1, 1, 1)
    assert done.document["result"] == "files-differ"


@pytest.mark.few(2)
@pytest.mark.parametrize("place", ["store/commitlog/case", "out", "store", "out/case"])
def test_a_case_in_a_store_or_in_the_output_is_refused(
    run: Runner, place: str, plain_copy: Path, tmp_path: Path
) -> None:
    before = contents(plain_copy)
    words = ("rebuild", plain_copy, "--out", tmp_path / "out", "--engine", "local")
    done = run(*words, "--case", tmp_path / place)
    assert done.status == 4
    assert "nothing is written there" in done.err
    assert contents(plain_copy) == before
    assert not (tmp_path / "out").exists()


def test_a_directory_with_other_things_is_no_case(run: Runner, plain: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert run("verify", plain, "--case", tmp_path).status == 4
    assert run("case", "verify", tmp_path).status == 3
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("failure", "status", "outcome"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (EnvironmentFailureError("the disk is full"), 3, "failed"),
        (ZeroDivisionError("a defect"), 3, "crashed"),
    ],
)
def test_a_run_that_does_not_come_to_its_end(
    run: Runner,
    monkeypatch: pytest.MonkeyPatch,
    plain: Path,
    tmp_path: Path,
    failure: BaseException,
    status: int,
    outcome: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr("rmqtool.api.store.Store.verify", fail)
    assert run("verify", plain, "--case", tmp_path / "case").status == status
    record = recorded(tmp_path / "case")
    assert (record["outcome"], record["exitStatus"], record["report"]) == (outcome, status, None)
    assert (str(failure) or "interrupted") in record["message"]
    assert all(one["sha256"] for one in record["inputs"])
    assert run("case", "verify", tmp_path / "case", "--files").status == 0


def test_a_run_that_was_killed_leaves_no_record(run: Runner, case: Path, plain: Path) -> None:
    (case / ".attempt-1234abcd").write_bytes(b"half a record")
    (case / ".begun-1234abcd.json").write_bytes(b"{}")  # as earlier releases wrote it
    count = len(list(case.glob("0*.json")))
    assert run("case", "verify", case).status == 0
    assert run("verify", plain, "--level", "0", "--case", case).status == 0
    assert len(list(case.glob("0*.json"))) == count + 1
    assert not (case / ".attempt-1234abcd").exists()
    assert run("case", "verify", case).status == 0


def test_runs_at_once_do_not_break_the_chain(run: Runner, tmp_path: Path) -> None:
    def one_run(number: int) -> None:
        case = CaseDirectory(tmp_path / "case")
        facts = facts_now("1", ["rmqtool", str(number)], {})
        case.prepare()
        case.append(partial(_record_of, facts))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one_run, range(40)))
    done = run("case", "verify", tmp_path / "case", "--format", "json")
    assert done.status == 0
    records = done.document["records"]
    assert [one["number"] for one in records] == [*range(1, 41)]
    assert {one["command"][1] for one in records} == {str(number) for number in range(40)}


def _record_of(facts: Any, number: int, previous: str | None) -> CaseRecord:  # noqa: ANN401
    return CaseRecord(number, previous, facts, facts.started, CaseOutcome.DONE, 0)


@pytest.mark.parametrize("command", RUNS)
def test_every_path_that_a_command_takes_is_hashed_or_said_not_to_be(command: str) -> None:
    found = ROOT.get_command(click.Context(ROOT), command)
    assert found is not None
    assert "case" in {one.name for one in found.params}
    assert {one.name for one in found.params if one.type in {A_PATH, A_STORE}} <= NOT_HASHED


def test_a_part_of_a_store_is_recorded_with_the_log_beside_it(
    run: Runner, plain: Path, tmp_path: Path
) -> None:
    part = plain / "consumequeue/Orders"
    assert run("verify", part, "--level", "0", "--case", tmp_path / "case").status == 0
    read = {Path(one["path"]) for one in recorded(tmp_path / "case")["inputs"]}
    assert read == {*filter(Path.is_file, part.rglob("*")), *(plain / "commitlog").iterdir()}


def test_a_copy_of_a_case_is_a_case(run: Runner, case: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in case.glob("*.json"):
        shutil.copy(path, copy)
    assert run("case", "verify", copy).status == 0
