"""Text report of a repair, planned or done."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rmqtool.account.model import lost_words
from rmqtool.commands.repair.model import RepairAction, RepairOutcome, RepairReport
from rmqtool.errors import ExitStatus
from rmqtool.findings.model import counted
from rmqtool.report.lost_text import log_loss_facts
from rmqtool.report.terminal import escape_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.doctor import ConfigChoice, ConfigDiagnosis, OffsetEffect

_LISTED = 20
_HEADLINES = {
    RepairOutcome.NOTHING: "nothing to repair",
    RepairOutcome.PLANNED: "nothing is changed yet",
    RepairOutcome.INTERRUPTED: "an interrupted repair waits to be finished; these moves are left",
    RepairOutcome.DONE: "repaired",
    RepairOutcome.FINISHED: "an interrupted repair is finished",
    RepairOutcome.ROLLED_BACK: "taken back: the store was no better for it",
    RepairOutcome.UNDONE: "the newest repair is taken back: every byte is as before",
}
_BEFORE = frozenset({RepairOutcome.NOTHING, RepairOutcome.PLANNED, RepairOutcome.ROLLED_BACK})
"""Outcomes that leave the user to choose."""

_WORDS = {
    RepairAction.SET_ASIDE: "set aside",
    RepairAction.PUT_IN: "put in",
    RepairAction.REPLACE: "replace",
}


def write_repair_text(report: RepairReport, stream: TextIO) -> None:
    """Write the report."""
    for line in _lines(report):
        stream.write(escape_text(line) + "\n")


def _lines(report: RepairReport) -> Iterator[str]:
    yield f"{report.store}: {_HEADLINES[report.outcome]}{_what_else(report)}"
    for step in report.steps:
        yield f"{_WORDS[step.action]:<14} {step.path}: {step.why}"
    for one in report.left:
        yield f"{'left as it is':<14} {one.path}: {one.why}"
    for name, text in log_loss_facts(report.log_losses):
        yield f"{name:<14} {text}"
    if report.log_losses is not None and report.log_losses.messages:
        kept = "" if report.journal is None else f"; what proves them is in {report.journal}/"
        yield f"{'':<14} a replica may have them: rmqtool salvage STORE REPLICA --out DIR{kept}"
    for diagnosis in report.configs if report.outcome in _BEFORE else ():
        yield from _diagnosis(diagnosis)
    if report.after is not None:
        yield f"{'findings':<14} {_counts(report.before)}; now {_counts(report.after)}"
    if report.outcome is RepairOutcome.INTERRUPTED:
        yield f"{'or undo':<14} rmqtool repair --undo; {report.journal}/journal.ndjson lists all its moves"
    elif report.journal is not None and report.outcome is not RepairOutcome.UNDONE:
        yield f"{'undo':<14} rmqtool repair --undo; the previous files are in {report.journal}/"


def _what_else(report: RepairReport) -> str:
    lost = report.log_losses.messages if report.log_losses is not None else 0
    said = f"; {lost_words(lost)}" if lost else ""
    if report.findings.exit_status() is ExitStatus.FAILED:
        said += "; not all of it may be read, rmqtool verify says what"
    if report.left:
        stays = counted(len(report.left), "thing stays as it is", "things stay as they are")
        return f"{said}; {stays}, see below"
    return said


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {code}" for code, count in counts.items()) or "none"


def _diagnosis(one: ConfigDiagnosis) -> Iterator[str]:
    yield f"{one.file}: a broker now takes {one.broker.value}"
    for copy in one.copies:
        yield f"  {'copy':<12} {copy}, {copy.size_bytes:,} bytes"
    for number, choice in enumerate(one.choices):
        mark = " (the doctor's)" if number == 0 and one.obvious else ""
        yield f"  {choice.name:<12} {choice.about}{mark}: {_meaning(choice)}"
        shown = [effect for effect in choice.effects if _is_felt(effect)]
        for effect in shown[:_LISTED]:
            yield f"    {_effect(effect)}"
        if len(shown) > _LISTED:
            yield f"    and {counted(len(shown) - _LISTED, 'queue')} more, see --format json"


def _meaning(choice: ConfigChoice) -> str:
    said = choice.consequences()
    if choice.missing:
        more = f" and {len(choice.missing) - _LISTED} more" if len(choice.missing) > _LISTED else ""
        said.append(f"without {', '.join(choice.missing[:_LISTED])}{more}")
    return ", ".join(said)


def _is_felt(effect: OffsetEffect) -> bool:
    return effect.offset is None or bool(effect.again_at_most or effect.skipped_at_most)


def _effect(effect: OffsetEffect) -> str:
    at = "restarts" if effect.offset is None else f"goes on at {effect.offset:,}"
    queue = (
        "no such queue" if effect.max_offset is None else f"{effect.min_offset:,} to {effect.max_offset:,}"
    )
    again = f"{effect.again_at_least:,} to {effect.again_at_most:,} again"
    return (
        f"{effect.reader} in {effect.topic}/{effect.queue_id} ({queue}): {at}, {again},"
        f" up to {effect.skipped_at_most:,} skipped"
    )
