"""Verdicts as JUnit XML, which CI servers show as tests.

A suite is a store, which fails as a whole where nothing could be examined. A case is a code with findings, or
a part of the store without findings. Codes without findings are not passed tests: a lower level may not have
looked for them.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from rmqtool.findings import Finding, Structure, exit_status
from rmqtool.findings.codes import RM_INTERNAL
from rmqtool.projection import json_object
from rmqtool.report.sentences import finding_line
from rmqtool.report.terminal import escape_text
from rmqtool.report.verify_headline import next_command, verdict_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqtool.commands.verify.verdict import Verdict

_NO_XML = re.compile("[\ufffe\uffff]")
_FAILED = ("failure", "error")


def junit(verdicts: Sequence[Verdict], failures: Mapping[str, str] | None = None) -> bytes:
    """Return the XML document: verdicts of the examined stores, and failures of the others by path."""
    root = ET.Element("testsuites", name="rmqtool verify")
    root.extend(_suite(verdict) for verdict in verdicts)
    root.extend(_failed_suite(store, why) for store, why in (failures or {}).items())
    totals: Counter[str] = Counter()
    for suite in root:
        totals.update({name: int(suite.attrib[name]) for name in ("tests", "failures", "errors")})
    root.attrib.update({name: str(totals[name]) for name in ("tests", "failures", "errors")})
    root.set("time", _seconds(sum(_time(verdict) for verdict in verdicts)))
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _suite(verdict: Verdict) -> ET.Element:
    report = verdict.report
    suite = ET.Element("testsuite", name=_text(escape_text(report.store)), time=_seconds(_time(verdict)))
    properties = ET.SubElement(suite, "properties")
    facts = {"level": report.level, "result": report.result, "exitStatus": int(verdict.status)}
    said = {"verdict": verdict_line(verdict), "next": next_command(verdict) or ""}
    for name, value in {**facts, **said, **json_object(report.examined)}.items():
        ET.SubElement(properties, "property", name=name, value=_text(str(value)))
    cases = _cases(verdict)
    suite.extend(cases)
    suite.set("tests", str(len(cases)))
    for attribute, tag in zip(("failures", "errors", "skipped"), (*_FAILED, "skipped"), strict=True):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    return suite


def _failed_suite(store: str, why: str) -> ET.Element:
    suite = ET.Element("testsuite", name=_text(escape_text(store)), time=_seconds(0))
    suite.attrib.update(tests="1", failures="0", errors="1", skipped="0")
    case = _new_case(Structure.STORE, "could be examined")
    ET.SubElement(case, "error", message=_text(escape_text(why)), type="exit-status")
    suite.append(case)
    return suite


def _cases(verdict: Verdict) -> list[ET.Element]:
    found: dict[str, list[Finding]] = {}
    for finding in verdict.report.findings:
        found.setdefault(finding.code.code, []).append(finding)
    cases = [_case(findings, verdict) for findings in found.values()]
    touched = {finding.structure for findings in found.values() for finding in findings}
    cases += [_new_case(one, "nothing found") for one in _examined(verdict) if one not in touched]
    cases.sort(key=lambda case: (case.attrib["classname"], case.attrib["name"]))
    if verdict.status and not any(case.find(tag) is not None for case in cases for tag in _FAILED):
        cases.append(_new_case(Structure.STORE, "findings that are only counted"))
        message = "findings that are counted but not listed fail; raise --max-findings"
        ET.SubElement(cases[-1], "failure", message=message, type="exit-status")
    return cases


def _examined(verdict: Verdict) -> Iterator[Structure]:
    examined = verdict.report.examined
    yield Structure.STORE
    if examined.commitlog_files:
        yield Structure.COMMITLOG
    if examined.consume_queues:
        yield Structure.CONSUMEQUEUE
    if examined.index_files:
        yield Structure.INDEX


def _case(found: Sequence[Finding], verdict: Verdict) -> ET.Element:
    """Return the case of one code: failed by ``--fail-on``, skipped when all is known, else passed."""
    code = found[0].code
    case = _new_case(found[0].structure, f"{code.code} {code.title}")
    log = verdict.report.findings if verdict.comparison is None else verdict.comparison.new
    count = log.counts.get(code.code, 0)
    if not count:
        ET.SubElement(case, "skipped").text = f"{len(found)} x {code.title}, known by the baseline"
        return case
    fresh = [finding for finding in log if finding.code is code]
    lines = "".join(finding_line(finding) + "\n" for finding in fresh)
    if exit_status(fresh, verdict.fail_on):
        tag = _FAILED[code is RM_INTERNAL]
        failure = ET.SubElement(case, tag, message=_text(f"{count} x {code.title}"), type=code.code)
        failure.text = _text(f"{lines}broker: {code.broker_effect}\nremedy: {found[0].remedy}\n")
    else:
        ET.SubElement(case, "system-out").text = _text(lines)
    return case


def _new_case(structure: Structure, name: str) -> ET.Element:
    return ET.Element("testcase", classname=f"rmqtool.{structure.value}", name=name, time="0.000")


def _time(verdict: Verdict) -> float:
    return sum(verdict.report.seconds.values())


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _text(text: str) -> str:
    """Return text, escaped already, without the two characters that XML cannot contain."""
    return _NO_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
