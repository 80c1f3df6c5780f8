"""Text report of a comparison, and its totals for every format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool.account import before_words, lost_words
from rmqtool.commands.diff import Difference, StoreComparison, is_time
from rmqtool.findings import counted
from rmqtool.projection import json_value
from rmqtool.report.output import several
from rmqtool.report.terminal import escape_text
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo

    from rmqtool.report.text_report import TextReport


_SHOWN = 10_000
"""Lines that are kept until the verdict is known."""
_NAMES = {"units": "consume queue units"}
_WITH_VALUES = {"commitlog", "checkpoint"}
"""Structures whose sentences do not contain the values of both sides."""


def diff_text(
    rows: Iterable[Difference], comparison: StoreComparison, zone: tzinfo | None, text: TextReport
) -> None:
    """Write the verdict and the totals, and then a line for each difference, once all are known."""
    shown: list[str] = []
    rest = 0
    for row in rows:
        if len(shown) < _SHOWN:
            shown.extend(_lines(row, zone))
        else:
            rest += 1
    differences = f"{_verdict(comparison)} in {_numbers(comparison.compared) or 'nothing'} compared"
    losses = [*_healing_lines(comparison)]
    worst, *others = (*losses, differences)
    before = (
        f"{before_words(healing)} of {healing.side.upper()}"
        for healing in comparison.healing
        if healing.before
    )
    text.verdict(worst + "".join(before))
    for line in others:
        text.line(line)
    beyond = comparison.beyond.total()
    if beyond:
        what = counted(beyond, "entry of only one side is", "entries of only one side are")
        text.line(f"{what} of records that the other's log has not")
    for line in shown:
        text.line(line)
    if rest:
        text.line(f"… {rest} more, see --format ndjson")
    text.finish()


def _healing_lines(comparison: StoreComparison) -> Iterator[str]:
    """Yield the losses of each side, and how many of them the other side has."""
    for healing in comparison.healing:
        side, other = (healing.side.upper(), "B" if healing.side == "a" else "A")
        parts = []
        if healing.lost:
            parts.append(f"{lost_words(healing.lost)} of {side}, {other} has {healing.held:,} of them")
        if healing.damaged:
            parts.append(f"{several(healing.damaged, 'place')} of {side} alone damaged")
        if parts:
            yield "; ".join(parts)


def _lines(row: Difference, zone: tzinfo | None) -> Iterator[str]:
    yield f"{row.structure}: {escape_text(row.message)}"
    if row.structure in _WITH_VALUES:
        for side, values in (("A", row.a), ("B", row.b)):
            if values:
                yield f"  {side} {_values(values, zone)}"


_NONE = ("No difference", "No verdict, not all of it was read; no difference in the rest")


def _verdict(comparison: StoreComparison) -> str:
    counts, normal = comparison.counts.total(), comparison.normal.total()
    verdict = _NONE[comparison.is_unread]
    if counts:
        verdict = f"{counted(counts, 'difference')} ({_numbers(comparison.counts)})"
    if normal:
        verdict += f", {normal} as between replicas at work ({_numbers(comparison.normal)})"
    return verdict


def _numbers(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {_NAMES.get(name, name)}" for name, count in counts.items() if count)


def _values(values: dict[str, Any], zone: tzinfo | None) -> str:
    return escape_text(", ".join(f"{name} {_value(name, value, zone)}" for name, value in values.items()))


def _value(name: str, value: object, zone: tzinfo | None) -> object:
    return time_text(value, zone) if is_time(name) and isinstance(value, int) else value


def diff_facts(comparison: StoreComparison) -> dict[str, Any]:
    """Return the totals for programs."""
    return {
        "compared": dict(comparison.compared),
        "differences": dict(comparison.counts),
        "normalDifferences": dict(comparison.normal),
        "beyondOtherLog": {name: count for name, count in comparison.beyond.items() if count},
        "healing": json_value(comparison.healing),
        "notes": comparison.notes,
    }
