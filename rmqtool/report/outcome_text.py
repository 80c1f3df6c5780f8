"""Text reports of commands with one outcome: rebuild, salvage, carve, export, repair.

Each is a verdict with figures. A name of a figure repeats as often as there are figures of it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from rmqtool.account import before_words, losses_words
from rmqtool.errors import ExitStatus
from rmqtool.findings import codes, counted
from rmqtool.outcomes import is_needed
from rmqtool.report.output import capped, several, size_text
from rmqtool.report.sentences import before_facts, log_loss_facts, lost_facts, outcome_rows
from rmqtool.report.text_report import TextReport, stages_text
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.commands.carve import CarvedImage, CarvedLog, CarveReport
    from rmqtool.commands.convert import ConvertReport
    from rmqtool.commands.export import ExportReport
    from rmqtool.commands.rebuild.report import RebuildReport
    from rmqtool.commands.repair import RepairReport
    from rmqtool.commands.salvage import SalvageReport
    from rmqtool.doctor.choices import ConfigChoice, ConfigDiagnosis, OffsetEffect


def _queue(queue: Any) -> str:  # noqa: ANN401 - a count of a queue's messages
    return f"{queue.topic}/{queue.queue_id}"


# --- rebuild


def rebuild_text(report: RebuildReport, text: TextReport) -> None:
    """Write the outcome of a rebuild."""
    text.verdict(report.verdict, _rebuild_figures(report))
    text.findings(report.findings)


def _rebuild_figures(report: RebuildReport) -> Iterator[tuple[str, str]]:
    yield "store", report.store
    if report.out is not None:
        yield "result", report.out
    yield from _selected(report)
    yield "records", f"{report.records:,} in {size_text(report.bytes)} of log"
    account = report.account
    words = (
        (account.dispatched, "dispatched"),
        (account.not_asked_for, "not selected"),
        (account.skipped, "skipped"),
        (account.unreachable, "unreachable"),
    )
    parts = [f"{count:,} {word}" for count, word in words if count]
    if len(parts) > 1:
        yield "of these", f"{several(account.records, 'record')}: {', '.join(parts)}"
    yield "units", f"{report.units:,} in {several(report.queues, 'queue')}"
    yield "index entries", f"{report.index_entries:,}"
    yield from _present(report)
    yield from _assumed(report)
    files = ", ".join(f"{count} {name}" for name, count in sorted(report.files.items()))
    yield "files", files or "none"
    yield "seconds", stages_text(report.seconds)
    yield from (("not examined", what) for what in report.not_looked_at)
    yield from _not_dispatched(report)
    yield from log_loss_facts(report.log_losses)
    if report.lost_messages is not None:
        yield from lost_facts(report.lost_messages)
    if report.compared and not report.differences:
        yield "compared", "the present files are the same"
    for difference in report.differences if report.compared else ():
        yield "differs", f"{difference.file}: {difference.message.removeprefix('differs ')}"


def _assumed(report: RebuildReport | SalvageReport | ConvertReport) -> Iterator[tuple[str, str]]:
    yield from (("assumed", f"{name}={why}") for name, why in report.assumed.items())


def _selected(report: RebuildReport) -> Iterator[tuple[str, str]]:
    asked = report.asked
    if asked.topics:
        yield "topics", ", ".join(asked.topics)
    if asked.exclude_topics:
        yield "without topics", ", ".join(asked.exclude_topics)
    if asked.until_timestamp_ms is not None:
        yield "until", time_text(asked.until_timestamp_ms)
    if asked.until_offset is not None:
        yield "until offset", str(asked.until_offset)


def _present(report: RebuildReport) -> Iterator[tuple[str, str]]:
    present = report.present
    if present is None:
        return
    if present.fewer_messages or present.more_messages:
        entries = "" if present.index_entries is None else f", {present.index_entries:,} index entries"
        yield "now there", f"{several(present.messages, 'message')}{entries}"
    ranked = sorted(present.fewer_by_queue, key=lambda messages: -messages.messages)
    yield from capped("fewer", (f"{change.messages:,} in {_queue(change)}" for change in ranked), "queue")
    yield from capped("not compared", present.unread, "part")


def _not_dispatched(report: RebuildReport) -> Iterator[tuple[str, str]]:
    """Yield the records that are in no queue, and why."""
    skipped = (
        f"{skip.skip.length} bytes at {skip.skip.log_offset}: {skip.reason};"
        f" {counted(skip.records, 'good record')}"
        for skip in report.skipped
    )
    yield from capped("skipped", skipped, "range", more=report.more_skipped.ranges)
    unreachable = (
        f"{segment.segment.label}: {segment.reason}; {counted(segment.records, 'good record')}"
        for segment in report.unreachable
    )
    yield from capped("unreachable", unreachable, "file")
    older = (
        f"{_queue(generation)}: {several(generation.units, 'message')} from before the topic was deleted and"
        f" created again; {generation.kept:,} since, at {generation.physical_offset} and after"
        for generation in report.older_generations
    )
    yield from capped("left out", older, "queue")
    late = (
        f"{_queue(queue)}: {queue.units:,} messages: the queue holds later ones already"
        for queue in report.skipped_units_by_queue
    )
    yield from capped("without unit", late, "queue")
    if report.unindexed:
        yield "not indexed", f"{several(report.unindexed, 'message')}: the index holds later ones already"


# --- salvage

_LEFT_OUT = {
    "body": "body and checksum differ; --keep-damaged recovers such records",
    "properties": "properties or head are torn, contradicted by unit and index, or fail their own checksum;"
    " --keep-damaged recovers such records",
    "stale": "probably old bytes; --include-stale recovers such records",
    "fields": "queue ID or queue offset is contradicted",
    "room": "no room for what must stand beside it",
    "conflict": "another copy's record is recovered",
    "frame": "the body is damaged and contains whole records of the log, which are recovered",
}
_GROUNDS = {
    "units": "more of the copies' queues list the other",
    "text": "its properties are not text, or have names that no record has",
    "neighbours": "the other continues the queue offsets and store times",
    "nothing": "no evidence, so the earlier copy's stays",
}


def salvage_text(report: SalvageReport, text: TextReport) -> None:
    """Write the outcome of a salvage."""
    text.verdict(report.verdict, _salvage_figures(report))
    if is_needed(report.outcomes):
        text.table("Outcomes (* recommended)", *outcome_rows(report.outcomes), spare=("placeholders",))


def _salvage_figures(report: SalvageReport) -> Iterator[tuple[str, str]]:
    for number, store in enumerate(report.stores):
        yield "copy" if number else "store", store
    if report.out is not None:
        yield "result", report.out
    parts = report.bytes
    healed = f", {report.healed:,} of them from other copies" if report.healed else ""
    yield "records", f"{report.records:,} in {size_text(parts.records)}{healed}"
    made = (
        (parts.records, "records"),
        (parts.tombstones, "tombstones"),
        (parts.fillers, "rolled back messages"),
        (parts.blank, "BLANK"),
        (parts.zeros, "zeros after the end"),
    )
    shown = [f"{size_text(size)} {word}" for size, word in made if size or word == "records"]
    yield "log", f"{size_text(parts.log)}: {', '.join(shown)}"
    yield from _doubtful(report)
    if report.units is not None:
        yield "units", f"{report.units:,}"
        yield "index entries", f"{report.index_entries:,}"
    yield from _assumed(report)
    yield from _lost_by_queue(report)
    for file in report.config:
        if file.problem is not None:
            yield "config", f"{file.label} is not copied: {file.problem}"
        elif file.mended is not None:
            yield "config", f"{file.label} was damaged, and is now {file.mended}"
    yield from capped("note", report.notes, "note")
    if report.seconds:
        yield "seconds", stages_text(report.seconds)


def _doubtful(report: SalvageReport) -> Iterator[tuple[str, str]]:
    for cause, count in sorted(report.left_out.items()):
        yield "lost+found/", f"{counted(count, 'record')}: {_LEFT_OUT[cause]}"
    for ground, count in sorted(report.conflicts.items()):
        yield "copies differ", f"{counted(count, 'record')} put aside: {_GROUNDS[ground]}"
    if report.kept_damaged:
        records = counted(report.kept_damaged, "record")
        yield "damaged", f"{records} whose body or properties are not as stored"
    if report.odd_times:
        yield "odd times", f"{counted(report.odd_times, 'record')} whose store time is out of order"


def _lost_by_queue(report: SalvageReport) -> Iterator[tuple[str, str]]:
    lines = []
    for losses in (queue for queue in report.queues if queue.not_given_back):
        gone = losses.not_given_back - losses.placed
        missing = f", {gone:,} with nothing in their place" if gone else ""
        damaged = f", {losses.damaged:,} of them there but damaged" if losses.damaged else ""
        again = "" if losses.orderly else "; it gave queue offsets more than once, so others may move"
        messages = several(losses.end_queue_offset - losses.first_queue_offset, "message")
        runs = ", ".join(f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in losses.not_recovered)
        rest = losses.not_given_back - sum(b - a + 1 for a, b in losses.not_recovered)
        which = f"{runs}{f', and {rest:,} more' if rest > 0 else ''}"
        number = f"{losses.not_given_back:,} of {messages}"
        lines.append(f"{_queue(losses)} #{which}: {number}{damaged}{missing}{again}")
    yield from capped("lost", lines, "queue")
    if report.lost.indexed:
        yield "lost", f"{report.lost.indexed:,} of unknown queues, by index items alone"
    yield from before_facts(report.lost)
    moving = (
        f"{_queue(queue)}: {several(queue.unknown, 'queue offset', 'queue offsets')} without a record:"
        " later messages move down"
        for queue in report.moving
    )
    yield from capped("moves", moving, "queue")


# --- carve

_CAUSES = {
    "frame": "lengths do not add up",
    "body": "BODYCRC fails",
    "signature": "__CRC32# fails",
    "tail": "topic and properties may be another's",
    "inner": "inside another record",
    "conflict": "another record has its place",
    "straddles": "would lie in two files",
    "offset": "the records around them contradict their offset",
    "stray": "too few of their log",
}
_CARVED_LOGS = _HOSTS = 20


def carve_text(report: CarveReport, text: TextReport) -> None:
    """Write the outcome of a carving."""
    text.verdict(report.verdict, _carve_figures(report))


def _carve_figures(report: CarveReport) -> Iterator[tuple[str, str]]:
    yield from capped("image", map(_image, report.images), "image")
    if report.out is not None:
        yield "result", report.out
    for log in report.logs[:_CARVED_LOGS]:
        yield from _log(log)
    yield from capped("log", (log.directory for log in report.logs[_CARVED_LOGS:]), "log", listed=0)
    for cause, count in report.loose.items():
        yield "loose", f"{count:,} {_CAUSES[cause]}"
    yield from capped("note", report.notes, "note")
    yield "seconds", stages_text(report.seconds)


def _image(image: CarvedImage) -> str:
    parts = [f"{size_text(image.size_bytes)}, {size_text(image.used_bytes)} used"]
    if image.unreadable_bytes:
        parts.append(f"{size_text(image.unreadable_bytes)} could not be read")
    return f"{image.path}: {', '.join(parts)}"


def _log(log: CarvedLog) -> Iterator[tuple[str, str]]:
    hosts = ", ".join(log.store_hosts[:_HOSTS])
    more = f" and {len(log.store_hosts) - _HOSTS} more" if len(log.store_hosts) > _HOSTS else ""
    yield "log", f"{log.directory}: store host {hosts}{more}"
    bounds = f"{log.first_offset:,} to {log.end_offset:,}"
    yield "", f"{several(log.records, 'record')}, {size_text(log.bytes)}, {bounds}"
    yield "", f"stored {time_text(log.first_stored_ms)} to {time_text(log.last_stored_ms)}"
    size = f"{log.file_size:,} bytes ({log.file_size_origin.value})"
    yield "", f"{several(log.files, 'file')} of {size}"
    if log.holes:
        yield "", f"{several(log.holes, 'hole')}, {log.missing_bytes:,} bytes missing"
    if log.duplicates or log.conflicts:
        yield "", f"{log.duplicates:,} duplicates, {log.conflicts:,} conflicts"


# --- convert


_ADDRESSES = {
    "preparedTransactionOffset": "prepared transaction offsets mapped",
    "messageIds": "message IDs in properties mapped",
    "halfMessageOffsets": "offsets of half messages in properties mapped",
    "timerUnits": "units of the timer mapped",
    "unknown": "lead to no entry, and stay",
}


def convert_text(report: ConvertReport, text: TextReport) -> None:
    """Write the outcome of a conversion."""
    text.verdict(report.verdict, _convert_figures(report))


def _convert_figures(report: ConvertReport) -> Iterator[tuple[str, str]]:
    yield "store", report.store
    yield "result", report.out
    first, last = report.files[0].first_entry, report.files[-1].first_entry + report.files[-1].entries - 1
    yield "entries", f"{first:,} to {last:,} of {report.member}, term {report.term}"
    yield "log", f"{report.start:,} to {report.end:,}, {several(len(report.files), 'file')} of entries"
    if report.kept_files:
        yield "kept", f"{several(report.kept_files, 'older file')}, as they are"
    for kind, count in report.addresses.items():
        yield "addresses", f"{count:,} {_ADDRESSES[kind]}"
    yield "units", f"{report.units:,} in {several(report.queues, 'queue')}"
    if report.kept_queues:
        yield "kept", f"{several(report.kept_queues, 'queue')} without messages in the log"
    yield "index entries", f"{report.index_entries:,}"
    yield from _assumed(report)
    yield from (("not copied", f"{name}: {why}") for name, why in report.not_copied.items())
    yield "seconds", stages_text(report.seconds)


# --- export


def export_text(report: ExportReport, text: TextReport) -> None:
    """Write the outcome of an export."""
    size = size_text(sum(file.bytes for file in report.files))
    figures = [
        *(("store", store) for store in report.stores),
        *(("left out", one.reason) for one in report.left_out),
        ("result", report.out),
        ("files", f"{several(len(report.files), report.format + ' file')}, {size}"),
        ("seconds", f"{report.seconds:.2f}"),
    ]
    text.verdict(f"{several(report.messages, 'message')} of {size_text(report.log_bytes)} of log", figures)
    text.findings(report.findings)
    for code in report.findings.counts:
        if more := report.findings.suppressed(code):
            text.line(f"{code}: {more:,} more")


# --- repair

_REPAIRS = {
    "nothing-to-do": "nothing to repair",
    "planned": "nothing is changed yet",
    "interrupted": "an interrupted repair waits to be finished; these moves are left",
    "done": "repaired",
    "finished": "an interrupted repair is finished",
    "rolled-back": "taken back: the store was no better for it",
    "undone": "the newest repair is taken back: every byte is as before",
}
_UNREPAIRED = "nothing is repaired"
_OF_LOG = "the commit log is damaged: repair changes none"
_TO_BE_CHOSEN = frozenset({"nothing-to-do", "planned", "rolled-back"})
"""Outcomes that leave the user to choose."""

_STEPS = {"set-aside": "set aside", "put-in": "put in", "replace": "replace"}
_MISSING = 20
_BROKER_TAKES = {
    "file": "a broker starting now reads it",
    "bak": "a broker starting now reads .bak",
    "nothing": "a broker starting now forgets all of it",
    "refuses": "no broker starts on it",
    "unknown": "a copy that decides what a broker reads cannot be read here",
}


def repair_text(report: RepairReport, text: TextReport) -> None:
    """Write a repair, planned or done."""
    text.verdict(f"{report.store}: {_outcome(report)}{_what_else(report)}", _repair_figures(report))
    for diagnosis in report.configs if report.outcome in _TO_BE_CHOSEN else ():
        title = f"{diagnosis.file}: {_BROKER_TAKES[diagnosis.broker]}"
        text.pairs(title, _choices(diagnosis))


def _outcome(report: RepairReport) -> str:
    left = {part.path for part in report.left}
    if report.outcome != "nothing-to-do" or not left:
        is_damaged = report.findings.exit_status() is ExitStatus.LOG_DAMAGED
        nothing = is_damaged and report.outcome == "nothing-to-do"
        return _OF_LOG if nothing else _REPAIRS[report.outcome]
    due = [config.file for config in report.configs if config.choices and config.file in left]
    return f"nothing is repaired before you choose the content of {' and '.join(due)}" if due else _UNREPAIRED


def _repair_figures(report: RepairReport) -> Iterator[tuple[str, str]]:
    from rmqtool.commands.repair import RESTORE_LOG  # the texts of other commands need none of it

    for step in report.steps:
        yield _STEPS[step.action], f"{step.path}: {step.why}"
    yield from _merged_figures(report)
    for why in dict.fromkeys(part.why for part in report.left):
        paths = ", ".join(part.path for part in report.left if part.why == why)
        yield "left as it is", f"{paths}: {why}"
    yield from log_loss_facts(report.log_losses)
    if report.log_losses is not None and report.log_losses.messages:
        kept = "" if report.journal is None else f"; what proves them is in {report.journal}/"
        heal = "a replica may have them: rmqtool diff STORE REPLICA"
        yield "", f"{RESTORE_LOG if codes.ST_NO_COMMITLOG.code in report.findings.counts else heal}{kept}"
    if report.after is not None:
        yield "findings", f"{_counts(report.before)}; now {_counts(report.after)}"
    undo = shlex.join(["rmqtool", "repair", report.store, "--undo"])
    if report.outcome == "interrupted":
        yield "or undo", f"{undo}; {report.journal}/journal.ndjson lists all its moves"
    elif report.journal is not None and report.outcome != "undone":
        yield "undo", f"{undo}; the previous files are in {report.journal}/"


_MOST_MERGED = 20


def _merged_figures(report: RepairReport) -> Iterator[tuple[str, str]]:
    """Yield settings of another store, taken or left out, and the rule for each."""
    for setting in report.merged[:_MOST_MERGED]:
        queue = "" if setting.queue_id is None else f" queue {setting.queue_id}"
        ours = "none" if setting.ours is None else str(setting.ours)
        offsets = "" if setting.theirs is None else f": {ours} here, {setting.theirs} there"
        result = f", {setting.result} then" if setting.taken and setting.theirs is not None else ""
        word = "take" if setting.taken else "leave out"
        yield word, f"{setting.file}: {setting.entry}{queue}{offsets}{result}: {setting.why}"
    if len(report.merged) > _MOST_MERGED:
        yield "", f"{len(report.merged) - _MOST_MERGED:,} more settings, see --format json"


def _what_else(report: RepairReport) -> str:
    losses = report.log_losses
    lost = f"; {said}" if (said := losses_words(losses)) else ""
    said = lost + before_words(losses)
    if report.findings.exit_status() is ExitStatus.FAILED:
        said += "; not all of it may be read, rmqtool verify says what"
    if report.left:
        stays = counted(len(report.left), "part stays as it is", "parts stay as they are")
        return f"{said}; {stays}, see below"
    return said


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {code}" for code, count in counts.items()) or "none"


def _choices(diagnosis: ConfigDiagnosis) -> Iterator[tuple[str, str]]:
    for copy in diagnosis.copies:
        yield "copy", f"{copy}, {copy.size_bytes:,} bytes"
    for number, choice in enumerate(diagnosis.choices):
        mark = " (recommended)" if number == 0 and diagnosis.obvious else ""
        yield choice.name, f"{choice.about}{mark}: {_meaning(choice)}"
        felt = (
            effect
            for effect in choice.effects
            if effect.offset is None or effect.again_at_most or effect.skipped_at_most
        )
        yield from capped("", (f"  {_effect(effect)}" for effect in felt), "queue")


def _meaning(choice: ConfigChoice) -> str:
    said = choice.consequences()
    if choice.missing:
        more = f" and {len(choice.missing) - _MISSING} more" if len(choice.missing) > _MISSING else ""
        said.append(f"without {', '.join(choice.missing[:_MISSING])}{more}")
    return ", ".join(said)


def _effect(effect: OffsetEffect) -> str:
    at = "restarts" if effect.offset is None else f"resumes at {effect.offset:,}"
    queue = "no such queue"
    if effect.max_offset is not None:
        queue = f"{effect.min_offset:,} to {effect.max_offset:,}"
    return f"{effect.reader} in {_queue(effect)} ({queue}): {at}; {effect.consequences}"
