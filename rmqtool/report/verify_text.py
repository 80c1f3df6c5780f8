"""Text report of a verdict: the summary first, then the findings, grouped by code and folded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import ExitStatus
from rmqtool.findings import CATALOG, Finding, FindingCode, Severity
from rmqtool.findings.codes import NS_FORGETS, NS_LOSES, NS_REBUILDS, NS_REFUSED
from rmqtool.findings.model import counted
from rmqtool.report.formats import size_text
from rmqtool.report.sentences import finding_line, grouped, prediction_facts, prediction_title, worst_of
from rmqtool.report.terminal import escape_text
from rmqtool.report.text_report import SEVERITY_WORDS, TextReport, stages_text
from rmqtool.report.verify_headline import headline, is_healthy, names_limits, next_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.check.model import Examined
    from rmqtool.commands.verify.verdict import Verdict

_LISTED = 5
"""Findings of one code that are shown; ndjson has them all."""

_IN_PREDICTIONS = {NS_REFUSED, NS_LOSES, NS_FORGETS, NS_REBUILDS}
"""Codes whose content is in the first line, and in the prediction."""


def verify_text(verdict: Verdict, text: TextReport, *, notes: bool = False) -> None:
    """Write a verdict; ``notes`` adds findings that require no action."""
    text.verdict(headline(verdict), _facts(verdict), next_command(verdict))
    for findings in grouped(verdict.report.findings):
        is_said = findings[0].code in _IN_PREDICTIONS
        if not is_said and (notes or worst_of(findings) is not Severity.INFO):
            _write_group(text, verdict, findings)
    for prediction in verdict.predictions:
        text.pairs(prediction_title(prediction), prediction_facts(prediction))
    text.finish()


def explanations_text(entries: Sequence[FindingCode], text: TextReport) -> None:
    """Write catalogue entries: one or a few in full, many as a table."""
    if len(entries) > _LISTED:
        rows = [(entry.code, entry.severity.value, entry.title) for entry in entries]
        text.table("Finding codes", ("code", "severity", "what"), rows)
        return
    for entry in entries:
        facts = (
            ("Severity", entry.severity.value),
            ("Part", entry.structure.value),
            ("Meaning", entry.meaning),
            ("Broker", entry.broker_effect),
            ("Remedy", entry.general_remedy),
            ("Origin", entry.origin),
        )
        text.pairs(f"{entry.code}: {entry.title}", facts)


def _facts(verdict: Verdict) -> Iterator[tuple[str, str]]:
    report = verdict.report
    examined = report.examined
    if verdict.part is not None:
        yield "part", escape_text(verdict.part)
    if report.interrupted is not None:
        yield "interrupted", f"{report.interrupted}; the findings below are those until then"
    if report.limits and not names_limits(report):
        yield "not examined", escape_text("; ".join(report.limits))
    if report.level:
        yield from _figures(examined)
    else:
        yield "contents", "not read; --level 1, 2 or 3 reads them"
    if not is_healthy(verdict):
        yield "findings", _counts(verdict)
    compared = verdict.comparison
    if compared is not None:
        new, known = len(compared.new), compared.known_count
        gone = "" if compared.gone is None else f", {compared.gone:,} no longer found"
        yield "baseline", f"{new:,} new, {known:,} known{gone}"
    if report.seconds:
        yield "seconds", stages_text(report.seconds)
    if verdict.status:
        yield "exit status", f"{int(verdict.status)}, {_status_text(verdict)}"


def _figures(examined: Examined) -> Iterator[tuple[str, str]]:
    log = f"{_several(examined.commitlog_files, 'file')}, {_several(examined.records, 'record')}"
    yield "commit log", f"{log}, {size_text(examined.bytes)}"
    units = _several(examined.units, "consume queue unit")
    yield "queues", f"{_several(examined.consume_queues, 'queue')}, {units}"
    yield "index", f"{_several(examined.index_files, 'file')}, {_several(examined.items, 'index item')}"


def _status_text(verdict: Verdict) -> str:
    looked = "the commit log itself passed"
    if not verdict.report.examined.commitlog_files:
        looked = "the commit log was not examined"
    return {
        ExitStatus.NEGATIVE: looked,
        ExitStatus.FAILED: "the unread parts may be damaged",
        ExitStatus.LOG_DAMAGED: "read this before you start a broker",
        ExitStatus.INTERRUPTED: "run it again for a verdict",
    }[verdict.status]


def _counts(verdict: Verdict) -> str:
    """Return the number of findings; those only counted are of their code's kept severity."""
    findings, roots = verdict.report.findings, verdict.roots
    counts = dict.fromkeys(Severity, 0)
    for group in grouped(findings):
        if group[0].code in _IN_PREDICTIONS:
            continue
        for finding in group:
            counts[finding.severity] += 1
        counts[worst_of(group)] += findings.suppressed(group[0].code.code)
    listed = [_several(count, SEVERITY_WORDS[severity]) for severity, count in counts.items() if count]
    following = roots.count - sum(roots.follows(code.code) for code in _IN_PREDICTIONS)
    follow = counted(following, "of them follows from another", "of them follow from others", spec=",")
    return (", ".join(listed) or "none") + (f"; {follow}" if following else "")


def _several(count: int, noun: str) -> str:
    return counted(count, noun, spec=",")


def _write_group(text: TextReport, verdict: Verdict, group: Sequence[Finding]) -> None:
    entry = group[0].code
    severity = worst_of(group)
    count = verdict.report.findings.counts[entry.code] - verdict.roots.follows(entry.code)
    if not count:
        return
    number = f" ({count:,})" if count > 1 else ""
    fresh = min(_fresh(verdict, entry), count)
    known = f", {_several(count - fresh, 'finding')} known" if fresh < count else ""
    text.heading(severity, f"{entry.code} {entry.title}{number}{known}")
    roots = {id(one): root for one, root in zip(verdict.report.findings, verdict.roots.of, strict=True)}
    free = [finding for finding in group if roots[id(finding)] is None]
    shown = free[:_LISTED] if severity is not Severity.INFO else free[:1]
    for finding in shown:
        text.paragraph(finding_line(finding), 2)
    if count > len(shown):
        text.paragraph(f"… {count:,} in all", 2)  # a finding may stand for many
    for code, follows in verdict.roots.explained.get(entry.code, {}).items():
        if CATALOG[code] not in _IN_PREDICTIONS:
            text.paragraph(f"Explains {follows:,} {code}, {CATALOG[code].title}", 2)
    if severity is not Severity.INFO:
        text.paragraph(f"Broker: {escape_text(entry.broker_effect)}", 2)
        text.paragraph(f"Remedy: {escape_text(group[0].remedy)}", 2, "bold")


def _fresh(verdict: Verdict, entry: FindingCode) -> int:
    log = verdict.report.findings if verdict.comparison is None else verdict.comparison.new
    return log.counts.get(entry.code, 0)
