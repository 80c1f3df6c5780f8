"""Differences of two stores for people, and the totals of a comparison in every format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from rmqtool.commands.diff.model import Comparison, Difference


def write_diff_text(rows: Iterable[Difference], comparison: Comparison, stream: TextIO) -> None:
    """Write one line a difference as it is found, and the totals."""
    for row in rows:
        stream.write(f"{row.structure}: {escape_text(row.message)}\n")
        if row.structure == "commitlog":
            sides = (("A", row.a), ("B", row.b))
            stream.writelines(f"  {side} {_values(found)}\n" for side, found in sides if found)
    compared = _numbers(comparison.compared)
    stream.write(f"{_verdict(comparison)} in {compared or 'nothing'} compared\n")
    beyond = comparison.beyond.total()
    if beyond:
        what = counted(beyond, "entry of only one side is", "entries of only one side are")
        stream.write(f"{what} of records that the other's log has not\n")


def _verdict(comparison: Comparison) -> str:
    counts, normal = comparison.counts.total(), comparison.normal.total()
    verdict = (
        f"{counted(counts, 'difference')} ({_numbers(comparison.counts)})" if counts else "no difference"
    )
    if normal:
        verdict += f", {normal} as between replicas at work ({_numbers(comparison.normal)})"
    return verdict


def _numbers(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _values(found: dict[str, Any]) -> str:
    return escape_text(", ".join(f"{name} {value}" for name, value in found.items()))


def diff_facts(comparison: Comparison) -> dict[str, Any]:
    """Return the totals for programs."""
    return {
        "compared": dict(comparison.compared),
        "differences": dict(comparison.counts),
        "normalDifferences": dict(comparison.normal),
        "beyondOtherLog": {name: count for name, count in comparison.beyond.items() if count},
        "notes": comparison.notes,
    }
