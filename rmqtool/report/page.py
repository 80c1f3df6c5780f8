"""Page of ``report``: one HTML file without script or external resources.

Here are its sections and tables, ``charts`` has the drawings as numbers, ``page.html.j2`` puts both into
HTML. Every text from the store passes `rmqtool.report.charts.shown` and Jinja's escapes. Lists that grow with
the store (topics, files, findings) have a bound, and the rest is counted.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from rmqtool.account import before_words, losses_words
from rmqtool.errors import ExitStatus
from rmqtool.findings import CATALOG, Finding, Severity, Structure
from rmqtool.report.charts import (
    HEIGHT,
    LONGEST_SENTENCE,
    ROW_HEIGHT,
    WIDTH,
    Clock,
    Moment,
    charts_of,
    share,
    shown,
    span,
    strip_of,
)
from rmqtool.report.output import size_text
from rmqtool.report.sentences import finding_line, prediction_facts, prediction_title
from rmqtool.report.terminal import escape_text
from rmqtool.report.verdict import FindingGroup, first_step, groups_of, headline, next_command
from rmqtool.store.broker_conf import conf_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from rmqtool.check.picture import LogPicture
    from rmqtool.commands.report import StoreReport
    from rmqtool.commands.verify import Verdict


_TOPICS = 100
_LOSSES = 30
_BACKLOGS = 40
_GAPS = 30
_STEPS = 20
_DIGESTS = 60
_SETTINGS = 120

Cells = tuple[str, ...]


class PageTable(NamedTuple):
    """Rows for the template, and the note on rows that are left out."""

    rows: tuple[Cells, ...] = ()
    more: str = ""

    @property
    def empty(self) -> frozenset[int]:
        """Return the columns in which no row has anything: they would push others off a narrow screen."""
        columns = enumerate(zip(*self.rows, strict=True))
        return frozenset(number for number, cells in columns if not any(cells))


def _table(rows: Sequence[Cells], limit: int, what: str, more: int = 0) -> PageTable:
    left = max(0, len(rows) - limit) + more
    return PageTable(tuple(rows[:limit]), f"and {left:,} more {what}" if left else "")


def losses_table(report: StoreReport) -> PageTable:
    """Return the losses by topic."""
    rows = [
        (
            shown(loss.topic),
            f"{loss.next_start:,}",
            size_text(loss.next_start_bytes) if loss.next_start else "",
            f"{loss.missing:,}",
        )
        for loss in report.losses
    ]
    return _table(rows, _LOSSES, "topics")


def names_table(report: StoreReport) -> PageTable:
    """Return the lost messages, with the known fields of each."""
    rows = []
    for message in report.lost:
        queue = "" if message.queue_id is None else f"{message.topic}/{message.queue_id}"
        places = (message.queue_offset, message.physical_offset)
        place, offset = ("" if number is None else f"{number}" for number in places)
        names = (message.store_timestamp or "", message.uniq_key or "", " ".join(message.keys or ()))
        rows.append((shown(queue), place, offset, message.reason.value, *map(shown, names)))
    lost = sum(loss.next_start + loss.missing for loss in report.losses)
    more = f"{len(rows):,} of {lost:,}; the option --lost of verify has all." if lost > len(rows) else ""
    return PageTable(tuple(rows), more)


def topics_table(report: StoreReport, clock: Clock) -> PageTable:
    """Return the topics in the log: those with most bytes, the others in one row."""
    picture = report.verification.picture
    if picture is None:
        return PageTable()
    slowest: dict[str, int] = defaultdict(int)
    for backlog in report.backlogs:
        if backlog.reader.startswith("group "):
            slowest[backlog.topic] = max(slowest[backlog.topic], backlog.units)
    topics = picture.census.topics
    whole = sum(topic.bytes for topic in topics)
    rows = [
        (
            shown(topic.topic),
            f"{topic.messages:,}",
            size_text(topic.bytes),
            f"{slowest[topic.topic]:,}" if topic.topic in slowest else "",
            size_text(topic.largest),
            share(topic.bytes, whole),
            clock(topic.oldest_ms),
            clock(topic.newest_ms),
        )
        for topic in topics[:_TOPICS]
    ]
    others = topics[_TOPICS:]
    if others:
        rows.append(
            (
                f"{len(others):,} other topics",
                f"{sum(topic.messages for topic in others):,}",
                size_text(sum(topic.bytes for topic in others)),
                "",
                size_text(max(topic.largest for topic in others)),
                share(sum(topic.bytes for topic in others), whole),
                clock(min(topic.oldest_ms for topic in others)),
                clock(max(topic.newest_ms for topic in others)),
            )
        )
    more = f"the {_TOPICS} with most bytes are listed, the others in one row; --format json has all"
    return PageTable(tuple(rows), more if others else "")


def backlogs_table(report: StoreReport, clock: Clock) -> PageTable:
    """Return the backlogs of readers, the largest first."""
    rows = [
        (
            shown(backlog.reader.removeprefix("group ")),
            shown(backlog.topic),
            f"{backlog.queues:,}",
            f"{backlog.units:,}",
            clock(backlog.last_timestamp_ms),
            f"{backlog.odd:,}" if backlog.odd else "",
        )
        for backlog in report.backlogs
    ]
    left = report.backlogs[_BACKLOGS:]
    table = _table(rows, _BACKLOGS, "consumers of topics")
    if not left:
        return table
    return PageTable(
        table.rows, f"{table.more}, with {sum(backlog.units for backlog in left):,} units to consume"
    )


def delayed_table(report: StoreReport, clock: Clock) -> PageTable:
    """Return the messages that wait for their time, by delay level and in the timer."""
    rows = [
        (
            row.reader,
            f"{row.waiting:,}",
            f"{row.overdue:,}" if row.overdue else "",
            clock(row.since_ms),
            clock(row.next_ms),
            f"{row.passed_over:,}" if row.passed_over else "",
            f"{row.twice:,}" if row.twice else "",
        )
        for row in report.delayed
    ]
    return PageTable(tuple(rows))


def gaps_table(picture: LogPicture | None) -> PageTable:
    """Return the queue offsets without a record, the widest gaps first."""
    if picture is None:
        return PageTable()
    rows = [
        (
            f"{shown(gap.topic)}/{gap.queue_id}",
            f"{gap.first} to {gap.first + gap.missing - 1}",
            f"{gap.missing:,}",
            str(gap.physical_offset),
        )
        for gap in sorted(picture.offset_gaps, key=lambda gap: -gap.missing)
    ]
    return _table(rows, _GAPS, "gaps", picture.more_offset_gaps)


def steps_table(picture: LogPicture | None, clock: Clock) -> PageTable:
    """Return where the clock was set back, in log order."""
    if picture is None:
        return PageTable()
    rows = [
        (
            str(step.physical_offset),
            clock.exact(step.before_ms),
            clock.exact(step.after_ms),
            span(step.before_ms - step.after_ms),
        )
        for step in picture.clock_steps
    ]
    return _table(rows, _STEPS, "steps back", picture.more_clock_steps)


def settings_table(report: StoreReport) -> PageTable:
    """Return the settings with their origin."""
    rows = [
        (
            name,
            shown("" if setting.value is None else conf_text(setting.value)),
            setting.origin.value,
            shown(setting.doubt or setting.note, 120),
        )
        for name, setting in report.provenance.settings.items()
    ]
    return _table(rows, _SETTINGS, "settings")


def digests_table(report: StoreReport) -> PageTable:
    """Return the digests of files."""
    rows = [
        (shown(digest.file), f"{digest.size_bytes:,}", digest.sha256 or f"none: {shown(digest.reason or '')}")
        for digest in report.provenance.digests
    ]
    return _table(rows, _DIGESTS, "files; --format json has all")


_FINDINGS = 40
_LINE = 240
_OF_ONE_CODE = 5
_MOODS = {
    ExitStatus.CLEAN: "good",
    ExitStatus.NEGATIVE: "warn",
    ExitStatus.FAILED: "warn",
    ExitStatus.LOG_DAMAGED: "bad",
}


def view_of(report: StoreReport, verdict: Verdict, clock: Clock) -> dict[str, Any]:
    """Return the members of the template's ``view``, section by section; empty where there is nothing."""
    picture = report.verification.picture
    census = None if picture is None else picture.census
    cut = _cut(report)
    findings, more_findings = _findings(verdict)
    return {
        "store": escape_text(report.store),
        "mood": _MOODS.get(verdict.status, "warn"),
        "headline": shown(headline(verdict), 2000),
        "next_command": escape_text(next_command(verdict) or ""),
        "first_step": escape_text(first_step(verdict) or ""),
        "status": int(verdict.status),
        "facts": tuple(_facts(report, clock)),
        "lost": losses_table(report),
        "names": names_table(report),
        "lost_total": _lost_total(report),
        "predictions": tuple(
            (
                prediction_title(prediction),
                tuple(
                    (name, shown(text, LONGEST_SENTENCE))
                    for name, text in prediction_facts(prediction, has_losses=False)
                ),  # which the section has above
            )
            for prediction in report.predictions
        ),
        "strip": None if picture is None else strip_of(picture, cut, clock, _hurt(report)),
        "charts": () if census is None else charts_of(census, list(_moments(report)), clock),
        "chart_note": _chart_note(picture),
        "topics": topics_table(report, clock),
        "backlogs": backlogs_table(report, clock),
        "delayed": delayed_table(report, clock),
        "gaps": gaps_table(picture),
        "steps": steps_table(picture, clock),
        "findings": findings,
        "findings_more": more_findings,
        "provenance": tuple(_provenance(report, clock)),
        "settings": settings_table(report),
        "digests": digests_table(report),
    }


def _hurt(report: StoreReport) -> Iterator[tuple[int, int]]:
    """Yield the damaged ranges of the log, records of known length among them."""
    for finding in report.verification.findings:
        if finding.structure is Structure.COMMITLOG and finding.severity is Severity.ERROR:
            start, length = finding.physical_offset, finding.length
            if start is not None and length is not None and length > 0:
                yield start, start + length


def _cut(report: StoreReport) -> int | None:
    cuts = [
        prediction.cut.physical_offset
        for prediction in report.predictions
        if prediction.cut is not None and prediction.lost
    ]
    return cuts[0] if cuts else None


def _facts(report: StoreReport, clock: Clock) -> Iterator[tuple[str, str]]:
    examined = report.verification.examined
    picture = report.verification.picture
    records = f"{examined.records:,} records, {size_text(examined.bytes)}"
    yield "commit log", f"{examined.commitlog_files:,} files, {records}"
    if picture is not None and picture.census.topics:
        topics = picture.census.topics
        first, last = min(topic.oldest_ms for topic in topics), max(topic.newest_ms for topic in topics)
        yield "stored", f"{clock.exact(first)} to {clock.exact(last)}"
    yield "queues", f"{examined.consume_queues:,} queues, {examined.units:,} units"
    yield "index", f"{examined.index_files:,} files, {examined.items:,} items"
    yield "stopped", "not cleanly, or the broker runs: abort is there" if report.abort else "cleanly"
    if report.verification.limits:
        yield "not examined", shown("; ".join(report.verification.limits), LONGEST_SENTENCE)


def _lost_total(report: StoreReport) -> str:
    start, log_losses = sum(loss.next_start for loss in report.losses), report.verification.log_losses
    parts = []
    if start:
        parts.append(f"the next start cuts off {start:,} messages")
    if lost := losses_words(log_losses):
        parts.append(lost)
    before = before_words(log_losses)
    if parts:
        text = "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}{before}."
    if report.verification.picture is None:
        return "There is no commit log to check."
    if not report.predictions:
        return "No proof of a lost message. The next start cannot be predicted."
    return f"No proof of a lost message, and no predicted start cuts messages off{before}."


def _moments(report: StoreReport) -> Iterator[Moment]:
    picture = report.verification.picture
    if picture is None or not picture.census.topics:
        return
    period = picture.census.period
    stop = period.start_ms + period.width_ms * period.buckets
    last = max((topic.newest_ms for topic in picture.census.topics if topic.newest_ms < stop), default=None)
    if last is not None:
        yield Moment(last, "last write before the crash" if report.abort else "last write", "crash")
    if report.cut_ms is not None:
        yield Moment(report.cut_ms, "the next start ends the log here", "cut")


def _chart_note(picture: LogPicture | None) -> str:
    if picture is None:
        return ""
    census = picture.census
    note = f"Each column is {span(census.period.width_ms)}."
    if census.outside:
        note += f" {census.outside:,} messages have a store time outside of this period, and are not drawn."
    return note


def _findings(verdict: Verdict) -> tuple[list[dict[str, Any]], str]:
    groups, room = [], _FINDINGS
    for group in groups_of(verdict):
        lines = group.free[: min(_OF_ONE_CODE, room)]
        room -= len(lines)
        groups.append(_finding(group, lines))
    follow = verdict.roots.count
    return groups, f"{follow:,} findings follow from these and are not listed" if follow else ""


def _finding(group: FindingGroup, lines: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings of a group that follow from no other; no effect where too many were found."""
    first, count = group.first, group.number
    return {
        "severity": "note" if first.severity is Severity.INFO else first.severity.value,
        "title": f"{first.code.code} {first.code.title}",
        "total": count,
        "lines": [shown(finding_line(line).removesuffix(f": {first.code.title}"), _LINE) for line in lines],
        "more": f"… {count:,} in all" if count > len(lines) else "",
        "explains": [f"{number:,} {code}, {CATALOG[code].title}" for code, number in group.explained.items()],
        "effect": shown(first.broker_effect, LONGEST_SENTENCE) if lines else "",
        "remedy": shown(first.remedy, LONGEST_SENTENCE) if lines else "",
    }


def _provenance(report: StoreReport, clock: Clock) -> Iterator[tuple[str, str]]:
    made = report.provenance
    yield "rmqtool", made.version
    yield "command", shown(made.command, 1000)
    yield "made", clock.exact(made.made_ms)
    yield "store", shown(report.store, 1000)
    seconds = report.verification.seconds
    yield "seconds", ", ".join(f"{stage} {taken:.1f}" for stage, taken in seconds.items())
    checkpoint = report.checkpoint
    if checkpoint is not None:
        yield (
            "checkpoint",
            f"log {_moment(checkpoint.physic_msg_timestamp_ms, clock)}, queues"
            f" {_moment(checkpoint.logics_msg_timestamp_ms, clock)}, index"
            f" {_moment(checkpoint.index_msg_timestamp_ms, clock)}",
        )


def _moment(moment_ms: int, clock: Clock) -> str:
    return clock.exact(moment_ms) if moment_ms > 0 else "never"


_TEMPLATE, _STYLE = "page.html.j2", "page.css"


def render_page(report: StoreReport, verdict: Verdict, zone: tzinfo | None) -> str:
    """Return the page of a report as one document without external resources; None is the local zone."""
    style = _packaged(_STYLE)
    environment = Environment(
        loader=FunctionLoader(_packaged),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(_TEMPLATE).render(
        view=view_of(report, verdict, Clock(zone)),
        style=Markup(style),
        policy=_policy(style),
        chart={"width": WIDTH, "height": HEIGHT},
        row_height=ROW_HEIGHT,
    )


def _policy(style: str) -> str:
    """Return the Content-Security-Policy: nothing but this one style sheet."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _packaged(name: str) -> str:
    return files("rmqtool.report").joinpath(name).read_text(encoding="utf-8")
