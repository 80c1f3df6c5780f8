"""Text report of offsets of groups and delay levels."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rmqtool.commands.offsets import reader_totals
from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text
from rmqtool.report.tables import Tables
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo
    from typing import TextIO

    from rmqtool.commands.offsets import Progress

_LISTED = 200
_WORDS = {
    "ok": "",
    "ahead": "beyond the end",
    "behind": "below the start",
    "no-offset": "not begun",
    "no-queue": "no such queue",
    "not-read": "queue in RocksDB, not read",
}


def write_offsets_text(
    rows: Sequence[Progress], stream: TextIO, zone: tzinfo | None, *, color: bool | None
) -> None:
    """Write a line of totals, a line per reader and per offset, those with the largest lag first."""
    states = Counter(row.state for row in rows)
    parts = [f"{states[state]} {words}" for state, words in _WORDS.items() if words and states[state]]
    known = [row.lag for row in rows if row.lag is not None]
    lag = sum(known) if known else "not known"
    stream.write(", ".join([f"{counted(len(rows), 'offset')}, lag {lag}", *parts]) + "\n\n")
    columns = ("reader", "topic", "queue", "offset", "min", "max", "lag", "last read", "")
    tables = Tables(stream, color=color)
    totals = sorted(reader_totals(rows).items(), key=lambda one: -one[1]["lag"])
    if len(totals) > 1:
        readers = [(escape_text(name), *map(str, total.values())) for name, total in totals[:_LISTED]]
        tables.table("Readers", ("reader", "queues", "lag", "out of range"), readers)
    ordered = sorted(rows, key=lambda row: -(row.lag or 0))[:_LISTED]
    tables.table("Offsets", columns, [_cells(row, zone) for row in ordered], spare=("min", "last read"))
    if len(rows) > _LISTED:
        stream.write(f"… {len(rows) - _LISTED} more, see --format ndjson\n")


def _cells(row: Progress, zone: tzinfo | None) -> tuple[str, ...]:
    numbers = (row.queue_id, row.offset, row.min_offset, row.max_offset, row.lag)
    texts = ["-" if number is None else str(number) for number in numbers]
    last = "-" if row.last_timestamp_ms is None else time_text(row.last_timestamp_ms, zone)
    return escape_text(row.reader), escape_text(row.topic), *texts, last, _WORDS[row.state]
