"""Text report of a carving."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rmqtool.findings.model import counted
from rmqtool.report.formats import size_text
from rmqtool.report.terminal import escape_text
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.commands.carve import CarvedImage, CarvedLog, CarveReport

_LISTED = 20
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


def write_carve_text(report: CarveReport, stream: TextIO) -> None:
    """Write the summary."""
    for line in _lines(report):
        stream.write(line + "\n")


def _lines(report: CarveReport) -> Iterator[str]:
    yield report.verdict
    for image in report.images[:_LISTED]:
        yield f"{'image':<14} {_image(image)}"
    if len(report.images) > _LISTED:
        yield f"{'':<14} and {len(report.images) - _LISTED} more"
    if report.out is not None:
        yield f"{'result':<14} {escape_text(report.out)}"
    for log in report.logs[:_LISTED]:
        yield from _log(log)
    if len(report.logs) > _LISTED:
        yield f"{'':<14} and {counted(len(report.logs) - _LISTED, 'log')} more, see --format json"
    for cause, count in report.loose.items():
        yield f"{'loose':<14} {count:,} {_CAUSES[cause]}"
    for note in report.notes[:_LISTED]:
        yield f"{'note':<14} {escape_text(note)}"
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.seconds.items())
    yield f"{'seconds':<14} {stages}"


def _image(image: CarvedImage) -> str:
    parts = [f"{size_text(image.size_bytes)}, {size_text(image.used_bytes)} used"]
    if image.unreadable_bytes:
        parts.append(f"{size_text(image.unreadable_bytes)} could not be read")
    if image.left_out_bytes:
        parts.append(f"{size_text(image.left_out_bytes)} not read, by its map")
    return f"{escape_text(image.path)}: {', '.join(parts)}"


def _log(log: CarvedLog) -> Iterator[str]:
    hosts = ", ".join(log.store_hosts[:_LISTED])
    more = f" and {len(log.store_hosts) - _LISTED} more" if len(log.store_hosts) > _LISTED else ""
    yield f"{'log':<14} {log.directory}: store host {hosts}{more}"
    yield (
        f"{'':<14} {counted(log.records, 'record', spec=',')}, {size_text(log.bytes)},"
        f" {log.first_offset:,} to {log.end_offset:,}"
    )
    yield f"{'':<14} stored {time_text(log.first_stored_ms)} to {time_text(log.last_stored_ms)}"
    size = f"{log.file_size:,} bytes ({log.file_size_origin.value})"
    yield f"{'':<14} {counted(log.files, 'file', spec=',')} of {size}"
    if log.holes:
        yield f"{'':<14} {counted(log.holes, 'hole', spec=',')}, {log.missing_bytes:,} bytes missing"
    if log.duplicates or log.conflicts:
        yield f"{'':<14} {log.duplicates:,} duplicates, {log.conflicts:,} conflicts"
