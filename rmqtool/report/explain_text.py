"""Meanings of finding codes and of lines of logs, as text and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from rmqtool.projection import json_object
from rmqtool.report.output import Format, several, write_document
from rmqtool.report.verdict import first_step, headline, next_command, verdict_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.commands.explain import ExplainedLine
    from rmqtool.commands.verify import Verdict
    from rmqtool.findings import FindingCode
    from rmqtool.report.text_report import TextReport

_SCHEMA = "rmqtool.explain/1"
_IN_FULL = 5
"""Codes that are explained in full; more are a table."""
_CONCERNS = {"bad": "a sign of damage", "look": "look into it", "harmless": "harmless"}
_HERE = {"bad": "damage of that kind", "look": "signs of it", "nothing": "no damage of that kind"}


def explanations_text(
    codes: Sequence[FindingCode], lines: Sequence[ExplainedLine], verdict: Verdict | None, text: TextReport
) -> None:
    """Write catalogue entries, and kinds of lines with the places and findings of a store."""
    if verdict is not None:
        text.verdict(headline(verdict), first=first_step(verdict), next_command=next_command(verdict))
    if len(codes) + sum(not line.count for line in lines) > _IN_FULL:
        text.table(
            "Finding codes",
            ("code", "severity", "what"),
            [(entry.code, entry.severity.value, entry.title) for entry in codes],
        )
        rows = [(line.name, line.concern.value, line.title) for line in lines]
        text.table("Lines of logs", ("line", "by itself", "what"), rows)
    else:
        for entry in codes:
            text.pairs(f"{entry.code}: {entry.title}", _code_facts(entry))
        for line in lines:
            text.pairs(f"{line.name}: {line.title} ({_CONCERNS[line.concern]})", _line_facts(line))


def _code_facts(entry: FindingCode) -> Iterator[tuple[str, str]]:
    yield "Severity", entry.severity.value
    yield "Part", entry.structure.value
    yield "Meaning", entry.meaning
    yield "Broker", entry.broker_effect
    yield "Remedy", entry.general_remedy
    yield "Origin", entry.origin


def _line_facts(line: ExplainedLine) -> Iterator[tuple[str, str]]:
    if line.count:
        more = f" ({several(line.count, 'line')}, the first)" if line.count > 1 else ""
        yield "Line", line.line + more
    yield "Meaning", line.meaning
    for place in line.places:
        yield "Place", place
    if line.here is not None:
        counts = ", ".join(f"{count:,} {code}" for code, count in line.findings.items())
        yield "This store", f"{_HERE[line.here]}: {counts or 'none of ' + ', '.join(line.codes)}"
    elif line.codes:
        yield "In verify", ", ".join(line.codes)
    for code, remedy in line.remedies.items():
        yield "Remedy", f"{code}: {remedy}"
    until = "" if line.until is None else f" to {line.until}"
    yield "Origin", f"{line.origin}, since {line.since}{until}"


def write_explanations(
    codes: Sequence[FindingCode],
    lines: Sequence[ExplainedLine],
    verdict: Verdict | None,
    chosen: Format,
    stream: TextIO,
) -> None:
    """Write the same for programs; csv has the codes, or else the lines."""
    every = [*map(json_object, codes), *map(json_object, lines)]
    rows = every[: len(codes)] or every

    def document() -> dict[str, Any]:
        words = {} if verdict is None else {"store": verdict.report.store, **verdict_words(verdict)}
        return {"schema": _SCHEMA, "codes": every[: len(codes)], "lines": every[len(codes) :], **words}

    write_document(chosen, stream, document, lambda: every, rows[0] if rows else (), lambda: rows)
