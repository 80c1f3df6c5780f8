"""SARIF 2.1.0: structure as the OASIS Standard (with errata 01) has it, places in bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rmqtool.commands.verify import Baseline, identity
from rmqtool.findings import CATALOG, Finding, Severity, codes
from rmqtool.projection import json_object
from rmqtool.report.ci_reports import sarif
from tests.report.verdicts import ABORT, CRC, LOG_FILE, MISSING, TAIL, verdict

if TYPE_CHECKING:
    from rmqtool.commands.verify import Verdict

# Object -> property -> its type, or the object(s) it holds; "!" marks the ones that must be there.
# Every object is closed: the schema says additionalProperties false.
SHAPE: dict[str, dict[str, Any]] = {
    "log": {"$schema": str, "version!": str, "runs!": ["run"]},
    "run": {
        "tool!": "tool",
        "invocations": ["invocation"],
        "originalUriBaseIds": {"*": "artifactLocation"},
        "results": ["result"],
        "properties": dict,
    },
    "tool": {"driver!": "driver"},
    "driver": {"name!": str, "version": str, "semanticVersion": str, "rules": ["rule"]},
    "rule": {
        "id!": str,
        "shortDescription": "message",
        "fullDescription": "message",
        "help": "message",
        "defaultConfiguration": "configuration",
        "properties": dict,
    },
    "configuration": {"level": str},
    "message": {"text!": str},
    "invocation": {"executionSuccessful!": bool, "exitCode": int},
    "artifactLocation": {"uri": str, "uriBaseId": str},
    "result": {
        "ruleId": str,
        "ruleIndex": int,
        "kind": str,
        "level": str,
        "message!": "message",
        "locations": ["location"],
        "partialFingerprints": dict,
        "baselineState": str,
        "properties": dict,
    },
    "location": {"physicalLocation": "physicalLocation", "logicalLocations": ["logicalLocation"]},
    "physicalLocation": {"artifactLocation": "artifactLocation", "region": "region"},
    "region": {"byteOffset": int, "byteLength": int},
    "logicalLocation": {"fullyQualifiedName": str, "kind": str},
}


def check(value: Any, shape: Any) -> None:  # noqa: ANN401 - any JSON
    if isinstance(shape, list):
        assert isinstance(value, list)
        for one in value:
            check(one, shape[0])
    elif isinstance(shape, dict):
        for one in value.values():
            check(one, shape["*"])
    elif isinstance(shape, str):
        properties = SHAPE[shape]
        names = {name.removesuffix("!"): kind for name, kind in properties.items()}
        assert set(value) <= set(names), shape
        assert {name[:-1] for name in properties if name.endswith("!")} <= set(value), shape
        for name, one in value.items():
            check(one, names[name])
    else:
        assert type(value) is shape


def runs(*verdicts: Verdict) -> list[dict[str, Any]]:
    log = json.loads(sarif(verdicts))
    check(log, "log")
    assert log["version"] == "2.1.0"
    found: list[dict[str, Any]] = log["runs"]
    for run in found:
        check_run(run)
    return found


def check_run(run: dict[str, Any]) -> None:
    """Check what the specification demands beyond the schema."""
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for base in run["originalUriBaseIds"].values():
        assert urlsplit(base["uri"]).scheme == "file"  # 3.14.14: absolute, and ends with a slash
        assert base["uri"].endswith("/")
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]  # 3.27.6
        assert result["level"] in {"none", "note", "warning", "error"}  # 3.27.10
        assert result["kind"] in {"fail", "informational"}  # 3.27.9
        assert (result["kind"] == "fail") == (result["level"] != "none")
        assert result["message"]["text"]
        for location in result.get("locations", ()):
            artifact = location.get("physicalLocation", {}).get("artifactLocation")
            if artifact is not None:
                assert artifact["uri"].isascii()
                assert ("uriBaseId" in artifact) != bool(urlsplit(artifact["uri"]).scheme)


def test_every_code_can_be_told() -> None:
    (run,) = runs(verdict(*(Finding(code=entry) for entry in CATALOG.values())))
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(CATALOG)
    levels = {result["ruleId"]: result["level"] for result in run["results"]}
    names = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "none"}
    assert levels == {code: names[entry.severity] for code, entry in CATALOG.items()}


def test_a_place_is_a_range_of_bytes_in_a_file_of_the_store() -> None:
    (run,) = runs(verdict(CRC, ABORT))
    assert run["originalUriBaseIds"] == {"STORE": {"uri": "file:///data/store/"}}
    first, second = run["results"]
    assert first["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": LOG_FILE, "uriBaseId": "STORE"},
                "region": {"byteOffset": 1234, "byteLength": 200},
            },
            "logicalLocations": [{"fullyQualifiedName": "Orders/1", "kind": "resource"}],
        }
    ]
    assert first["properties"] == {"physicalOffset": 1234, "queueOffset": 7, "expected": 1, "observed": 2}
    assert "region" not in second["locations"][0]["physicalLocation"]


def test_names_of_files_are_bytes_in_a_uri() -> None:
    (run,) = runs(
        verdict(
            Finding(code=codes.CL_CRC, file="commitlog/a b%\udcff#?"),
            Finding(code=codes.CL_CRC, file="/mnt/log/00000000000000000000", position=0),
        )
    )
    inside, outside = (
        result["locations"][0]["physicalLocation"]["artifactLocation"] for result in run["results"]
    )
    assert inside == {"uri": "commitlog/a%20b%25%FF%23%3F", "uriBaseId": "STORE"}
    assert outside == {"uri": "file:///mnt/log/00000000000000000000"}


def test_one_run_a_store_with_its_exit_code() -> None:
    found = runs(verdict(CRC), verdict(MISSING), verdict())
    assert [run["invocations"][0]["exitCode"] for run in found] == [5, 1, 0]
    assert found[2]["results"] == []
    assert found[0]["properties"]["examined"]["records"] == 163


def test_baseline_state_is_told_only_with_a_baseline() -> None:
    one = verdict(CRC, MISSING)
    assert all("baselineState" not in result for result in runs(one)[0]["results"])
    baseline = Baseline()
    baseline.listed[identity(json_object(CRC))] = 1
    one.comparison = baseline.compare(one.report.findings)
    assert [result["baselineState"] for result in runs(one)[0]["results"]] == ["unchanged", "new"]


def test_fingerprint_is_the_place_and_not_the_sentence() -> None:
    other = Finding(code=CRC.code, **{**_place(CRC), "message": "said better"})
    moved = Finding(code=CRC.code, **{**_place(CRC), "position": 1235})
    results = runs(verdict(CRC, other, moved))[0]["results"]
    first, second, third = (result["partialFingerprints"]["rmqtoolPlace/v1"] for result in results)
    assert first == second != third


def test_hostile_text_is_harmless() -> None:
    text = sarif([verdict(MISSING, TAIL)]).decode()
    assert not set(text) & {"\x1b", "\u202e"}


def _place(finding: Finding) -> dict[str, Any]:
    names = ("file", "position", "topic", "queue_id", "queue_offset", "physical_offset")
    return {name: getattr(finding, name) for name in names}


def test_a_rule_advises_what_its_findings_advise() -> None:
    """On a damaged log the catalogue's rebuild would do harm: `check.remedies` says so in the findings."""
    found = replace(MISSING, remedy_override="Compare with a replica first.")
    (run,) = runs(verdict(CRC, found))
    helps = {rule["id"]: rule["help"]["text"] for rule in run["tool"]["driver"]["rules"]}
    assert helps[MISSING.code.code].endswith("Remedy: Compare with a replica first.")
    assert MISSING.code.remedy not in helps[MISSING.code.code]
