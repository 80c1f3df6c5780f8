"""Verdicts as SARIF 2.1.0 (OASIS Standard), which code scanning services and editors read.

One run per store; the rules are the catalogue entries of its findings. A store's files are binary, so regions
are given in bytes (section 3.30.3) and artifacts relative to the store's root (section 3.14.14).
"""

from __future__ import annotations

import hashlib
import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rmqtool.commands.verify.baseline import identity
from rmqtool.findings import Finding, FindingCode, Severity
from rmqtool.io.object_urls import is_object_url, split_url
from rmqtool.projection import json_object
from rmqtool.report.formats import to_json
from rmqtool.report.verify_headline import log_losses, next_command, verdict_line
from rmqtool.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rmqtool.commands.verify.verdict import Verdict

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
            "verdict": verdict_line(verdict),
            "next": next_command(verdict),
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
