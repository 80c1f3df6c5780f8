"""The schemas are what the classes say, and all outputs are what the schemas say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft4Validator, Draft202012Validator

from tests.damage.cases import Case, load_cases, one_of_each_code
from tests.damage.running import damaged_copy
from tests.house.schemas import NAMES, SCHEMAS, schema_files
from tests.salvage.incidents import bit_rot
from tests.schemas.validating import COMMANDS, defects, published, wrong_outputs
from tests.store.fixture_stores import NEWEST_ROOTS, fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runs import Run

    Runner = Callable[..., Run]

PLAIN = fixture("plain-5.3.3")
_ALL = ("-t", "TopicTest", "--queue", "0", "-b", "2000-01-01", "-e", "now")
QUICK_STORES = {"ext-5.5.1"}
CASES = one_of_each_code()[::4]
"""Some, as the shape of a document depends on the code of a finding in no way."""
SARIF = json.loads((Path(__file__).parent / "sarif-schema-2.1.0.json").read_text())


def _all(values: list[Any], quick: set[str]) -> list[Any]:
    return [
        pytest.param(one, marks=[] if _name(one) in quick else [pytest.mark.soak], id=_name(one))
        for one in values
    ]


def _name(value: Case | Path) -> str:
    return value.name if isinstance(value, Path) else f"{value.code}: {value.name}"


def test_files_are_what_the_classes_say() -> None:
    """If this fails: python -m tests.house.readme."""
    found = {path.name: path.read_text() for path in SCHEMAS.iterdir()}
    assert found == schema_files()


@pytest.mark.few(8)
@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_schema_of_2020_12(name: str) -> None:
    Draft202012Validator.check_schema(published(name))
    version = published(name)["$id"].rpartition(":")[2]
    assert published(name)["title"].endswith(f"rmqtool.{name.removesuffix('-line')}/{version}")


@pytest.mark.full
@pytest.mark.parametrize("root", _all(NEWEST_ROOTS, QUICK_STORES))
def test_outputs_of_stores(root: Path, run: Runner) -> None:
    assert [one for name in COMMANDS for one in wrong_outputs(run, root, name)] == []


@pytest.mark.full
@pytest.mark.parametrize("case", _all(CASES, {"CL-HOLE: a page of zeros over records"}))
def test_outputs_of_damaged_stores(case: Case, tmp_path: Path, run: Runner) -> None:
    root = damaged_copy(case, tmp_path)
    given = [word for text in case.properties for word in ("-p", text)]
    assert [one for name in COMMANDS for one in wrong_outputs(run, root, name, *given)] == []
    sarif = tmp_path / "log.sarif"
    run("verify", root, "-q", "--report", f"sarif:{sarif}", *given)
    assert [one.message for one in Draft4Validator(SARIF).iter_errors(json.loads(sarif.read_text()))] == []


def _documents(run: Runner, *words: object) -> list[dict[str, Any]]:
    documents = [run(*words, "-q", "--format", "json").document]
    return documents + run(*words, "-q", "--format", "ndjson").objects


def test_outputs_of_other_commands(run: Runner, tmp_path: Path) -> None:
    other = fixture("plain-5.5.1")
    commands: dict[str, tuple[object, ...]] = {
        "diff": ("diff", PLAIN, other),
        "query": (
            "query",
            PLAIN,
            "-t",
            "TopicTest",
            "--queue",
            "0",
            "-b",
            "2000-01-01",
            "-e",
            "now",
            "-m",
            "0",
        ),
        "explain": ("explain", "CL-HOLE"),
        "decode-id": ("decode-id", "7F00000100002A9F000000000000014E", "7F0000010000123456780000000A0001"),
    }
    for name, words in commands.items():
        document, *lines = _documents(run, *words)
        assert defects(name, document) == []
        assert [one for line in lines for one in defects(f"{name}-line", line)] == []
        assert lines
    cut = run(
        "query",
        PLAIN,
        "-t",
        "TopicTest",
        "--queue",
        "0",
        "-b",
        "2000-01-01",
        "-e",
        "now",
        "--explain",
        "-q",
        "--format",
        "json",
    ).document
    assert defects("query", cut) == []
    out = tmp_path / "out"
    run("rebuild", PLAIN, "--out", out, "-q", "--engine", "local")
    assert defects("rebuild", json.loads((out / "rebuild.json").read_text()) | {"exitStatus": 0}) == []


def test_outputs_of_salvage(run: Runner, tmp_path: Path) -> None:
    root, out, plan = tmp_path / "damaged", tmp_path / "out", tmp_path / "plan.json"
    shutil.copytree(PLAIN, root)
    bit_rot(root)
    run("salvage", root, "--plan", plan, "-q")
    assert defects("salvage-plan", json.loads(plan.read_text())) == []
    told = run("salvage", root, "--apply", plan, "--out", out, "-q", "--format", "json").document
    assert defects("salvage", told) == []
    lines = (out / "salvage" / "lost.ndjson").read_text().splitlines()
    assert len(lines) == 4
    assert [one for line in lines for one in defects("salvage-lost-line", json.loads(line))] == []


@pytest.mark.full
def test_outputs_of_report_and_repair(run: Runner, tmp_path: Path) -> None:
    case = next(one for one in load_cases() if one.code == "CL-CRC")
    root = damaged_copy(case, tmp_path)
    given = [word for text in case.properties for word in ("-p", text)]
    assert defects("report", run("report", root, "-q", "--format", "json", *given).document) == []
    planned = run("repair", root, "--plan", "-q", "--format", "json", *given).document
    assert defects("repair", planned) == []


def test_outputs_of_carve(run: Runner, tmp_path: Path) -> None:
    data = (PLAIN / "commitlog/00000000000000000000").read_bytes()
    body = data.find(b"\xda\xa3\x20\xa7", 100) + 90
    (tmp_path / "image").write_bytes(data[:body] + b"\xff" + data[body + 1 :])
    out = tmp_path / "out"
    document = run("carve", tmp_path / "image", "--out", out, "-q", "--format", "json").document
    assert defects("carve", document) == []
    assert defects("carve", json.loads((out / "carve/carve.json").read_text())) == []
    lines = [json.loads(line) for line in (out / "lost+found/records.ndjson").read_text().splitlines()]
    assert lines
    assert [one for line in lines for one in defects("loose-line", line)] == []


def test_lines_of_lost_messages(run: Runner, tmp_path: Path) -> None:
    case = next(one for one in load_cases() if one.code == "CL-GAP")
    root, lost = damaged_copy(case, tmp_path), tmp_path / "lost.ndjson"
    run("rebuild", root, "--dry-run", "--engine", "local", "--lost", lost, "-q")
    lines = lost.read_text().splitlines()
    assert lines
    assert [one for line in lines for one in defects("lost-line", json.loads(line))] == []


def test_how_far_a_group_has_come_is_part_of_an_answer(run: Runner) -> None:
    words = ("query", PLAIN, *_ALL, "-m", "3", "--consumed-by", "GroupA", "--fail-on", "never")
    document, *lines = _documents(run, *words)
    assert [row["consumedBy"] for row in document["rows"]] == ["GroupA"] * 3
    assert defects("query", document) == []
    assert [one for line in lines for one in defects("query-line", line)] == []


def test_lines_of_progress(run: Runner) -> None:
    lines = run("verify", PLAIN, "--progress", "json").err.splitlines()
    assert [one for line in lines for one in defects("progress-line", json.loads(line))] == []
    assert lines


def test_a_baseline_is_part_of_the_document(run: Runner, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(run("verify", PLAIN, "-q", "--format", "json").out)
    document, *lines = _documents(run, "verify", PLAIN, "--baseline", baseline)
    assert "baseline" in document
    assert defects("verify", document) == []
    assert [one for line in lines for one in defects("verify-line", line)] == []


def test_what_a_schema_does_not_know_is_refused(run: Runner) -> None:
    document = run("verify", PLAIN, "-q", "--format", "json").document
    assert defects("verify", document | {"opinion": "fine"})
    assert defects("verify", document | {"level": "3"})


def test_schema_prints_them(run: Runner) -> None:
    assert run("schema").out.split() == sorted(NAMES)
    assert json.loads(run("schema", "verify").out)["title"] == "rmqtool.verify/2"
    wrong = run("schema", "nothing")
    assert wrong.status == 2
    assert "No schema 'nothing'" in wrong.err
