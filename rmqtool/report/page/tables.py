"""Tables of the page: rows of text, and a note on rows that are left out."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.report.formats import size_text
from rmqtool.report.page.charts import Clock, share, shortened, shown, span
from rmqtool.report.terminal import escape_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.check.picture import (
        LogPicture,
    )
    from rmqtool.commands.report.model import StoreReport

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
            shown(one.topic),
            f"{one.next_start:,}",
            size_text(one.next_start_bytes) if one.next_start else "",
            f"{one.missing:,}",
        )
        for one in report.losses
    ]
    return _table(rows, _LOSSES, "topics")


def names_table(report: StoreReport) -> PageTable:
    """Return the lost messages, with the known fields of each."""
    rows = []
    for one in report.lost:
        queue = "" if one.queue_id is None else f"{one.topic}/{one.queue_id}"
        places = (one.queue_offset, one.physical_offset)
        place, offset = ("" if number is None else f"{number}" for number in places)
        names = (one.store_timestamp or "", one.uniq_key or "", " ".join(one.keys or ()))
        rows.append((shown(queue), place, offset, one.reason.value, *map(shown, names)))
    lost = sum(one.next_start + one.missing for one in report.losses)
    more = f"{len(rows):,} of {lost:,}; the option --lost of verify has all." if lost > len(rows) else ""
    return PageTable(tuple(rows), more)


def topics_table(report: StoreReport, clock: Clock) -> PageTable:
    """Return the topics in the log: those with most bytes, the others in one row."""
    picture = report.verification.picture
    if picture is None:
        return PageTable()
    slowest: dict[str, int] = defaultdict(int)
    for one in report.backlogs:
        if one.reader.startswith("group "):
            slowest[one.topic] = max(slowest[one.topic], one.units)
    topics = picture.census.topics
    whole = sum(one.bytes for one in topics)
    rows = [
        (
            shown(one.topic),
            f"{one.messages:,}",
            size_text(one.bytes),
            f"{slowest[one.topic]:,}" if one.topic in slowest else "",
            size_text(one.largest),
            share(one.bytes, whole),
            clock(one.oldest_ms),
            clock(one.newest_ms),
        )
        for one in topics[:_TOPICS]
    ]
    others = topics[_TOPICS:]
    if others:
        rows.append(
            (
                f"{len(others):,} other topics",
                f"{sum(one.messages for one in others):,}",
                size_text(sum(one.bytes for one in others)),
                "",
                size_text(max(one.largest for one in others)),
                share(sum(one.bytes for one in others), whole),
                clock(min(one.oldest_ms for one in others)),
                clock(max(one.newest_ms for one in others)),
            )
        )
    more = f"the {_TOPICS} with most bytes are listed, the others in one row; --format json has all"
    return PageTable(tuple(rows), more if others else "")


def backlogs_table(report: StoreReport, clock: Clock) -> PageTable:
    """Return the backlogs of readers, the largest first."""
    rows = [
        (
            shown(one.reader.removeprefix("group ")),
            shown(one.topic),
            f"{one.queues:,}",
            f"{one.units:,}",
            clock(one.last_timestamp_ms),
            f"{one.odd:,}" if one.odd else "",
        )
        for one in report.backlogs
    ]
    left = report.backlogs[_BACKLOGS:]
    table = _table(rows, _BACKLOGS, "readers of topics")
    if not left:
        return table
    return PageTable(table.rows, f"{table.more}, with {sum(one.units for one in left):,} units to consume")


def gaps_table(picture: LogPicture | None) -> PageTable:
    """Return the queue offsets without a record, the widest gaps first."""
    if picture is None:
        return PageTable()
    rows = [
        (
            f"{shown(one.topic)}/{one.queue_id}",
            f"{one.first} to {one.first + one.missing - 1}",
            f"{one.missing:,}",
            str(one.physical_offset),
        )
        for one in sorted(picture.offset_gaps, key=lambda one: -one.missing)
    ]
    return _table(rows, _GAPS, "gaps", picture.more_offset_gaps)


def silences_table(picture: LogPicture | None, clock: Clock) -> PageTable:
    """Return the longest idle periods, in the order of time."""
    if picture is None:
        return PageTable()
    census = picture.census
    rows = [
        (clock(one.start_ms), clock(one.stop_ms), span(one.stop_ms - one.start_ms)) for one in census.silences
    ]
    more = f"and {census.more_silences:,} shorter ones" if census.more_silences else ""
    total = f"{census.silent_minutes:,} silent minutes in all" if census.silences else ""
    return PageTable(tuple(rows), ", ".join(text for text in (more, total) if text))


def steps_table(picture: LogPicture | None, clock: Clock) -> PageTable:
    """Return where the clock was set back, in log order."""
    if picture is None:
        return PageTable()
    rows = [
        (
            str(one.physical_offset),
            clock.exact(one.before_ms),
            clock.exact(one.after_ms),
            span(one.before_ms - one.after_ms),
        )
        for one in picture.clock_steps
    ]
    return _table(rows, _STEPS, "steps back", picture.more_clock_steps)


def settings_table(report: StoreReport) -> PageTable:
    """Return the settings with their origin."""
    rows = [
        (
            name,
            shown(_value_text(one.value)),
            one.origin.value,
            shortened(escape_text(one.doubt or one.note), 120),
        )
        for name, one in report.provenance.settings.items()
    ]
    return _table(rows, _SETTINGS, "settings")


def _value_text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def digests_table(report: StoreReport) -> PageTable:
    """Return the digests of files."""
    rows = [
        (shown(one.file), f"{one.size_bytes:,}", one.sha256 or f"none: {shown(one.reason or '')}")
        for one in report.provenance.digests
    ]
    return _table(rows, _DIGESTS, "files; --format json has all")
