"""First line of a verdict, and the next command."""

from __future__ import annotations

import shlex
from itertools import groupby
from posixpath import basename, join
from typing import TYPE_CHECKING

from rmqtool.account.model import lost_words
from rmqtool.check.model import PREDICTED, VerifyReport
from rmqtool.doctor.copies import ONLY_SHOWN
from rmqtool.errors import ExitStatus
from rmqtool.findings import Severity, Structure
from rmqtool.findings.codes import (
    CF_FORGETS,
    CF_REFUSED,
    CL_STRAY,
    IO_DENIED,
    IX_GONE,
    NS_SKIPPED,
    OF_AHEAD,
    ST_DOUBT,
    ST_TIMER_GAP,
)
from rmqtool.findings.log import NOT_READ
from rmqtool.findings.model import counted
from rmqtool.io.local import as_owner
from rmqtool.io.object_urls import is_object_url
from rmqtool.report.terminal import escape_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.commands.verify.verdict import Verdict
    from rmqtool.recovery.model import Prediction
    from rmqtool.recovery.outcome import StartOutcome

_REBUILT = {Structure.CONSUMEQUEUE, Structure.INDEX}
_DAMAGE = {
    ExitStatus.NEGATIVE: "Damage outside the commit log",
    ExitStatus.LOG_DAMAGED: "The commit log is damaged",
    ExitStatus.FAILED: "No verdict, some files could not be read",
}

_SETTINGS = {CF_FORGETS.code, CF_REFUSED.code}
_TIMER_GAP = ", but never delivers timed messages whose chain crosses the gap in timerlog/"


def headline(verdict: Verdict) -> str:
    """Return the verdict in one line, with the store."""
    return f"{verdict_line(verdict)}: {escape_text(verdict.report.store)}"


def verdict_line(verdict: Verdict) -> str:
    """Return the verdict in one line: damage, unexamined parts, and the next start."""
    said = "Interrupted: no verdict" if verdict.report.interrupted is not None else _damage(verdict)
    return said + "".join(f"; {one}" for one in _starts(verdict))


def next_command(verdict: Verdict) -> str | None:
    """Return the command that helps further, for pasting; None where nothing has to be done."""
    words = _next_words(verdict)
    return None if words is None else escape_text(shlex.join(words))


def _damage(verdict: Verdict) -> str:
    report = verdict.report
    status = report.damage_status
    if status is ExitStatus.FAILED and names_limits(report):
        return _not_judged(report)
    if only_strays(verdict):
        said = "No damage found, but a stray file in commitlog/ stops a start"
    elif status is not ExitStatus.CLEAN:
        said = _DAMAGE[status]
        if status is ExitStatus.NEGATIVE and not report.examined.commitlog_files:
            said = "Damage found"
    else:
        said = "No damage found"
        if report.limits:
            said += f" in the examined part ({'; '.join(map(escape_text, report.limits))})"
    missing = report.findings.counts.get(IX_GONE.code, 0)
    if missing and status is not ExitStatus.LOG_DAMAGED:
        entries = counted(missing, "entry that the log requires", "entries that the log requires", spec=",")
        said += f", but the index lacks {entries}" if not status else f"; the index lacks {entries}"
    if lost := log_losses(verdict):
        said += f"{', but' if not status else ';'} {lost_words(lost)}"
    ahead = report.findings.counts.get(OF_AHEAD.code, 0)
    if ahead:
        offsets = counted(ahead, "consumer offset lies", "consumer offsets lie", spec=",")
        said += f"{', but' if not status else ';'} {offsets} beyond the end of a queue"
    found = dict.fromkeys(one.file or "" for one in report.findings if one.code is CF_FORGETS)
    files = [file for file in found if file not in ONLY_SHOWN]
    if files and not status and not verdict.predictions:
        said += f", but the next start forgets what {' and '.join(map(basename, files))} held"
    return f"{said}, settings in doubt" if ST_DOUBT.code in report.findings.counts else said


def _not_judged(report: VerifyReport) -> str:
    rest = report.findings.exit_status(without={*PREDICTED, *NOT_READ})
    damage = f"; {_DAMAGE[rest][0].lower()}{_DAMAGE[rest][1:]}" if rest else ""
    return f"No verdict, not all of it was read ({'; '.join(map(escape_text, report.limits))}){damage}"


def only_strays(verdict: Verdict) -> bool:
    """Return whether all errors are of files outside of the log, which hold nothing of it."""
    report = verdict.report
    there = (one for one in report.findings if one.structure not in PREDICTED)
    errors = {one.code for one in there if one.severity is Severity.ERROR}
    return errors == {CL_STRAY} and report.damage_status is ExitStatus.NEGATIVE


def log_losses(verdict: Verdict) -> int:
    """Return how many messages the log has lost already, as far as examined."""
    known = (verdict.report.log_losses, *(one.log_losses for one in verdict.predictions))
    return max((one.messages for one in known if one is not None), default=0)


def _starts(verdict: Verdict) -> Iterator[str]:
    if not verdict.predictions and NS_SKIPPED.code not in verdict.report.findings.counts:
        return
    from rmqtool.recovery.outcome import StartOutcome, outcome_of  # with the pipeline

    damaged = verdict.report.damage_status is not ExitStatus.CLEAN
    ordered = sorted(verdict.predictions, key=outcome_of, reverse=True)
    for outcome, alike in groupby(ordered, key=outcome_of):
        more = " more" if (damaged or log_losses(verdict)) and outcome is StartOutcome.WHOLE else ""
        predictions = list(alike)
        start = _start(outcome, predictions, lost=bool(log_losses(verdict))) + more
        has_timer_gap = predictions[0].starts and ST_TIMER_GAP.code in verdict.report.findings.counts
        yield f"{start}{_not_served(predictions)}{_TIMER_GAP if has_timer_gap else ''}"
    if NS_SKIPPED.code in verdict.report.findings.counts:
        yield "the next start cannot be predicted"


def _start(outcome: StartOutcome, predictions: Sequence[Prediction], *, lost: bool) -> str:
    from rmqtool.recovery.outcome import StartOutcome, lost_messages

    names = [one.release.name for one in predictions]
    brokers = f"a {' or '.join([', '.join(names[:-1]), names[-1]] if names[1:] else names)} broker"
    if outcome is StartOutcome.LOSES:
        counts = sorted({lost_messages(one) for one in predictions})
        cut = counted(counts[-1], "message", spec=",") if not lost else f"{counts[-1]:,} more"
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


def _not_served(predictions: Sequence[Prediction]) -> str:
    """Return the words on messages that the log has and no pull delivers; may be empty."""
    most = max(one.not_served for one in predictions if one.starts) if predictions[0].starts else 0
    messages = counted(most, "message", spec=",")
    return f", but no pull delivers up to {messages} that the log has" if most else ""


def _forgets(predictions: Sequence[Prediction]) -> str:
    files = {basename(one.file): None for prediction in predictions for one in prediction.forgets}
    return " and ".join(f"what {name} held" for name in files)


def _next_words(verdict: Verdict) -> list[str] | None:
    report = verdict.report
    store = report.store
    if report.interrupted is not None:
        return _verify(verdict)
    if IO_DENIED.code in report.findings.counts:
        denied = next(one for one in report.findings if one.code is IO_DENIED)
        return [*as_owner(join(store, denied.file or "")), *_verify(verdict)]
    is_log_damaged = report.findings.exit_status(without={*NOT_READ, *PREDICTED}) is ExitStatus.LOG_DAMAGED
    is_of_settings = not _SETTINGS.isdisjoint(report.findings.counts) and not is_object_url(store)
    if (is_of_settings or only_strays(verdict)) and not is_log_damaged and not is_object_url(store):
        return ["rmqtool", "repair", store, *verdict.setting_arguments, "--plan"]
    is_unread = any(one.structure in NOT_READ for one in report.findings)
    if report.findings.exit_status(without=NOT_READ) is ExitStatus.LOG_DAMAGED:
        is_foreseen = verdict.predictions or NS_SKIPPED.code in report.findings.counts
        ask = ["rmqtool", "verify", store, *verdict.setting_arguments, "--predict-recovery"]
        return _copy(store, verdict.setting_arguments) if is_unread or is_foreseen else ask
    derived = report.findings.exit_status(without=set(Structure) - _REBUILT)
    if (derived or IX_GONE.code in report.findings.counts) and not is_unread:
        kept = ["--lost", _beside(store, "lost.ndjson")] if log_losses(verdict) else []
        return [
            "rmqtool",
            "rebuild",
            store,
            *verdict.setting_arguments,
            "--out",
            _beside(store, "rebuilt"),
            *kept,
        ]
    return None


def _copy(store: str, setting_arguments: tuple[str, ...]) -> list[str]:
    if is_object_url(store):
        return ["rmqtool", "salvage", store, *setting_arguments, "--out", _beside(store, "salvaged")]
    return ["cp", "-a", "--sparse=always", store, _beside(store, "copy")]


def _beside(store: str, ending: str) -> str:
    """Return a name for a result beside the store, or in the working directory if the store is on no disk."""
    return f"{basename(store) if is_object_url(store) else store.rstrip('/')}.{ending}"


def _verify(verdict: Verdict) -> list[str]:
    report = verdict.report
    path = report.store if verdict.part is None else join(report.store, verdict.part)
    level = [] if report.level == 3 else ["--level", str(report.level)]
    return ["rmqtool", "verify", path, *verdict.setting_arguments, *level]


def names_limits(report: VerifyReport) -> bool:
    """Return whether the first line names the unexamined parts."""
    status = report.damage_status
    return not status or (status is ExitStatus.FAILED and IO_DENIED.code not in report.findings.counts)


def is_healthy(verdict: Verdict) -> bool:
    """Return whether there is nothing to report but the figures."""
    worst = {finding.severity for finding in verdict.report.findings} - {Severity.INFO}
    return not worst and verdict.report.interrupted is None and verdict.comparison is None
