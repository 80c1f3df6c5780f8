"""Text report of a comparison, and its totals for every format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool.account import before_words, lost_words
from rmqtool.commands.diff import Difference, StoreComparison, said
from rmqtool.commands.diff.verdict import Answer, Histories, entry_terms, log_shares
from rmqtool.findings import counted
from rmqtool.projection import json_value
from rmqtool.report.output import several
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo

    from rmqtool.commands.diff.verdict import CopiesVerdict, Following, LogMessage
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
        what = counted(beyond, "entry of one side belongs", "entries of one side belong")
        text.line(f"{what} to records that the other log does not have")
    if comparison.verdict is not None:
        for line in _copies_lines(comparison.verdict, zone):
            text.line(line)
    for line in shown:
        text.line(line)
    if rest:
        text.line(f"… {rest} more, see --format ndjson")


def _healing_lines(comparison: StoreComparison) -> Iterator[str]:
    """Yield the losses of each side, and how many of them the other side has."""
    for healing in comparison.healing:
        side, other = (healing.side.upper(), "B" if healing.side == "a" else "A")
        parts = []
        if healing.lost:
            parts.append(f"{lost_words(healing.lost)} of {side}, {other} has {healing.held:,} of them")
        if healing.damaged:
            parts.append(f"{side} is damaged in {several(healing.damaged, 'place')} where {other} is not")
        if parts:
            yield "; ".join(parts)


def _copies_lines(verdict: CopiesVerdict, zone: tzinfo | None) -> Iterator[str]:
    """Yield the verdict on two copies of a log."""
    yield _histories(verdict, zone)
    yield from log_shares(verdict)
    yield from entry_terms(verdict)
    for number, following in enumerate(_followings(verdict)):
        yield _following_line(following, advises=number == 0)
    yield from _promote(verdict)
    yield from (f"Clocks: {sentence}" for sentence in verdict.clocks)


def _histories(verdict: CopiesVerdict, zone: tzinfo | None) -> str:
    ends = [share.end for share in verdict.shares]
    ahead, last = (verdict.ahead or "").upper(), _message(verdict.common, zone)
    after = f", after {last}" if last else ""
    match verdict.histories:
        case Histories.UNKNOWN:
            return "One history or two: unknown, not all of the logs could be compared"
        case Histories.APART:
            return f"No byte is in both logs, and nothing shows one history; {ahead} is later"
        case Histories.EQUAL:
            return f"One history, and both logs end at {ends[0]}"
        case Histories.ONE:
            more = abs(ends[0] - ends[1])
            return f"One history, {ahead} is ahead by {more:,} bytes, from {min(ends)} on{after}"
        case Histories.PARTED:
            begins = "before, or at byte" if verdict.parted_before else "at byte"
            first = [_message(share.first, zone) or "the end of a file" for share in verdict.shares]
            sides = f"A continues with {first[0]}, B with {first[1]}"
            joint = "" if verdict.joint is None else f"; from {verdict.joint} on all is equal again"
            return f"Two histories, parted {begins} {verdict.parting}{after}: {sides}{joint}"


def _message(message: LogMessage | None, zone: tzinfo | None) -> str:
    return "" if message is None else f"{message} of {time_text(message.store_timestamp_ms, zone)}"


def _followings(verdict: CopiesVerdict) -> list[Following]:
    """Return what becomes of the slave, and of the other way where that is another answer."""
    ordered = sorted(verdict.following, key=lambda following: following.slave == verdict.promote)
    return [each for each in ordered if each is ordered[0] or each.answer is not ordered[0].answer]


def _following_line(following: Following, *, advises: bool) -> str:
    slave, master = following.slave.upper(), "B" if following.slave == "a" else "A"
    if following.answer is Answer.YES:
        return f"{slave} can follow {master} as a slave: {following.why}"
    if following.answer is Answer.UNKNOWN:
        return f"Whether {slave} can follow {master} as a slave is unknown: {following.why}"
    said, cut = f"{slave} cannot follow {master} as it is: {following.why}", ""
    if not advises:  # it has what the other lacks
        return said
    if following.answer is Answer.CUT:
        cut = (
            f"cut its log at byte {following.cut_at} (zeros from position {following.position} of"
            f" {following.file} to its end, no files after it), or "
        )
    copy = f"a copy of {master}'s store, made while {master} is stopped"
    return f"{said}. First {cut}replace it by {copy}"


def _promote(verdict: CopiesVerdict) -> Iterator[str]:
    """Yield which side to promote, and what that loses."""
    if verdict.promote is None or not verdict.following:
        return
    side, other = verdict.promote.upper(), "B" if verdict.promote == "a" else "A"
    lost = counted(verdict.loses, "message", spec=",")
    damage = next(share.damaged_at for share in verdict.shares if share.side == verdict.promote)
    after = "" if damage is None else f", after its damage at byte {damage} is repaired"
    yield f"Promote {side}{after}: of what {other} has, that loses {lost if verdict.loses else 'nothing'}"


def _lines(row: Difference, zone: tzinfo | None) -> Iterator[str]:
    yield f"{row.structure}: {row.message}"
    if row.structure in _WITH_VALUES:
        for side, values in (("A", row.a), ("B", row.b)):
            if values:
                said_values = (f"{name} {said(name, value, zone)}" for name, value in values.items())
                yield f"  {side} {', '.join(said_values)}"


_NONE = ("No difference", "No verdict, not all of it was read; no difference in the rest")


def _verdict(comparison: StoreComparison) -> str:
    counts, normal = comparison.counts.total(), comparison.normal.total()
    verdict = _NONE[comparison.is_unread]
    if counts:
        verdict = f"{counted(counts, 'difference')} ({_numbers(comparison.counts)})"
    if normal:
        verdict += f", {normal} as running replicas have ({_numbers(comparison.normal)})"
    settings = comparison.settings
    if settings:
        verdict += f", {settings.total()} of settings ({_numbers(settings)})"
    return verdict


def _numbers(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {_NAMES.get(name, name)}" for name, count in counts.items() if count)


def diff_facts(comparison: StoreComparison) -> dict[str, Any]:
    """Return the totals for programs."""
    return {
        "compared": dict(comparison.compared),
        "differences": dict(comparison.counts),
        "normalDifferences": dict(comparison.normal),
        "beyondOtherLog": {name: count for name, count in comparison.beyond.items() if count},
        "settings": dict(comparison.settings),
        "healing": json_value(comparison.healing),
        "verdict": json_value(comparison.verdict),
        "notes": comparison.notes,
    }
