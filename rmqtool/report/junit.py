"""Verdicts as JUnit XML, which CI servers show as tests.

A suite is a store; a case is a code that was found, or a part of the store in which nothing was found. Codes
without findings are no passed tests: a lower level may not have looked for them.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from rmqtool.commands.verify.verdict import worst_status
from rmqtool.findings import FindingLog, Structure
from rmqtool.findings.places import RM_INTERNAL
from rmqtool.report.escaping import escape_text
from rmqtool.report.finding_text import finding_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.commands.verify.verdict import Verdict
    from rmqtool.findings import Finding

_NO_XML = re.compile("[\ufffe\uffff]")
_Group = list[tuple["Finding", bool]]


def junit(verdicts: Sequence[Verdict]) -> bytes:
    """Return the bytes of the XML document."""
    root = ET.Element("testsuites", name="rmqtool verify")
    for verdict in verdicts:
        root.append(_suite(verdict))
    totals: Counter[str] = Counter()
    for suite in root:
        totals.update({name: int(suite.attrib[name]) for name in ("tests", "failures", "errors")})
    root.attrib.update({name: str(totals[name]) for name in ("tests", "failures", "errors")})
    root.set("time", _seconds(sum(_time(verdict) for verdict in verdicts)))
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _suite(verdict: Verdict) -> ET.Element:
    report = verdict.report
    suite = ET.Element("testsuite", name=_text(report.store), time=_seconds(_time(verdict)))
    properties = ET.SubElement(suite, "properties")
    facts = {"level": report.level, "result": report.result, "exitStatus": int(worst_status([verdict]))}
    for name, value in {**facts, **report.examined.to_json()}.items():
        ET.SubElement(properties, "property", name=name, value=str(value))
    cases = _cases(verdict)
    suite.extend(cases)
    suite.set("tests", str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    return suite


def _cases(verdict: Verdict) -> list[ET.Element]:
    groups: dict[tuple[str, str], _Group] = {}
    for finding, known in verdict.findings():
        groups.setdefault((finding.structure.value, finding.code.code), []).append((finding, known))
    cases = [_case(structure, group, verdict) for (structure, _), group in groups.items()]
    touched = {structure for structure, _ in groups}
    cases += [
        ET.Element("testcase", classname=f"rmqtool.{one.value}", name="nothing found", time="0.000")
        for one in Structure
        if one.value not in touched
    ]
    return sorted(cases, key=lambda case: (case.attrib["classname"], case.attrib["name"]))


def _case(structure: str, group: _Group, verdict: Verdict) -> ET.Element:
    """Return the case of one code: failed by ``--fail-on``, skipped when all is known, else passed."""
    code = group[0][0].code
    case = ET.Element(
        "testcase", classname=f"rmqtool.{structure}", name=f"{code.code} {code.title}", time="0.000"
    )
    fresh = [finding for finding, known in group if not known]
    count = _count(verdict, code.code)
    lines = "".join(finding_line(finding) + "\n" for finding in fresh)
    message = f"{count or len(group)} x {code.title}"
    if not fresh and not count:
        ET.SubElement(case, "skipped", message=f"known: {message}")
    elif _fails(fresh, verdict):
        tag = "error" if code is RM_INTERNAL else "failure"
        failure = ET.SubElement(case, tag, message=_text(message), type=code.code)
        failure.text = _text(lines) + f"broker: {code.broker_effect}\nremedy: {code.remedy}\n"
    else:
        ET.SubElement(case, "system-out").text = _text(lines)
    return case


def _count(verdict: Verdict, code: str) -> int:
    """Return how many findings of a code are not known."""
    log = verdict.report.findings if verdict.comparison is None else verdict.comparison.new
    return log.counts.get(code, 0)


def _fails(findings: Sequence[Finding], verdict: Verdict) -> bool:
    log = FindingLog()
    log.extend(findings)
    return log.exit_status(verdict.fail_on) != 0


def _time(verdict: Verdict) -> float:
    seconds = verdict.report.seconds
    return seconds["total"] if "total" in seconds else sum(seconds.values())


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _text(text: str) -> str:
    """Return text that XML can hold."""
    lines = (escape_text(line) for line in text.split("\n"))
    return _NO_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", "\n".join(lines))
