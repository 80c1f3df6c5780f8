"""Verdicts for people: the summary first, then the findings, grouped by code and folded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import ExitStatus
from rmqtool.findings import Severity
from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text
from rmqtool.report.finding_text import finding_line
from rmqtool.report.prediction_text import prediction_facts, prediction_title
from rmqtool.report.tables import Tables
from rmqtool.report.terminal import SEVERITY_STYLES
from rmqtool.report.times import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

    from rmqtool.commands.verify.verdict import Verdict
    from rmqtool.findings import Finding, FindingCode, FindingLog

_LISTED = 5
"""Findings of one code that are shown; ndjson has them all."""

_LEVELS = ("layout", "each file on its own", "derived files against the log", "completeness")
_TITLES = {
    "clean": "No damage found",
    "derived-damage": "Damage outside the commit log",
    "log-damage": "The commit log is damaged",
    "incomplete": "Interrupted: no verdict",
}
_WORDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


class _Page(Tables):
    """Tables, and paragraphs between them."""

    def heading(self, severity: Severity, title: str) -> None:
        """Begin the findings of a code."""
        self._write("")
        self._write(
            f"{self._ink(_WORDS[severity].upper(), SEVERITY_STYLES[severity])} {self._ink(title, 'bold')}"
        )

    def entry(self, finding: Finding) -> None:
        """Write what is the same for all findings of a code, given one of them."""
        for name, text in (("Broker", finding.code.broker_effect), ("Remedy", finding.remedy)):
            self.paragraph(f"{name}: {escape_text(text)}", 2, "dim")


def write_verify_text(verdicts: Sequence[Verdict], stream: TextIO, *, color: bool | None) -> None:
    """Write verdicts for people."""
    page = _Page(stream, color=color)
    for number, verdict in enumerate(verdicts):
        if number:
            stream.write("\n")
        report = verdict.report
        page.pairs(f"{_TITLES[report.result]}: {escape_text(report.store)}", list(_facts(verdict)))
        for findings in _groups(report.findings):
            _write_group(page, verdict, findings)
        for prediction in verdict.predictions:
            stream.write("\n")
            page.pairs(prediction_title(prediction), list(prediction_facts(prediction)))


def write_explanations(entries: Sequence[FindingCode], stream: TextIO, *, color: bool | None) -> None:
    """Write catalogue entries: one or a few in full, many as a table."""
    page = _Page(stream, color=color)
    if len(entries) > _LISTED:
        rows = [(entry.code, entry.severity.value, entry.title) for entry in entries]
        page.table("Finding codes", ("code", "severity", "what"), rows)
        return
    for number, entry in enumerate(entries):
        if number:
            stream.write("\n")
        facts = (
            ("Severity", entry.severity.value),
            ("Part", entry.structure.value),
            ("Meaning", entry.meaning),
            ("Broker", entry.broker_effect),
            ("Remedy", entry.remedy),
            ("Origin", entry.origin),
        )
        page.pairs(f"{entry.code}: {entry.title}", facts)


def _facts(verdict: Verdict) -> Iterator[tuple[str, str]]:
    report = verdict.report
    examined = report.examined
    if verdict.part is not None:
        yield "part", escape_text(verdict.part)
    yield "level", f"{report.level}, {_LEVELS[report.level]}"
    if report.interrupted is not None:
        yield "interrupted", f"{report.interrupted}; what is said below is what was looked at before"
    log = f"{_several(examined.commitlog_files, 'file')}, {_several(examined.records, 'record')}"
    yield "commit log", f"{log}, {size_text(examined.bytes)}"
    yield "queues", f"{_several(examined.consume_queues, 'queue')}, {_several(examined.units, 'unit')}"
    yield "index", f"{_several(examined.index_files, 'file')}, {_several(examined.items, 'item')}"
    yield "findings", _counts(report.findings)
    compared = verdict.comparison
    if compared is not None:
        new, known = len(compared.new), compared.known_count
        gone = "" if compared.gone is None else f", {compared.gone:,} no longer found"
        yield "baseline", f"{new:,} new, {known:,} known{gone}"
    if report.seconds:
        stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.seconds.items())
        yield "seconds", stages
    yield "exit status", f"{int(verdict.status)}, {_status_text(verdict.status)}"


def _status_text(status: ExitStatus) -> str:
    return {
        ExitStatus.CLEAN: "no finding that --fail-on counts",
        ExitStatus.NEGATIVE: "the commit log itself passed or was not looked at",
        ExitStatus.LOG_DAMAGED: "read this before a broker is started on it",
        ExitStatus.INTERRUPTED: "run it again to know",
    }[status]


def _counts(findings: FindingLog) -> str:
    """Return how many findings there are; those only counted are of their code's kept severity."""
    counts = dict.fromkeys(Severity, 0)
    for group in _groups(findings):
        for finding in group:
            counts[finding.severity] += 1
        counts[_worst(group)] += findings.suppressed(group[0].code.code)
    listed = [_several(count, _WORDS[severity]) for severity, count in counts.items() if count]
    return ", ".join(listed) or "none"


def _several(count: int, noun: str) -> str:
    return counted(count, noun, spec=",")


def _groups(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return the findings of each code, errors first, else in the order they were met."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.code.code, []).append(finding)
    ranks = list(Severity)
    return sorted(groups.values(), key=lambda group: ranks.index(_worst(group)))


def _worst(group: Sequence[Finding]) -> Severity:
    return min((finding.severity for finding in group), key=list(Severity).index)


def _write_group(page: _Page, verdict: Verdict, group: Sequence[Finding]) -> None:
    entry = group[0].code
    severity = _worst(group)
    count = verdict.report.findings.counts[entry.code]
    number = f" ({count:,})" if count > 1 else ""
    fresh = _fresh(verdict, entry)
    known = f", {_several(count - fresh, 'finding')} known" if fresh < count else ""
    page.heading(severity, f"{entry.code} {entry.title}{number}{known}")
    shown = group[:_LISTED] if severity is not Severity.INFO else group[:1]
    for finding in shown:
        page.paragraph(finding_line(finding), 2)
    if count > len(shown):
        page.paragraph(f"… {count:,} in all", 2)  # a finding may stand for many
    if severity is not Severity.INFO:
        page.entry(group[0])


def _fresh(verdict: Verdict, entry: FindingCode) -> int:
    """Return how many findings of a code the baseline does not know."""
    log = verdict.report.findings if verdict.comparison is None else verdict.comparison.new
    return log.counts.get(entry.code, 0)
