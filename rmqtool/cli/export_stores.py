"""``rmqtool export --resume``: the folder of each store appears by itself, and is not made twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqtool.api.exporting import export, export_request
from rmqtool.cli.fleet import Fleet
from rmqtool.commands.export.model import REPORT_NAME, Asked, ExportReport
from rmqtool.commands.fleet.model import ResumedReport, earlier_report, earlier_status
from rmqtool.findings.model import counted
from rmqtool.projection import json_value
from rmqtool.report.fleet import forms_of_resumed
from rmqtool.report.formats import Format, document_of, size_text
from rmqtool.report.outcome_text import export_text
from rmqtool.scan.record_walk import LogExtent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqtool.api.store import Store
    from rmqtool.cli.options import StorePath
    from rmqtool.cli.session import Session
    from rmqtool.engine import Engine, EngineOptions
    from rmqtool.errors import ExitStatus
    from rmqtool.findings import FailOn
    from rmqtool.progress import Progress
    from rmqtool.store.results import Target


def export_stores(
    session: Session,
    paths: Sequence[StorePath],
    out: Target,
    words: Mapping[str, Any],
    engine: EngineOptions,
) -> ExitStatus:
    """Export all that paths and globs name, each by itself, and return the worst status.

    Args:
        session: The run.
        paths: As given.
        out: Receives a folder for each store; a directory, or what a URL names.
        words: The options of `rmqtool.export`.
        engine: Where the tasks run.

    Raises:
        RefusedError: The output lies in a store.
        EnvironmentFailureError: The engine does not come up.
    """
    fleet = Fleet(session, paths, _FORMS, notes_brokers=True)
    question = ExportQuestion(words, session.fail_on, fleet.folders(out, "store="))
    return fleet.ask(question, engine, travels=True, then=session.report_interrupt, chosen=Format.TEXT)


@dataclass(frozen=True)
class ExportQuestion:
    """A question to a store.

    Attributes:
        words: the options of `rmqtool.export`.
        fail_on: which findings fail.
        outs: where the files of each store go, by its path.
    """

    words: Mapping[str, Any]
    fail_on: FailOn
    outs: Mapping[str, Target]

    def __call__(
        self, store: Store, engine: Engine, progress: Progress
    ) -> tuple[ResumedReport[ExportReport], ExitStatus]:
        """Export a store, unless that was done.

        Raises:
            RmqtoolError: As `rmqtool.export`.
        """
        out, words = self.outs[store.location], self.words
        request = export_request((store,), out, engine, **words)
        wanted = {
            "schema": ExportReport.schema,
            "stores": [store.location],
            "format": request.format.value,
            "partition": None if request.partition is None else request.partition.value,
            "columns": list(request.columns),
            "asked": json_value(Asked.by(request)),
            "logs": [json_value(LogExtent.of(store.files))],
        }
        document = earlier_report(out, REPORT_NAME, wanted)
        if document is not None:
            return ResumedReport(document, None), earlier_status(document, self.fail_on)
        report = export(store, out, engine=engine, progress=progress, **words)
        status = report.exit_status(self.fail_on)
        return ResumedReport(document_of(report, status), report), status


def _verdict(document: Mapping[str, Any]) -> str:
    messages = counted(document["messages"], "message", spec=",")
    return f"{messages} of {size_text(document['logBytes'])} of log"


def _totals(document: Mapping[str, Any]) -> dict[str, int]:
    return {"messages": document["messages"], "files": len(document["files"])}


_FORMS = forms_of_resumed("export", _verdict, "out", export_text, _totals)
