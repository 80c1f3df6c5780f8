"""Reports of many stores.

Text has a verdict, a line per store, the worst first, and the totals. Programs get the ordinary document of
each, in the order of the command line, and a summary. A command's `Forms` render one of its reports.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TextIO, TypeVar

from rmqtool.errors import ExitStatus
from rmqtool.projection import json_object
from rmqtool.report.output import Format, several, size_text, write_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rmqtool.commands.fleet import FleetReport, ResumedReport, StoreOutcome
    from rmqtool.report.text_report import TextReport

R = TypeVar("R")

_SAID = {
    ExitStatus.CLEAN: "without error",
    ExitStatus.NEGATIVE: "damaged or different outside the log",
    ExitStatus.USAGE: "with wrong arguments",
    ExitStatus.FAILED: "not examined, or only in part",
    ExitStatus.REFUSED: "refused",
    ExitStatus.LOG_DAMAGED: "with a damaged log",
    ExitStatus.INTERRUPTED: "interrupted",
}


_CAPITAL = re.compile("[A-Z]")


def _no_rows(_report: object) -> Iterable[dict[str, Any]]:
    return ()


@dataclass(frozen=True)
class Forms(Generic[R]):
    """Renderers of a command's reports.

    ``verdict`` is one line about a store without its path; ``totals`` are numbers
    that add up over stores, by their JSON names; ``lines`` are the lines of ndjson, each with its ``store``.
    """

    command: str
    verdict: Callable[[R], str]
    document: Callable[[R, ExitStatus], dict[str, Any]]
    text: Callable[[R, TextReport], None]
    totals: Callable[[R], Mapping[str, int]]
    lines: Callable[[R, ExitStatus], Iterable[dict[str, Any]]] | None = None
    rows: Callable[[R], Iterable[dict[str, Any]]] = _no_rows
    columns: tuple[str, ...] = ()


def forms_of_resumed(
    command: str,
    verdict: Callable[[Mapping[str, Any]], str],
    place: str,
    text: Callable[[R, TextReport], None],
    totals: Callable[[Mapping[str, Any]], Mapping[str, int]],
) -> Forms[ResumedReport[R]]:
    """Return forms of results, whose documents name that of an earlier run in the member ``place``."""

    def verdict_text(made: ResumedReport[R]) -> str:
        return verdict(made.document) + (" (by an earlier run)" if made.report is None else "")

    def write(made: ResumedReport[R], report: TextReport) -> None:
        if made.report is None:
            report.line(f"{verdict_text(made)}: {made.document[place]}")
        else:
            text(made.report, report)

    return Forms(
        command, verdict_text, lambda made, _: made.document, write, lambda made: totals(made.document)
    )


def fleet_document(report: FleetReport[R], forms: Forms[R]) -> dict[str, Any]:
    """Return the document of all stores."""
    stores = [
        _entry(outcome, forms)
        | {"document": None if outcome.report is None else forms.document(outcome.report, outcome.status)}
        for outcome in report
    ]
    head = {"schema": report.schema, "command": forms.command, "stores": stores}
    return head | {"summary": _summary(report, forms), "exitStatus": int(report.exit_status)}


def write_fleet(
    chosen: Format,
    report: FleetReport[R],
    forms: Forms[R],
    stream: TextIO,
    text: TextReport,
    *,
    details: bool,
) -> None:
    """Write the reports of all stores; with ``details``, the text of each follows."""
    if chosen is Format.TEXT:
        _write_text(report, forms, text, details=details)
    else:
        document = partial(fleet_document, report, forms)
        lines, rows = partial(_lines, report, forms), partial(_rows, report, forms)
        write_document(chosen, stream, document, lines, ("store", *forms.columns), rows)


def _summary(report: FleetReport[R], forms: Forms[R]) -> dict[str, Any]:
    return json_object(report.summary) | {"totals": dict(_totals(report, forms))}


def _totals(report: FleetReport[R], forms: Forms[R]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for outcome in report:
        if outcome.report is not None:
            totals.update(forms.totals(outcome.report))
    return totals


def _entry(outcome: StoreOutcome[R], forms: Forms[R]) -> dict[str, Any]:
    verdict = None if outcome.report is None else forms.verdict(outcome.report)
    return json_object(outcome) | {"verdict": verdict}


def _lines(report: FleetReport[R], forms: Forms[R]) -> Iterator[dict[str, Any]]:
    for outcome in report:
        if outcome.report is not None and forms.lines is not None:
            yield from forms.lines(outcome.report, outcome.status)
        yield {"type": "store"} | _entry(outcome, forms)
    head = {"type": "fleet", "schema": report.schema, "command": forms.command}
    yield head | _summary(report, forms) | {"exitStatus": int(report.exit_status)}


def _rows(report: FleetReport[R], forms: Forms[R]) -> Iterator[dict[str, Any]]:
    for outcome in report:
        for row in () if outcome.report is None else forms.rows(outcome.report):
            yield {"store": outcome.store} | row


def _write_text(report: FleetReport[R], forms: Forms[R], text: TextReport, *, details: bool) -> None:
    rows = [
        (str(int(outcome.status)), outcome.store, _said(outcome, forms)) for outcome in report.worst_first
    ]
    text.table(_total(report), ("status", "store", "what"), rows)
    text.pairs("All together", _facts(report, forms))
    for outcome in report.worst_first if details else ():
        if outcome.report is not None:
            text.line("")
            forms.text(outcome.report, text)
            text.finish()


def _said(outcome: StoreOutcome[R], forms: Forms[R]) -> str:
    if outcome.report is not None:
        return forms.verdict(outcome.report)
    return (outcome.failure or "").removeprefix(f"{outcome.store}: ")


def _total(report: FleetReport[R]) -> str:
    summary = report.summary
    sound = summary.by_status.get("0", 0)
    stores = several(summary.stores, "store")
    return f"{stores}, {'all' if sound == summary.stores else f'{sound:,} of them'} without error"


def _facts(report: FleetReport[R], forms: Forms[R]) -> Iterator[tuple[str, str]]:
    summary = report.summary
    for status, count in summary.by_status.items():
        yield f"status {status}", f"{count:,} {_SAID[ExitStatus(int(status))]}"
    yield "commit logs", size_text(summary.log_bytes)
    for name, count in _totals(report, forms).items():
        yield _CAPITAL.sub(lambda match: f" {match[0].lower()}", name), f"{count:,}"
    yield "seconds", f"{summary.seconds:.2f}"
    yield "exit status", f"{int(report.exit_status)}, that of the worst; -v shows each store in full"
