"""JUnit XML: the shape CI servers accept, failures where the exit status fails, nothing passed unseen."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from rmqtool.check import Examined, VerifyReport
from rmqtool.commands.verify import Baseline, Verdict, identity
from rmqtool.findings import FailOn, Finding, FindingLog, Severity, Structure, codes
from rmqtool.projection import json_object
from rmqtool.report.ci_reports import junit
from tests.report.verdicts import ABORT, CRC, MISSING, TAIL, verdict

# Element -> (attributes needed, attributes allowed, children in their order), as Jenkins has it.
SHAPE = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "disabled", "errors"}, ["testsuite"]),
    "testsuite": (
        {"name", "tests"},
        {"failures", "errors", "time", "disabled", "skipped", "timestamp", "hostname", "id", "package"},
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "properties": (set(), set(), ["property"]),
    "property": ({"name", "value"}, set(), []),
    "testcase": (
        {"name"},
        {"assertions", "time", "classname", "status"},
        ["skipped", "error", "failure", "system-out", "system-err"],
    ),
    "failure": (set(), {"type", "message"}, []),
    "error": (set(), {"type", "message"}, []),
    "skipped": (set(), set(), []),
    "system-out": (set(), set(), []),
}


def parse(*verdicts: Verdict) -> ET.Element:
    root = ET.fromstring(junit(verdicts))
    check_shape(root)
    return root


def check_shape(element: ET.Element) -> None:
    needed, allowed, children = SHAPE[element.tag]
    assert needed <= set(element.attrib) <= needed | allowed
    places = [children.index(child.tag) for child in element]
    assert places == sorted(places)
    for child in element:
        check_shape(child)


def outcomes(root: ET.Element) -> dict[str, str]:
    """Return name and outcome of every case: the tag of its first child, or "passed"."""
    found = {}
    for case in root.iter("testcase"):
        first = case[0].tag if len(case) else "passed"
        found[case.attrib["name"].split()[0]] = "passed" if first == "system-out" else first
    return found


def test_a_code_is_a_case_that_fails_with_the_exit_status() -> None:
    found = outcomes(parse(verdict(CRC, MISSING, ABORT, TAIL)))
    assert found == {
        "CL-CRC": "failure",
        "CL-TAIL-ZERO": "passed",
        "CQ-MISSING-MSG": "failure",
        "ST-ABORT": "passed",
        "nothing": "passed",
    }


@pytest.mark.parametrize(("fail_on", "outcome"), [("warning", "failure"), ("error", "passed")])
def test_fail_on_decides_about_warnings(fail_on: str, outcome: str) -> None:
    assert outcomes(parse(verdict(ABORT, fail_on=FailOn(fail_on))))["ST-ABORT"] == outcome


def test_nothing_fails_with_fail_on_never() -> None:
    root = parse(verdict(CRC, fail_on=FailOn.NEVER))
    assert (root.attrib["failures"], outcomes(root)["CL-CRC"]) == ("0", "passed")


def test_counts_are_those_of_the_cases() -> None:
    root = parse(verdict(CRC, CRC, ABORT), verdict(Finding(code=codes.RM_INTERNAL)))
    first, second = root
    assert (root.attrib["tests"], root.attrib["failures"], root.attrib["errors"]) == ("8", "1", "1")
    assert (first.attrib["tests"], first.attrib["failures"]) == (str(len(first.findall("testcase"))), "1")
    assert second.attrib["errors"] == "1"
    assert "2 x body checksum differs" in junit([verdict(CRC, CRC)]).decode()


def test_only_what_was_examined_can_pass() -> None:
    report = VerifyReport("/data/store/index", 1, FindingLog(), Examined(index_files=1))
    classes = [case.attrib["classname"] for case in parse(Verdict(report)).iter("testcase")]
    assert sorted(classes) == ["rmqtool.index", "rmqtool.store"]


def test_known_findings_are_skipped() -> None:
    one = verdict(CRC, MISSING)
    baseline = Baseline()
    baseline.listed[identity(json_object(CRC))] = 1
    one.comparison = baseline.compare(one.report.findings)
    root = parse(one)
    assert outcomes(root)["CL-CRC"] == "skipped"
    assert outcomes(root)["CQ-MISSING-MSG"] == "failure"
    assert root[0].attrib["skipped"] == "1"


def test_what_is_only_counted_fails_as_well() -> None:
    """The kept finding is a warning; the error after it is beyond the cap."""
    warning = Finding(code=codes.IO_UNREADABLE, severity_override=Severity.WARNING)
    error = Finding(code=codes.IO_UNREADABLE, structure_override=Structure.COMMITLOG)
    one = verdict(warning, error, cap=1)
    assert one.status == 5
    assert outcomes(parse(one))["findings"] == "failure"


def test_hostile_text_is_harmless() -> None:
    data = junit([verdict(MISSING)])
    text = data.decode()
    assert not set(text) & {"\x1b", "\u202e", "\ufffe"}
    failure = ET.fromstring(data).find(".//failure")
    assert failure is not None
    assert str(failure.text).startswith("[red]x\\x1b[2J\\u202e<&\\ufffe\\x80|/0 #3: ")


def test_a_store_that_could_not_be_looked_at_is_a_suite_with_an_error() -> None:
    root = ET.fromstring(junit([verdict()], {"/data/\x1bother": "no \ufffestore"}))
    check_shape(root)
    first, second = root
    assert (first.get("name"), second.get("name")) == ("/data/store", "/data/\\x1bother")
    assert (root.get("errors"), second.get("tests"), second.get("errors")) == ("1", "1", "1")
    assert second[0][0].get("message") == "no \\ufffestore"
