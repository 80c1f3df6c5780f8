"""Text report of a store's summary."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from rmqtool.account import before_words, losses_words
from rmqtool.commands.info import QueueSummary, StoreSummary
from rmqtool.findings import NOT_READ, Severity, codes, counted
from rmqtool.projection import columns_of, json_object
from rmqtool.report.output import Format, document_of, several, size_text, write_document
from rmqtool.report.sentences import before_facts, log_loss_facts, unconfirmed_facts
from rmqtool.store import Origin, PathKind, Setting
from rmqtool.store.broker_conf import conf_text
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from rmqtool.errors import ExitStatus
    from rmqtool.report.text_report import TextReport


_EXPLAINED = {"brokerVersion", "indexTimezone"}
_LISTED = 200
"""Rows of one table that are shown; drawing a row takes half a millisecond."""


def info_text(
    summary: StoreSummary, zone: tzinfo | None, next_command: str, text: TextReport, *, details: bool = False
) -> None:
    """Write a store's summary; ``details`` adds every queue, and settings that do not concern this store."""
    title = f"{_verdict(summary)}: {summary.kind} {summary.path}"
    text.verdict(title, _facts(summary, zone), next_command)
    text.table("Topics", ("topic", "queues", "messages"), _topics(summary.queues), listed=_LISTED)
    if details:
        queues = [
            tuple(map(str, (one.topic, one.queue_id, one.min_offset, one.max_offset, one.messages)))
            for one in summary.queues
        ]
        text.table(
            "Queues", ("topic", "queue", "min offset", "max offset", "messages"), queues, listed=_LISTED
        )
    files = [
        (index.file, f"{index.items} of {index.room}", time_text(index.begin_timestamp_ms, zone))
        for index in summary.index
    ]
    text.table("Index files", ("file", "items", "first message stored"), files, listed=_LISTED)
    text.findings(summary.findings, _LISTED)
    text.table("Settings", ("setting", "value", "origin"), _settings(summary, all_settings=details))


def _verdict(summary: StoreSummary) -> str:
    severities = Counter(
        finding.severity for finding in summary.findings if finding.code is not codes.IO_DENIED
    )
    states = [
        counted(severities[severity], word)
        for severity, word in ((Severity.ERROR, "error"), (Severity.WARNING, "warning"))
        if severities[severity]
    ]
    if codes.CQ_MISSING_MSG.code in summary.findings.counts:
        states.insert(0, "consume queues are missing")
    if lost := losses_words(summary.log_losses):
        states.insert(0, lost)
    if summary.lock_holder:
        states.insert(0, "in use by a broker")
    elif summary.abort:
        states.insert(0, "not stopped cleanly")
    if summary.denied:
        states.insert(0, "some files could not be read")
    elif any(finding.structure in NOT_READ for finding in summary.findings):
        states.insert(0, "not all of it is read")
    verdict = ", ".join(states)
    if not states:
        stopped = "stopped cleanly, " if summary.kind == PathKind.STORE.value else ""
        verdict = f"{stopped}names and sizes in order, contents not checked"
    return f"{verdict[0].upper()}{verdict[1:]}{before_words(summary)}"


def _topics(queues: Sequence[QueueSummary]) -> list[tuple[str, str, str]]:
    counts: dict[str, list[int]] = {}
    for queue in queues:
        total = counts.setdefault(str(queue.topic), [0, 0])
        total[0] += 1
        total[1] += queue.messages
    return [(topic, str(number), str(held)) for topic, (number, held) in counts.items()]


def _settings(summary: StoreSummary, *, all_settings: bool) -> list[tuple[str, str, str]]:
    """Return the settings with their origin and its evidence; defaults of absent parts are folded."""
    kinds = {queue.kind for queue in summary.queues}
    present = {
        "mappedFileSizeConsumeQueueExt": any(
            setting.name == "enableConsumeQueueExt" and setting.value for setting in summary.settings
        ),
        "mapperFileSizeBatchConsumeQueue": PathKind.BATCHCONSUMEQUEUE.value in kinds,
    }
    shown = [
        setting
        for setting in summary.settings
        if all_settings
        or setting.origin is not Origin.DEFAULT
        or (setting.value is not None and present.get(setting.name, True))
    ]
    lines = [
        (setting.name, "-" if setting.value is None else conf_text(setting.value), _origin(setting))
        for setting in shown
    ]
    folded = len(summary.settings) - len(shown)
    return [*lines, (f"{folded} more with -v", "", "")] if folded else lines


def _origin(setting: Setting) -> str:
    if setting.doubt:
        return f"{setting.origin.value}, in doubt: {setting.doubt}"
    has_note = setting.note and setting.name in _EXPLAINED
    return f"{setting.origin.value}: {setting.note}" if has_note else setting.origin.value


def _facts(summary: StoreSummary, zone: tzinfo | None) -> list[tuple[str, str]]:
    facts = [*_log_facts(summary, zone), *_loss_facts(summary)]
    if summary.queues:
        topics = len({(queue.kind, queue.topic) for queue in summary.queues})
        messages = sum(queue.messages for queue in summary.queues)
        number, of = several(len(summary.queues), "queue"), several(topics, "topic")
        facts.append(("consume queues", f"{number} of {of}, {several(messages, 'message')}"))
    facts += _index_facts(summary, zone)
    if summary.checkpoint is not None:
        checkpoint = summary.checkpoint
        times = (
            checkpoint.physic_msg_timestamp_ms,
            checkpoint.logics_msg_timestamp_ms,
            checkpoint.index_msg_timestamp_ms,
        )
        for name, timestamp_ms in zip(("log", "queues", "index"), times, strict=True):
            facts.append((f"checkpoint, {name}", time_text(timestamp_ms, zone) if timestamp_ms else "-"))
    if (epochs := summary.epochs) is not None:
        newest = f"{epochs.number}, the newest {epochs.newest} from physical offset {epochs.start} on"
        facts.append(("epochs", f"{epochs.file}: {newest if epochs.number else 'none that a broker loads'}"))
    facts += [
        (part.name, f"{part.path}: {'empty' if part.empty else part.note or 'not examined'}")
        for part in summary.other_parts
    ]
    if summary.retention is not None:
        facts.append(("retention", summary.retention))
    if summary.abort:
        process = "" if summary.abort_process is None else f", of process {summary.abort_process}"
        facts.append(("stopped cleanly", f"no: abort is there{process}"))
    if summary.lock_holder:
        facts.append(("lock", f"held by {summary.lock_holder}"))
    return facts


def _loss_facts(summary: StoreSummary) -> Iterator[tuple[str, str]]:
    """Yield what the log has lost; what is not counted is not 0."""
    yield from log_loss_facts(summary.log_losses)
    yield from unconfirmed_facts(summary.log_losses)
    if summary.log is None:
        return
    if summary.log_losses is None:
        yield from before_facts(summary)
        yield "log lost", "not counted here: rmqtool verify reads the whole log"
    elif not summary.log_losses.messages:
        yield "log lost", "no message"


def _index_facts(summary: StoreSummary, zone: tzinfo | None) -> list[tuple[str, str]]:
    coverage = summary.index_coverage
    if coverage is None:
        return [("index", "no items")] if summary.index else []
    rest = ""
    if summary.log is not None:
        after = summary.log.end - coverage.end_phy_offset
        rest = f", {size_text(abs(after))} {'before' if after > 0 else 'beyond'} the log's end"
    begin, end = (time_text(ms, zone) for ms in (coverage.begin_timestamp_ms, coverage.end_timestamp_ms))
    return [
        ("index", f"{several(coverage.items, 'item')}, room for {coverage.room:,}"),
        ("index covers", f"physical offset {coverage.begin_phy_offset} to {coverage.end_phy_offset}{rest}"),
        ("", f"{begin} to {end}"),
    ]


def _log_facts(summary: StoreSummary, zone: tzinfo | None) -> list[tuple[str, str]]:
    log = summary.log
    if log is None:
        return [("commit log", "not read" if summary.denied else "none")]
    facts = [
        ("commit log", f"{counted(log.files, 'file')}, {size_text(log.size_bytes)}"),
        ("physical offsets", f"{log.start} to {log.end}" + ("" if log.clean_end else ", then damage")),
    ]
    if log.first_store_timestamp_ms is not None:
        facts.append(("first message", time_text(log.first_store_timestamp_ms, zone)))
    if log.last_store_timestamp_ms is not None:
        facts.append(("last message", time_text(log.last_store_timestamp_ms, zone)))
    if log.gaps:
        facts.append(("gaps", f"{log.gaps}, {log.missing_bytes} bytes missing"))
    return facts


_LINES = (
    ("commitlog", "commitlog"),
    ("queues", "queue"),
    ("index", "index"),
    ("indexCoverage", "index-coverage"),
    ("otherParts", "part"),
    ("checkpoint", None),
    ("epochs", "epochs"),
    ("logLosses", "log-losses"),
    ("findings", None),
)
"""Members of the document that are lines of ndjson, with their types; None: they have one."""


def info_objects(summary: StoreSummary, status: ExitStatus) -> Iterator[dict[str, Any]]:
    """Yield the same as objects of one line each, distinguished by ``type``."""
    document = document_of(summary, status)
    names = ("schema", "path", "kind", "abort", "abortProcess", "lockHolder", "before", "retention")
    yield {"type": "store"} | {name: document[name] for name in names}
    for name, setting in document["settings"].items():
        yield {"type": "setting", "name": name} | setting
    for member, kind in _LINES:
        content = document[member]
        for value in content if isinstance(content, list) else [content] if content is not None else ():
            yield value if kind is None else {"type": kind} | value


def write_info(summary: StoreSummary, status: ExitStatus, chosen: Format, stream: TextIO) -> None:
    """Write a store's summary for programs; csv has the queues."""
    document, lines = partial(document_of, summary, status), partial(info_objects, summary, status)
    columns = ("type", *columns_of(QueueSummary))
    queues = ({"type": "queue"} | json_object(queue) for queue in summary.queues)
    write_document(chosen, stream, document, lines, columns, lambda: queues)
