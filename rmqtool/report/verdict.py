"""Verdict of ``verify``: its sentences, text with findings grouped by code and folded, and documents."""

from __future__ import annotations

import shlex
from functools import partial
from itertools import groupby
from posixpath import basename, join
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from rmqtool.account import LogLosses, before_words, losses_words
from rmqtool.check import PREDICTED, VerifyReport
from rmqtool.commands.verify import Verdict, label_of_root
from rmqtool.doctor import ONLY_SHOWN
from rmqtool.errors import ExitStatus
from rmqtool.findings import CATALOG, NOT_READ, Finding, Severity, Structure, codes
from rmqtool.io.local import as_owner
from rmqtool.io.source import is_object_url
from rmqtool.outcomes import Action, CommandLines, best, harm_words, is_needed, outcome_of
from rmqtool.projection import columns_of, json_object
from rmqtool.report.output import Format, several, size_text, write_document
from rmqtool.report.sentences import (
    finding_line,
    grouped,
    outcome_rows,
    prediction_facts,
    prediction_title,
    unconfirmed_facts,
)
from rmqtool.report.text_report import SEVERITY_WORDS, TextReport, stages_text
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqtool.recovery import Prediction, StartOutcome


_REBUILT = {Structure.CONSUMEQUEUE, Structure.INDEX}
_DAMAGE = {
    ExitStatus.NEGATIVE: "Damage outside the commit log",
    ExitStatus.LOG_DAMAGED: "The commit log is damaged",
    ExitStatus.FAILED: "No verdict, some files could not be read",
}

_SETTINGS = {codes.CF_FORGETS.code, codes.CF_REFUSED.code}
_TIMED = {
    codes.ST_TIMER_GAP.code: ", but never delivers timed messages whose chain crosses the gap in timerlog/",
    codes.OF_TIMER.code: ", but never delivers timed messages that its timer has passed over",
}


def headline(verdict: Verdict) -> str:
    """Return the verdict in one line, with the store."""
    return f"{verdict_line(verdict)}: {verdict.report.store}"


def verdict_words(verdict: Verdict) -> dict[str, str | None]:
    """Return the verdict and the next commands in words, as all forms for programs have them."""
    return {
        "verdict": verdict_line(verdict),
        "first": first_step(verdict),
        "next": next_command(verdict),
        "then": None,  # scripts read it
    }


def verdict_line(verdict: Verdict) -> str:
    """Return the verdict in one line: damage, unexamined parts, and the next start."""
    said = "Interrupted: no verdict" if verdict.report.interrupted is not None else _damage(verdict)
    return said + "".join(f"; {start}" for start in _starts(verdict))


def next_command(verdict: Verdict) -> str | None:
    """Return the command that helps further, for pasting; None where nothing has to be done."""
    words = _next_words(verdict)
    return None if words is None else shlex.join(words)


def first_step(verdict: Verdict) -> str | None:
    """Return the step before the next command: settings or a release to give, a copy to look for; or None."""
    chosen = best(verdict.report.outcomes)
    lost = log_losses(verdict) if chosen is None else chosen.lost
    steps = []
    if chosen is not None and chosen.unless:
        releases = " or ".join(chosen.unless)
        steps.append(f"name the broker's release (--broker-version): with {releases} another is better")
    if codes.IX_GEOMETRY.code in verdict.report.findings.counts:
        steps.append("give the broker's maxHashSlotNum and maxIndexNum (-c broker.conf): no file shows them")
    if codes.ST_NO_COMMITLOG.code in verdict.report.findings.counts:
        steps.append("pass storePathCommitLog (-c broker.conf) if the log lies elsewhere")
    if codes.CL_MISNAMED.code in verdict.report.findings.counts:
        steps.append("on a copy, put back the file of the log that lies under another name (CL-MISNAMED)")
    if codes.CL_FOREIGN.code in verdict.report.findings.counts:
        steps.append("on a copy, put the right file in the place of that of another log (CL-FOREIGN)")
    if lost:
        losses = _known_losses(verdict)
        readable = 0 if losses is None or losses.states is None else losses.states.readable
        kind = "lost or damaged" if readable else "lost"
        messages = several(lost, f"{kind if lost > readable else 'damaged'} message").removeprefix("1 ")
        steps.append(f"look for the {messages} in a replica or a backup: no command brings back what is lost")
    if verdict.report.directories[1:] and (_next_words(verdict) or [""])[0] == "tar":
        named = "storePathCommitLog and storePathEpochFile, where they are set, name what is in the copy"
        steps.append(f"let {named} wherever a broker starts on it")
    return "; ".join(steps) or None


def _damage(verdict: Verdict) -> str:
    report = verdict.report
    status = report.damage_status
    if status is ExitStatus.FAILED and names_limits(report):
        rest = report.findings.exit_status(without={*PREDICTED, *NOT_READ})
        damage = f"; {_DAMAGE[rest][0].lower()}{_DAMAGE[rest][1:]}" if rest else ""
        return f"No verdict, not all of it was read ({'; '.join(report.limits)}){damage}"
    if only_strays(verdict):
        stops = any(finding.effect_override == "Does not start." for finding in report.findings)
        said = "No damage found, but a stray file in commitlog/ " + ("stops a start" if stops else "is to go")
    elif status is not ExitStatus.CLEAN:
        said = _DAMAGE[status]
        if status is ExitStatus.NEGATIVE and not report.examined.commitlog_files:
            said = "Damage found"
    else:
        has_log = codes.ST_NO_COMMITLOG.code not in report.findings.counts
        said = "No damage found" if has_log else "No damage found, but no commit log either"
        if report.limits:
            said += f" in the examined part ({'; '.join(report.limits)})"
    missing = report.findings.counts.get(codes.IX_GONE.code, 0)
    if missing and status is not ExitStatus.LOG_DAMAGED:
        entries = several(missing, "entry that the log requires", "entries that the log requires")
        said += f", but the index lacks {entries}" if not status else f"; the index lacks {entries}"
    losses = _known_losses(verdict)
    if lost := losses_words(losses):
        said += f"{', but' if not status else ';'} {lost}"
    said += before_words(losses)
    ahead = report.findings.counts.get(codes.OF_AHEAD.code, 0)
    if ahead:
        offsets = several(ahead, "consumer offset lies", "consumer offsets lie")
        said += f"{', but' if not status else ';'} {offsets} beyond the end of a queue"
    damaged = dict.fromkeys(
        finding.file or "" for finding in report.findings if finding.code is codes.CF_FORGETS
    )
    files = [file for file in damaged if file not in ONLY_SHOWN]
    if files and not status and not verdict.predictions:
        said += f", but the next start forgets what {' and '.join(map(basename, files))} held"
    return f"{said}, settings in doubt" if codes.ST_DOUBT.code in report.findings.counts else said


def only_strays(verdict: Verdict) -> bool:
    """Return whether all errors are of files outside of the log, which hold nothing of it."""
    report = verdict.report
    there = (finding for finding in report.findings if finding.structure not in PREDICTED)
    errors = {finding.code for finding in there if finding.severity is Severity.ERROR}
    return errors == {codes.CL_STRAY} and report.damage_status is ExitStatus.NEGATIVE


def log_losses(verdict: Verdict) -> int:
    """Return how many messages the log has lost already, as far as examined."""
    losses = _known_losses(verdict)
    return 0 if losses is None else losses.messages


def _known_losses(verdict: Verdict) -> LogLosses | None:
    known = (verdict.report.log_losses, *(prediction.log_losses for prediction in verdict.predictions))
    losses = [known_losses for known_losses in known if known_losses is not None]
    return max(losses, key=lambda known_losses: (known_losses.messages, known_losses.before), default=None)


def _starts(verdict: Verdict) -> Iterator[str]:
    if not verdict.predictions and codes.NS_SKIPPED.code not in verdict.report.findings.counts:
        return
    from rmqtool.recovery import StartOutcome  # with the pipeline
    from rmqtool.recovery import outcome_of as gravest_of

    damaged = verdict.report.damage_status is not ExitStatus.CLEAN

    def rank(prediction: Prediction) -> tuple[StartOutcome, bool]:
        return gravest_of(prediction), bool(_harm(verdict, [prediction]))

    for (outcome, _), alike in groupby(sorted(verdict.predictions, key=rank, reverse=True), key=rank):
        more = " more" if (damaged or log_losses(verdict)) and outcome is StartOutcome.WHOLE else ""
        predictions = list(alike)
        harm = _harm(verdict, predictions)
        if harm and outcome in {StartOutcome.WHOLE, StartOutcome.REBUILDS}:
            start = f"the next start of {_brokers(predictions)} {harm}"
        else:
            start = _start(outcome, predictions, lost=bool(log_losses(verdict))) + more
            start += f" and {harm}" if harm else ""
        counts = verdict.report.findings.counts if predictions[0].starts else {}
        yield start + "".join(words for code, words in _TIMED.items() if code in counts)
    if codes.NS_SKIPPED.code in verdict.report.findings.counts:
        yield "the next start cannot be predicted"


def _start(outcome: StartOutcome, predictions: Sequence[Prediction], *, lost: bool) -> str:
    from rmqtool.recovery import StartOutcome, lost_messages

    brokers = _brokers(predictions)
    if outcome is StartOutcome.LOSES:
        counts = sorted({lost_messages(prediction) for prediction in predictions})
        cut = several(counts[-1], "message") if not lost else f"{counts[-1]:,} more"
        forgets = _forgets(predictions)
        also = f" and forgets {forgets}" if forgets else ""
        return f"the next start of {brokers} loses {'up to ' if counts[1:] else ''}{cut}{also}"
    none = "no more messages" if lost else "no message"
    return {
        StartOutcome.FORGETS: f"{brokers} will start and forget {_forgets(predictions)}",
        StartOutcome.REFUSED: f"{brokers} will not start on it",
        StartOutcome.HANGS: f"{brokers} will never finish its start",
        StartOutcome.REBUILDS: f"{brokers} will start, lose {none}, and correct queues or index first",
        StartOutcome.WHOLE: f"{brokers} will start and lose nothing",
    }[outcome]


def _brokers(predictions: Sequence[Prediction]) -> str:
    names = [prediction.release.name for prediction in predictions]
    return f"a {' or '.join([', '.join(names[:-1]), names[-1]] if names[1:] else names)} broker"


def _harm(verdict: Verdict, predictions: Sequence[Prediction]) -> str:
    """Return the end of a sentence on consumers after a start; of several releases, the most."""
    if not predictions[0].starts:
        return ""
    start = outcome_of(verdict.report.outcomes, Action.START)
    if start is not None and [prediction.release.name for prediction in predictions] == [
        verdict.report.release
    ]:
        passed = predictions[0].not_served
        over = f"leaves up to {passed:,} in the log that cannot be consumed" if passed else ""
        return ", and ".join(words for words in (harm_words(start), over) if words)
    most = max(
        prediction.not_served
        + sum(queue.missing for queue in prediction.queues if not queue.topic.startswith(LMQ_PREFIX))
        for prediction in predictions
    )
    return f"never delivers up to {several(most, 'message')} of the log" if most else ""


def _forgets(predictions: Sequence[Prediction]) -> str:
    files = {basename(forgotten.file): None for prediction in predictions for forgotten in prediction.forgets}
    return " and ".join(f"what {name} held" for name in files)


def _commands(verdict: Verdict) -> CommandLines:
    report = verdict.report
    return CommandLines(report.store, verdict.setting_arguments, report.directories)


def _next_words(verdict: Verdict) -> list[str] | None:
    """Return the next command: that of the recommended action, or what is known without outcomes."""
    report = verdict.report
    store, commands = report.store, _commands(verdict)
    if report.interrupted is not None:
        return _verify(verdict)
    if codes.IO_DENIED.code in report.findings.counts:
        denied = next(finding for finding in report.findings if finding.code is codes.IO_DENIED)
        return [*as_owner(join(store, denied.file or "")), *_verify(verdict)]
    chosen = best(report.outcomes)
    is_gone = chosen is None and any(outcome.starts for outcome in report.outcomes)
    if is_gone or codes.CL_MISNAMED.code in report.findings.counts:
        return commands.of(Action.START)  # a copy, on which to put it back
    if chosen is not None:
        return commands.of(chosen.action, chosen.setting) if is_needed(report.outcomes) else None
    action = _action_without_outcomes(verdict)
    is_foreseen = verdict.predictions or codes.NS_SKIPPED.code in report.findings.counts
    if action is Action.START and not (is_foreseen or _is_unread(verdict)):
        return ["rmqtool", "verify", store, *verdict.setting_arguments, "--predict-recovery"]
    return None if action is None or is_object_url(store) else commands.of(action)


def _is_unread(verdict: Verdict) -> bool:
    return any(finding.structure in NOT_READ for finding in verdict.report.findings)


def _action_without_outcomes(verdict: Verdict) -> Action | None:
    """Return the next action on a store that was not judged whole."""
    findings = verdict.report.findings
    is_log_damaged = findings.exit_status(without={*NOT_READ, *PREDICTED}) is ExitStatus.LOG_DAMAGED
    if (not _SETTINGS.isdisjoint(findings.counts) or only_strays(verdict)) and not is_log_damaged:
        return Action.REPAIR
    if findings.exit_status(without=NOT_READ) is ExitStatus.LOG_DAMAGED:
        is_modelled = codes.NS_SKIPPED.code not in findings.counts
        return Action.START if is_modelled or _is_unread(verdict) else Action.SALVAGE
    if _is_unread(verdict):
        return None
    derived = findings.exit_status(without=set(Structure) - _REBUILT)
    return Action.REBUILD if derived or codes.IX_GONE.code in findings.counts else None


def _verify(verdict: Verdict) -> list[str]:
    report = verdict.report
    path = report.store if verdict.part is None else join(report.store, verdict.part)
    level = [] if report.level == 3 else ["--level", str(report.level)]
    return ["rmqtool", "verify", path, *verdict.setting_arguments, *level]


def names_limits(report: VerifyReport) -> bool:
    """Return whether the first line names the unexamined parts."""
    status = report.damage_status
    return not status or (status is ExitStatus.FAILED and codes.IO_DENIED.code not in report.findings.counts)


def is_healthy(verdict: Verdict) -> bool:
    """Return whether there is nothing to report but the figures."""
    worst = {finding.severity for finding in verdict.report.findings} - {Severity.INFO}
    return not worst and verdict.report.interrupted is None and verdict.comparison is None


_LISTED = 5
"""Findings of one code that are shown; ndjson has them all."""

_IN_PREDICTIONS = {codes.NS_REFUSED, codes.NS_LOSES, codes.NS_FORGETS, codes.NS_WRONG, codes.NS_REBUILDS}
"""Codes whose content is in the first line, and in the prediction."""


def verify_text(verdict: Verdict, text: TextReport, *, notes: bool = False) -> None:
    """Write a verdict; ``notes`` adds findings that require no action."""
    text.verdict(
        headline(verdict), _facts(verdict), first=first_step(verdict), next_command=next_command(verdict)
    )
    for group in groups_of(verdict):
        is_said = group.first.code in _IN_PREDICTIONS
        if not is_said and (notes or group.first.severity is not Severity.INFO):
            _write_group(text, group)
    for prediction in verdict.predictions:
        text.pairs(prediction_title(prediction), prediction_facts(prediction))
    outcomes = verdict.report.outcomes
    if verdict.predictions and is_needed(outcomes):
        title = f"Outcomes with a {verdict.report.release} broker (* recommended)"
        text.table(title, *outcome_rows(outcomes), spare=("placeholders",))


def _facts(verdict: Verdict) -> Iterator[tuple[str, str]]:
    report = verdict.report
    if verdict.part is not None:
        yield "part", verdict.part
    if report.interrupted is not None:
        yield "interrupted", f"{report.interrupted}; the findings below are those until then"
    for assumption in dict.fromkeys(
        words for prediction in verdict.predictions for words in prediction.assumes
    ):
        yield "assumes", assumption
    if report.limits and not names_limits(report):
        yield "not examined", "; ".join(report.limits)
    if report.level:
        yield from _figures(report)
        yield from unconfirmed_facts(report.log_losses)
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


def _figures(report: VerifyReport) -> Iterator[tuple[str, str]]:
    examined = report.examined
    log = f"{several(examined.commitlog_files, 'file')}, {several(examined.records, 'record')}"
    yield "commit log", f"{log}, {size_text(examined.bytes)}"
    units = several(examined.units, "consume queue unit")
    yield "queues", f"{several(examined.consume_queues, 'queue')}, {units}"
    yield "index", f"{several(examined.index_files, 'file')}, {several(examined.items, 'index item')}"
    if report.retention is not None:
        yield "retention", report.retention


def _status_text(verdict: Verdict) -> str:
    state = "the commit log itself passed"
    if not verdict.report.examined.commitlog_files:
        state = "the commit log was not examined"
    return {
        ExitStatus.NEGATIVE: state,
        ExitStatus.FAILED: "the unread parts may be damaged",
        ExitStatus.LOG_DAMAGED: "read this before you start a broker",
        ExitStatus.INTERRUPTED: "run it again for a verdict",
    }[verdict.status]


def _counts(verdict: Verdict) -> str:
    """Return the number of findings; those only counted are of their code's kept severity."""
    findings, roots = verdict.report.findings, verdict.roots
    counts = dict.fromkeys(Severity, 0)
    worst: dict[str, Severity] = {}
    for group in grouped(findings):
        if group[0].code not in _IN_PREDICTIONS:
            counts[group[0].severity] += len(group)
            worst.setdefault(group[0].code.code, group[0].severity)
    for code, severity in worst.items():
        counts[severity] += findings.suppressed(code)
    listed = [several(count, SEVERITY_WORDS[severity]) for severity, count in counts.items() if count]
    following = roots.count - sum(roots.follows(code.code) for code in _IN_PREDICTIONS)
    follow = several(following, "of them follows from another", "of them follow from others")
    return (", ".join(listed) or "none") + (f"; {follow}" if following else "")


class FindingGroup(NamedTuple):
    """Findings that one heading, effect and remedy fit.

    Attributes:
        first: the first of them.
        free: those that follow from no other finding.
        number: how many there are of these; for the largest group of a code also those that are only counted.
        fresh: how many of them the baseline lacks.
        explained: how many findings of other codes follow from those of the code, for its largest group.
    """

    first: Finding
    free: Sequence[Finding]
    number: int
    fresh: int
    explained: Mapping[str, int]


def groups_of(verdict: Verdict) -> Iterator[FindingGroup]:
    """Yield the findings in groups, errors first."""
    log, roots = verdict.report.findings, verdict.roots
    new = log if verdict.comparison is None else verdict.comparison.new
    following = {id(finding) for finding, root in zip(log, roots.of, strict=True) if root is not None}
    listed = {id(finding) for finding in new}
    groups = [
        (group[0], [finding for finding in group if id(finding) not in following]) for group in grouped(log)
    ]
    for first, free in groups:
        code = first.code.code
        count, fresh = len(free), sum(id(finding) in listed for finding in free)
        explained: Mapping[str, int] = {}
        alike = [own for other, own in groups if other.code is first.code]
        if free is max(alike, key=len):  # of one that is not kept, only the code is known
            others = [finding for own in alike if own is not free for finding in own]
            count = log.counts[code] - roots.follows(code) - len(others)
            fresh = new.counts.get(code, 0) - sum(id(finding) in listed for finding in others)
            explained = roots.explained.get(code, {})
        if count:
            yield FindingGroup(first, free, count, min(fresh, count), explained)


def _write_group(text: TextReport, group: FindingGroup) -> None:
    entry, severity, count = group.first.code, group.first.severity, group.number
    number = f" ({count:,})" if count > 1 else ""
    known = f", {several(count - group.fresh, 'finding')} known" if group.fresh < count else ""
    text.heading(severity, f"{entry.code} {entry.title}{number}{known}")
    shown = group.free[:_LISTED] if severity is not Severity.INFO else group.free[:1]
    for finding in shown:
        text.paragraph(finding_line(finding).removesuffix(f": {entry.title}"), 2)
    if count > len(shown):
        text.paragraph(f"… {count:,} in all", 2)  # a finding may stand for many
    for code, follows in group.explained.items():
        if CATALOG[code] not in _IN_PREDICTIONS:
            text.paragraph(f"Explains {follows:,} {code}, {CATALOG[code].title}", 2)
    if severity is not Severity.INFO:
        text.paragraph(f"Broker: {group.first.broker_effect}", 2)
        text.paragraph(f"Remedy: {group.first.remedy}", 2, "bold")


FINDING_COLUMNS = (*columns_of(Finding), "root")


def verify_document(verdict: Verdict) -> dict[str, Any]:
    """Return the document of one store; parts that were not requested have no key."""
    document = json_object(verdict.report)
    document["findings"] = list(finding_objects(verdict))
    commands = _commands(verdict)
    for outcome, value in zip(verdict.report.outcomes, document.get("outcomes", ()), strict=True):
        if outcome.refused is None:
            value["command"] = commands.line(outcome.action, outcome.setting)
    if verdict.part is not None:
        document["part"] = verdict.part
    if verdict.predictions:
        document["predictions"] = [json_object(prediction) for prediction in verdict.predictions]
    return document | _compared(verdict) | verdict_words(verdict) | {"exitStatus": int(verdict.status)}


def verify_lines(verdict: Verdict) -> Iterator[dict[str, Any]]:
    """Yield a finding a line, then predictions, then the summary."""
    yield from finding_objects(verdict)
    document = verify_document(verdict)
    del document["findings"]
    for value in document.pop("predictions", ()):
        yield {"type": "prediction"} | value
    yield {"type": "summary"} | document


def lines_of_store(verdict: Verdict) -> Iterator[dict[str, Any]]:
    """Yield the same for one store of many: each finding names its store."""
    place = {"store": verdict.report.store, "part": verdict.part}
    for value in verify_lines(verdict):
        yield value | place if value["type"] == "finding" else value


def write_verdict(verdict: Verdict, chosen: Format, stream: TextIO) -> None:
    """Write a verdict for programs; csv has the findings."""
    columns = FINDING_COLUMNS if verdict.comparison is None else (*FINDING_COLUMNS, "known")
    lines, rows = partial(verify_lines, verdict), partial(finding_objects, verdict)
    write_document(chosen, stream, partial(verify_document, verdict), lines, columns, rows)


def finding_objects(verdict: Verdict) -> Iterator[dict[str, Any]]:
    """Yield the kept findings as objects, each with the code of the finding that it follows from."""
    for (finding, known), root in zip(verdict.findings(), verdict.roots.of, strict=True):
        value = json_object(finding) | {"root": None if root is None else label_of_root(root)}
        yield value if verdict.comparison is None else value | {"known": known}


def _compared(verdict: Verdict) -> dict[str, Any]:
    compared = verdict.comparison
    if compared is None:
        return {}
    baseline = {
        "known": compared.known_count,
        "knownByNumber": compared.by_number,
        "new": compared.new.counts,
        "gone": compared.gone,
    }
    return {"baseline": baseline}
