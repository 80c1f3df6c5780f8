"""The files beside verify's data: written whole or not at all, read strictly, never in the evidence."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from rmqtool.formats.consumequeue import UNIT_SIZE
from tests.cli.spoiling import LOG_FILE, spoil_log, spoil_queue, state_of
from tests.damage.cases import load_cases
from tests.damage.running import damaged_copy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run


@pytest.mark.parametrize("option", ["-o", "--report=junit:", "--report=sarif:", "--manifest=write:"])
def test_no_output_lies_in_the_evidence_and_a_manifest_replaces_no_other(
    run: Callable[..., Run], plain_copy: Path, tmp_path: Path, option: str
) -> None:
    before = state_of(plain_copy)
    for path in (plain_copy / "inside", plain_copy / "index" / "inside"):
        words = [option, path] if option == "-o" else [f"{option}{path}"]
        done = run("verify", plain_copy, *words)
        assert (done.status, done.out) == (4, "")
    assert state_of(plain_copy) == before
    taken = tmp_path / "taken"
    taken.write_text("mine")
    words = [option, taken] if option == "-o" else [f"{option}{taken}"]
    is_proof = option.startswith("--manifest")
    assert run("verify", plain_copy, *words).status == (4 if is_proof else 0)
    assert (taken.read_text() == "mine") is is_proof


def test_evidence_is_left_alone(run: Callable[..., Run], plain_copy: Path, tmp_path: Path) -> None:
    spoil_queue(plain_copy)
    before = state_of(plain_copy)
    reports = ["--report", f"junit:{tmp_path / 'j'}", "--report", f"sarif:{tmp_path / 's'}"]
    run("verify", plain_copy, *reports, "--manifest", f"write:{tmp_path / 'm'}", "--predict-recovery=all")
    assert state_of(plain_copy) == before


def test_output_file_instead_of_standard_output(
    run: Callable[..., Run], plain_copy: Path, tmp_path: Path
) -> None:
    spoil_queue(plain_copy)
    shown = run("verify", plain_copy, "--format", "ndjson")
    written = run("verify", plain_copy, "--format", "ndjson", "-o", tmp_path / "out")
    assert (written.status, written.out) == (1, "")
    assert (tmp_path / "out").read_text() == shown.out


def test_reports_agree_with_the_exit_status(
    run: Callable[..., Run], plain_copy: Path, tmp_path: Path
) -> None:
    spoil_log(plain_copy)
    junit, sarif = tmp_path / "junit.xml", tmp_path / "verify.sarif"
    done = run("verify", plain_copy, "--report", f"junit:{junit}", "--report", f"sarif:{sarif}")
    assert done.status == 5
    assert int(ET.parse(junit).getroot().attrib["failures"]) >= 1
    (found,) = json.loads(sarif.read_bytes())["runs"]
    assert found["invocations"][0]["exitCode"] == 5
    crc = next(one for one in found["results"] if one["ruleId"] == "CL-CRC")
    assert crc["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == LOG_FILE


def test_no_report_is_left_of_a_run_that_fails(run: Callable[..., Run], tmp_path: Path) -> None:
    done = run("verify", tmp_path / "nothing", "--report", f"junit:{tmp_path / 'j'}")
    assert done.status == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format_name", ["json", "ndjson"])
def test_known_findings_do_not_fail(
    run: Callable[..., Run], plain_copy: Path, tmp_path: Path, format_name: str
) -> None:
    path = spoil_queue(plain_copy)
    baseline = tmp_path / "known"
    run("verify", plain_copy, "--format", format_name, "-o", baseline)
    known = run("verify", plain_copy, "--baseline", baseline, "--format", "json")
    assert known.status == known.document["exitStatus"] == 0
    assert known.document["result"] == "derived-damage"
    assert all(one["known"] for one in known.document["findings"])
    data = bytearray(path.read_bytes())
    data[3 * UNIT_SIZE + 7] ^= 1
    path.write_bytes(data)
    new = run("verify", plain_copy, "--baseline", baseline, "--format", "json")
    assert new.status == 1
    assert {one["queueOffset"] for one in new.document["findings"] if not one["known"]} >= {3}


def test_manifest_is_written_checked_and_believed_by_sha256sum(
    run: Callable[..., Run], plain_copy: Path, tmp_path: Path
) -> None:
    manifest = tmp_path / "SHA256SUMS"
    assert run("verify", plain_copy, "--level", 0, "--manifest", f"write:{manifest}").status == 0
    subprocess.run(["sha256sum", "--quiet", "-c", manifest], cwd=plain_copy, check=True)
    assert run("verify", plain_copy, "--level", 0, "--manifest", f"check:{manifest}").status == 0
    spoil_queue(plain_copy)
    done = run("verify", plain_copy, "--level", 0, "--manifest", f"check:{manifest}", "--format", "json")
    assert (done.status, done.document["counts"]["MF-MISMATCH"]) == (1, 1)


def test_no_rule_advises_what_would_lose_messages(run: Callable[..., Run], tmp_path: Path) -> None:
    """On DMG/CL-GAP-1 a rebuild takes messages from consumers: no rule advises it."""
    case = next(one for one in load_cases() if one.code == "CL-GAP")
    root, report = damaged_copy(case, tmp_path), tmp_path / "report.sarif"
    found = run("verify", root, "-c", root / "broker.conf", "--report", f"sarif:{report}")
    assert found.status == 5
    rules = json.loads(report.read_text())["runs"][0]["tool"]["driver"]["rules"]
    helps = {rule["id"]: rule["help"]["text"] for rule in rules}
    assert "Compare with a replica first" in helps["CQ-DANGLING"]
    advice = [text.partition("Remedy: ")[2] for text in helps.values()]
    assert not [one for one in advice if "Rebuild the" in one]
    explained = run("verify", "--explain", "CQ-DANGLING").out
    assert "damaged, too, compare with a replica first" in " ".join(explained.split())
