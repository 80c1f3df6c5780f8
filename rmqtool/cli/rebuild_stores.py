"""``rmqtool rebuild`` of many stores: a directory for each in ``--out``, and one report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqtool.cli.fleet import Fleet, refuse_contents
from rmqtool.cli.options import StorePath, engine_of, note_engine
from rmqtool.commands.fleet.model import ResumedReport, earlier_report, earlier_status
from rmqtool.commands.rebuild.report import RebuildReport
from rmqtool.commands.rebuild.request import Asked, RebuildRequest
from rmqtool.errors import ExitStatus, UsageError
from rmqtool.findings.model import counted
from rmqtool.options import request_of
from rmqtool.projection import json_value
from rmqtool.report.fleet import forms_of_resumed
from rmqtool.report.formats import document_of
from rmqtool.report.outcome_text import rebuild_text
from rmqtool.report.terminal import escape_text
from rmqtool.scan.record_walk import LogExtent
from rmqtool.store.results import REBUILD_REPORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqtool.api.store import Store
    from rmqtool.cli.session import Session
    from rmqtool.commands.fleet import FleetReport
    from rmqtool.engine import Engine
    from rmqtool.findings import FailOn
    from rmqtool.progress import Progress
    from rmqtool.store.results import Target

_OF_ONE_LOG = "is a place in one log: give one STORE"


def rebuild_stores(
    session: Session, paths: Sequence[StorePath], words: Mapping[str, Any], options: dict[str, Any]
) -> ExitStatus:
    """Rebuild all that paths and globs name, and return the worst status.

    Args:
        session: The run.
        paths: As given.
        words: The options of `Store.rebuild`.
        options: Of the command.

    Raises:
        UsageError: An option is that of one store.
        RefusedError: ``--out`` has contents without ``--resume``, or it lies in a store.
        EnvironmentFailureError: The engine does not come up.
    """
    _check(options)
    engine, out = engine_of(options), options["out"]
    note_engine(options, engine, session.console)
    forms = replace(_FORMS, command="rebuild" if "consumequeue" in words["parts"] else "rebuild-index")
    fleet = Fleet(session, paths, forms, reads_queues=True)
    outs = {} if out is None else fleet.folders(out)
    question = RebuildQuestion(words, session.fail_on, outs, resume=options["resume"])
    return fleet.ask(question, engine, travels=True, then=partial(_say_what_next, session, out))


@dataclass(frozen=True)
class RebuildQuestion:
    """A question to a store.

    Attributes:
        words: the options of `Store.rebuild`.
        fail_on: which findings fail.
        outs: where the result of each store goes, by its path, a directory or what a URL names; empty where
            nothing is written.
        resume: whether what an earlier run has made counts.
    """

    words: Mapping[str, Any]
    fail_on: FailOn
    outs: Mapping[str, Target]
    resume: bool

    def __call__(
        self, store: Store, engine: Engine, progress: Progress
    ) -> tuple[ResumedReport[RebuildReport], ExitStatus]:
        """Rebuild a store, unless that was done.

        Raises:
            RmqtoolError: As `Store.rebuild`.
        """
        out = self.outs.get(store.location)
        document = self._made_before(store, out) if self.resume and out is not None else None
        if document is not None:
            status = earlier_status(document, self.fail_on)
            return ResumedReport(document | {"exitStatus": int(status)}, None), status
        report = store.rebuild(out, engine=engine, progress=progress, **self.words)
        status = report.exit_status(self.fail_on)
        return ResumedReport(document_of(report, status), report), status

    def _made_before(self, store: Store, out: Target) -> dict[str, Any] | None:
        """Return the report of a result of this store, made with the same options; None if there is none."""
        given = {name: value for name, value in self.words.items() if name != "parts"}
        request = request_of(
            RebuildRequest, given, store=store.files, out=out, engine=None, parts=self.words["parts"]
        )
        wanted = {
            "schema": RebuildReport.schema,
            "store": str(store.files.base),
            "mode": "salvage" if request.salvage else "broker",
            "asked": json_value(Asked.by(request)),
            "compared": request.compare,
            "settings": json_value(store.settings),
            "log": json_value(LogExtent.of(store.files)),
        }
        return earlier_report(out, REBUILD_REPORT, wanted)


def _check(options: dict[str, Any]) -> None:
    """Refuse what makes sense for one store only, before the first is opened."""
    out = options["out"]
    if options["lost"] is not None:
        raise UsageError("--lost is of one store: give one STORE")
    if options["until_offset"] is not None:
        raise UsageError(f"--until-offset {_OF_ONE_LOG}")
    if options["tag_items"].startswith("from:"):
        raise UsageError(f"--tag-items {options['tag_items']} {_OF_ONE_LOG}")
    if out is None and not (options["compare"] or options["dry_run"]):
        raise UsageError("nothing to do: give --out DIR for the results, or --compare, or --dry-run")
    if out is not None and not options["resume"]:
        refuse_contents(out)


def _say_what_next(
    session: Session, out: Target | None, report: FleetReport[ResumedReport[RebuildReport]]
) -> None:
    session.report_interrupt(report)
    made = [one.report.report for one in report if one.report is not None and one.report.report is not None]
    ready = [one for one in made if one.is_installable]
    others = sum(bool(one.install_hint) and not one.is_installable for one in made)
    if ready:
        session.console.note(replace(ready[0], store="STORE", out=f"{out}/NAME").install_hint)
    if others:
        count = counted(others, "result is", "results are", spec=",")
        session.console.warn(
            f"{count} not to be installed; for the reason, run rmqtool rebuild on that store alone"
        )


def _verdict(document: Mapping[str, Any]) -> str:
    return escape_text(document["verdict"])


def _totals(document: Mapping[str, Any]) -> dict[str, int]:
    return {name: document[name] for name in ("records", "bytes", "queues", "units", "indexEntries")}


_FORMS = forms_of_resumed("rebuild", _verdict, "store", rebuild_text, _totals)
