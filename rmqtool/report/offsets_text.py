"""Offsets of groups and delay levels for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text
from rmqtool.report.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from rmqtool.commands.offsets import Progress

_LISTED = 200
_WORDS = {"ok": "", "ahead": "beyond the end", "behind": "below the start", "no-queue": "no such queue"}


def write_offsets_text(rows: Sequence[Progress], stream: TextIO, *, color: bool | None) -> None:
    """Write one line an offset, and a line of totals."""
    columns = ("reader", "topic", "queue", "offset", "min", "max", "lag", "")
    Tables(stream, color=color).table("Offsets", columns, [_cells(row) for row in rows[:_LISTED]])
    if len(rows) > _LISTED:
        stream.write(f"… {len(rows) - _LISTED} more, see --format ndjson\n")
    states = Counter(row.state for row in rows)
    parts = [f"{states[state]} {words}" for state, words in _WORDS.items() if words and states[state]]
    lag = sum(row.lag or 0 for row in rows)
    stream.write(", ".join([f"{counted(len(rows), 'offset')}, lag {lag}", *parts]) + "\n")


def _cells(row: Progress) -> tuple[str, ...]:
    numbers = (row.queue_id, row.offset, row.min_offset, row.max_offset, row.lag)
    texts = ["-" if number is None else str(number) for number in numbers]
    return escape_text(row.reader), escape_text(row.topic), *texts, _WORDS[row.state]
