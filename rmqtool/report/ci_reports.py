"""Verdicts for CI: JUnit XML, which servers show as tests, and SARIF 2.1.0 (OASIS), which editors read, too.

A suite of JUnit is a store, which fails as a whole where nothing could be examined. A case is a code with
findings, or a part of the store without findings. Codes without findings are not passed tests: a lower level
may not have looked for them.

A run of SARIF is a store; the rules are the catalogue entries of its findings. A store's files are binary, so
regions are given in bytes (section 3.30.3) and artifacts relative to the store's root (section 3.14.14).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from rmqtool.commands.verify import Verdict, identity
from rmqtool.findings import Finding, FindingCode, Severity, Structure, codes, exit_status
from rmqtool.io.source import is_object_url, split_url
from rmqtool.projection import json_object
from rmqtool.report.output import to_json
from rmqtool.report.sentences import finding_line, grouped
from rmqtool.report.terminal import escape_text
from rmqtool.report.verdict import log_losses, verdict_words
from rmqtool.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


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
    suite = ET.Element("testsuite", name=_text(report.store), time=_seconds(_time(verdict)))
    properties = ET.SubElement(suite, "properties")
    facts = {"level": report.level, "result": report.result, "exitStatus": int(verdict.status)}
    said = {name: words or "" for name, words in verdict_words(verdict).items()}
    for name, value in {**facts, **said, **json_object(report.examined)}.items():
        ET.SubElement(properties, "property", name=name, value=_text(str(value)))
    cases = _cases(verdict)
    suite.extend(cases)
    suite.set("tests", str(len(cases)))
    for attribute, tag in zip(("failures", "errors", "skipped"), (*_FAILED, "skipped"), strict=True):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    return suite


def _failed_suite(store: str, why: str) -> ET.Element:
    suite = ET.Element("testsuite", name=_text(store), time=_seconds(0))
    suite.attrib.update(tests="1", failures="0", errors="1", skipped="0")
    case = _new_case(Structure.STORE, "could be examined")
    ET.SubElement(case, "error", message=_text(why), type="exit-status")
    suite.append(case)
    return suite


def _cases(verdict: Verdict) -> list[ET.Element]:
    by_code: dict[str, list[Finding]] = {}
    for finding in verdict.report.findings:
        by_code.setdefault(finding.code.code, []).append(finding)
    cases = [_case(findings, verdict) for findings in by_code.values()]
    touched = {finding.structure for findings in by_code.values() for finding in findings}
    cases += [
        _new_case(structure, "nothing found") for structure in _examined(verdict) if structure not in touched
    ]
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


def _advice(group: Sequence[Finding]) -> Iterator[str]:
    yield from map(finding_line, group)
    yield f"broker: {group[0].broker_effect}"
    yield f"remedy: {group[0].remedy}"


def _case(findings: Sequence[Finding], verdict: Verdict) -> ET.Element:
    """Return the case of one code: failed by ``--fail-on``, skipped when all is known, else passed."""
    code = findings[0].code
    case = _new_case(findings[0].structure, f"{code.code} {code.title}")
    log = verdict.report.findings if verdict.comparison is None else verdict.comparison.new
    count = log.counts.get(code.code, 0)
    if not count:
        ET.SubElement(case, "skipped").text = f"{len(findings)} x {code.title}, known by the baseline"
        return case
    fresh = [finding for finding in log if finding.code is code]
    if exit_status(fresh, verdict.fail_on):
        tag = _FAILED[code is codes.RM_INTERNAL]
        failure = ET.SubElement(case, tag, message=_text(f"{count} x {code.title}"), type=code.code)
        failure.text = _lines(line for group in grouped(fresh) for line in _advice(group))
    else:
        ET.SubElement(case, "system-out").text = _lines(map(finding_line, fresh))
    return case


def _new_case(structure: Structure, name: str) -> ET.Element:
    return ET.Element("testcase", classname=f"rmqtool.{structure.value}", name=name, time="0.000")


def _time(verdict: Verdict) -> float:
    return sum(verdict.report.seconds.values())


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _text(text: str) -> str:
    """Return harmless text, without the two characters that XML cannot contain."""
    return _NO_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", escape_text(text))


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"{_text(text)}\n" for text in texts)


VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "STORE"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif(verdicts: Sequence[Verdict], failures: Mapping[str, str] | None = None) -> bytes:
    """Return the SARIF log: verdicts of the examined stores, and failures of the others by path."""
    runs = [_run(verdict) for verdict in verdicts]
    runs += [_failed_run(store, why) for store, why in (failures or {}).items()]
    log = {"$schema": SCHEMA, "version": VERSION, "runs": runs}
    return (to_json(log, indent=1) + "\n").encode("utf-8", "backslashreplace")


def _run(verdict: Verdict) -> dict[str, Any]:
    findings = list(verdict.findings())
    entries = list({finding.code.code: finding.code for finding, _ in findings}.values())
    remedies: dict[str, dict[str, None]] = {}
    for finding, _ in findings:
        remedies.setdefault(finding.code.code, {})[finding.remedy] = None
    places = {entry.code: index for index, entry in enumerate(entries)}
    is_compared = verdict.comparison is not None
    results = []
    for finding, known in findings:
        result = _result(finding, places[finding.code.code])
        if is_compared:
            result["baselineState"] = "unchanged" if known else "new"
        results.append(result)
    report = verdict.report
    return {
        "tool": {"driver": _driver(entries, remedies)},
        "invocations": [{"executionSuccessful": True, "exitCode": int(verdict.status)}],
        "originalUriBaseIds": {_ROOT: {"uri": _uri(report.store).rstrip("/") + "/"}},
        "results": results,
        "properties": {
            "level": report.level,
            "result": report.result,
            **verdict_words(verdict),
            "lost": log_losses(verdict),
            "examined": json_object(report.examined),
            "counts": report.findings.counts,
        },
    }


def _failed_run(store: str, why: str) -> dict[str, Any]:
    """Return the run of a store that could not be examined, without results (section 3.20.14)."""
    notification = {"level": "error", "message": {"text": why}}
    return {
        "tool": {"driver": _driver([], {})},
        "invocations": [{"executionSuccessful": False, "toolExecutionNotifications": [notification]}],
        "originalUriBaseIds": {_ROOT: {"uri": _uri(store).rstrip("/") + "/"}},
    }


def _driver(entries: Sequence[FindingCode], remedies: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    return {
        "name": "rmqtool",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(entry, " ".join(remedies[entry.code])) for entry in entries],
    }


def _rule(entry: FindingCode, remedy: str) -> dict[str, Any]:
    """Return the rule of a code; ``remedy`` is its findings' in this run, maybe not the catalogue's."""
    return {
        "id": entry.code,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.meaning},
        "help": {"text": f"{entry.meaning}\n\nBroker: {entry.broker_effect}\n\nRemedy: {remedy}"},
        "defaultConfiguration": {"level": _LEVELS[entry.severity]},
        "properties": {"tags": [entry.structure.value], "origin": entry.origin},
    }


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    values = json_object(finding)
    result: dict[str, Any] = {
        "ruleId": finding.code.code,
        "ruleIndex": rule_index,
        "kind": "informational" if finding.severity is Severity.INFO else "fail",
        "level": _level(finding),
        "message": {"text": values["message"]},
        "partialFingerprints": {"rmqtoolPlace/v1": _fingerprint(finding)},
    }
    location = _location(finding)
    if location:
        result["locations"] = [location]
    extras = {
        name: values[name]
        for name in ("physicalOffset", "queueOffset", "expected", "observed")
        if values[name] is not None
    }
    if extras:
        result["properties"] = extras
    return result


def _level(finding: Finding) -> str:
    """Return the level; where ``kind`` is not "fail" it has to be "none" (section 3.27.10)."""
    return "none" if finding.severity is Severity.INFO else _LEVELS[finding.severity]


def _location(finding: Finding) -> dict[str, Any]:
    location: dict[str, Any] = {}
    if finding.file is not None:
        location["physicalLocation"] = _physical_location(finding.file, finding.position, finding.length)
    if finding.topic is not None:
        queue = finding.topic if finding.queue_id is None else f"{finding.topic}/{finding.queue_id}"
        location["logicalLocations"] = [{"fullyQualifiedName": queue, "kind": "resource"}]
    return location


def _physical_location(file: str, position: int | None, length: int | None) -> dict[str, Any]:
    if PurePath(file).is_absolute() or is_object_url(file):  # a commit log on another disk
        artifact = {"uri": _uri(file)}
    else:
        artifact = {"uri": _quoted(file), "uriBaseId": _ROOT}
    place: dict[str, Any] = {"artifactLocation": artifact}
    if position is not None and position >= 0:
        place["region"] = {"byteOffset": position}
        if length is not None and length >= 0:
            place["region"]["byteLength"] = length
    return place


def _uri(path: str) -> str:
    if is_object_url(path):
        top, text = split_url(path)
        return top + _quoted(text.removeprefix(top))
    return "file://" + _quoted(os.path.abspath(path))  # noqa: PTH100 - links and bytes of names are kept


def _quoted(path: str) -> str:
    """Return a path as a part of a URI; names of files are bytes."""
    return quote(os.fsencode(path), safe="/")


def _fingerprint(finding: Finding) -> str:
    place = to_json(identity(json_object(finding)))
    return hashlib.sha256(place.encode("utf-8", "backslashreplace")).hexdigest()
