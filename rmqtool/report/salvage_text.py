"""Text report of a salvage."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rmqtool.findings.model import counted
from rmqtool.report.formats import size_text
from rmqtool.report.terminal import escape_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.commands.salvage import SalvageReport

_LISTED = 20


def write_salvage_text(report: SalvageReport, stream: TextIO) -> None:
    """Write the summary."""
    for line in _lines(report):
        stream.write(line + "\n")


def _lines(report: SalvageReport) -> Iterator[str]:
    yield report.verdict
    for number, store in enumerate(report.stores):
        yield f"{'copy' if number else 'store':<14} {escape_text(store)}"
    if report.out is not None:
        yield f"{'result':<14} {escape_text(report.out)}"
    yield from _account(report)
    yield from _left_out(report)
    if report.units is not None:
        yield f"{'units':<14} {report.units:,}"
        yield f"{'index entries':<14} {report.index_entries:,}"
    yield from _queues(report)
    for one in report.config:
        if one.problem is not None:
            yield f"{'config':<14} {escape_text(one.label)} is not copied: {escape_text(one.problem)}"
        elif one.mended is not None:
            yield f"{'config':<14} {escape_text(one.label)} was damaged, and is now {escape_text(one.mended)}"
    for note in report.notes[:_LISTED]:
        yield f"{'note':<14} {escape_text(note)}"
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.seconds.items())
    if stages:
        yield f"{'seconds':<14} {stages}"


def _account(report: SalvageReport) -> Iterator[str]:
    parts = report.bytes
    healed = f", {report.healed:,} of them from other copies" if report.healed else ""
    yield f"{'records':<14} {report.records:,} in {size_text(parts.records)}{healed}"
    made = (
        (parts.tombstones, "tombstones"),
        (parts.fillers, "fillers"),
        (parts.blank, "BLANK"),
        (parts.zeros, "zeros after the end"),
    )
    shown = ", ".join(f"{size_text(size)} {word}" for size, word in made if size)
    shown = f", {shown}" if shown else ""
    yield f"{'log':<14} {size_text(parts.log)}: {size_text(parts.records)} records{shown}"


def _left_out(report: SalvageReport) -> Iterator[str]:
    words = {
        "body": "whose body does not match its checksum: --keep-damaged keeps it",
        "properties": "whose properties are torn, or fail its own checksum: --keep-damaged keeps it",
        "stale": "that looks like old bytes: --include-stale keeps it",
        "fields": "whose queue fields are contradicted",
        "room": "that leaves no room for what must stand beside it",
        "conflict": "that differs from another copy's",
    }
    grounds = {
        "units": "more of the copies' queues list the other",
        "text": "its properties are not text, or have names that no record has",
        "neighbours": "the other continues the queue offsets and store times",
        "nothing": "no evidence, so the earlier copy's stays",
    }
    for cause, count in sorted(report.left_out.items()):
        yield f"{'left out':<14} {counted(count, 'record')} {words[cause]}; in lost+found/"
    for one, count in sorted(report.conflicts.items()):
        yield f"{'copies differ':<14} {counted(count, 'record')} put aside: {grounds[one]}"
    if report.odd_times:
        yield f"{'odd times':<14} {counted(report.odd_times, 'record')} whose store time is out of order"


def _queues(report: SalvageReport) -> Iterator[str]:
    hurt = [one for one in report.queues if one.not_given_back]
    for one in hurt[:_LISTED]:
        name = f"{escape_text(one.topic)}/{one.queue_id}"
        gone = one.not_given_back - one.placed
        missing = f", {gone:,} with nothing in their place" if gone else ""
        damaged = f", {one.damaged:,} there but damaged" if one.damaged else ""
        again = "" if one.orderly else "; it gave queue offsets more than once, so others may move"
        bounds = f"{one.first_queue_offset:,} to {one.end_queue_offset - 1:,}"
        yield f"{'lost':<14} {name}: {one.lost:,} of the messages {bounds}{damaged}{missing}{again}"
    if report.lost.indexed:
        yield f"{'lost':<14} {report.lost.indexed:,} of unknown queues, by index items alone"
    if len(hurt) > _LISTED:
        yield f"{'lost':<14} in {counted(len(hurt) - _LISTED, 'queue')} more, see --format json"
    for one in report.moving[:_LISTED]:
        name = f"{escape_text(one.topic)}/{one.queue_id}"
        offsets = counted(
            one.unknown, "queue offset without a record", "queue offsets without a record", spec=","
        )
        yield f"{'moves':<14} {name}: {offsets}, though nothing is lost there; later messages move down"
    if len(report.moving) > _LISTED:
        yield f"{'moves':<14} {counted(len(report.moving) - _LISTED, 'queue')} more, see --format json"
