"""Verification of one store, in this process or as a task of a run over many."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqtool.cli.options import given_options, lost_lines
from rmqtool.errors import DeniedError, EnvironmentFailureError, UsageError
from rmqtool.releases import RELEASES
from rmqtool.store import PathKind
from rmqtool.store.listing import label_of

if TYPE_CHECKING:
    from rmqtool.api.store import Store
    from rmqtool.check.model import VerifyRun
    from rmqtool.cli.verify_files import VerifyFiles
    from rmqtool.commands.verify.verdict import Verdict
    from rmqtool.engine import Engine, EngineOptions
    from rmqtool.errors import ExitStatus
    from rmqtool.findings import FailOn
    from rmqtool.progress import Progress
    from rmqtool.recovery.model import Prediction

PREDICT = "--predict-recovery"
INFERRED = "inferred"
ALL = "all"


@dataclass(frozen=True)
class VerifyQuestion:
    """A question to a store; picklable without ``files``.

    Attributes:
        options: Of the command.
        fail_on: Which findings fail.
        given: Arguments of the command line that give settings.
        files: What is written and compared with; None for one store of many.
    """

    options: dict[str, Any]
    fail_on: FailOn
    given: tuple[str, ...]
    files: VerifyFiles | None = None

    def __call__(
        self, store: Store, engine: Engine | EngineOptions, progress: Progress
    ) -> tuple[Verdict, ExitStatus]:
        """Verify a store, and return the verdict on it; an interrupted run has one of what it has seen.

        Raises:
            RmqtoolError: As `Store.verify`; or a prediction for a part of a store.
        """
        from rmqtool.check.model import VerifyInterruptedError, VerifyRequest, VerifyRun
        from rmqtool.commands.verify.verdict import Verdict

        refuse_prediction(store, self.options)
        options, files = self.options, self.files
        predictions: tuple[Prediction, ...] = ()
        given = given_options(VerifyRequest, options)
        given["max_findings"] += 0 if files is None else files.known_findings
        try:
            report = store.verify(engine=engine, progress=progress, **given)
        except VerifyInterruptedError as stop:
            report = stop.report
        else:
            run = VerifyRun(report)
            with suppress(KeyboardInterrupt):  # the report says so
                if files is not None:
                    files.manifest(store, run, options["jobs"])
                predictions = _predict(store, run, options)
            report = run.report()
        compared = None if files is None else files.compare(report)
        verdict = Verdict(report, self.fail_on, compared, predictions, _part(store), self.given)
        return verdict, verdict.status


def refuse_prediction(store: Store, options: dict[str, Any]) -> None:
    """Refuse to predict what a start would do to a part of a store.

    Raises:
        UsageError: It is a part.
    """
    if options["predict"] is not None and store.kind != PathKind.STORE:
        raise UsageError(f"{PREDICT} is about whole stores; give a store root")


def _part(store: Store) -> str | None:
    """Return what of a store is looked at; None for all of it."""
    files = store.files
    return None if store.kind == PathKind.STORE else label_of(files.place.path, files.base)


def _predict(store: Store, run: VerifyRun, options: dict[str, Any]) -> tuple[Prediction, ...]:
    wanted = options["predict"]
    if wanted is None:
        return ()
    from rmqtool.findings.places import IO_DENIED
    from rmqtool.recovery import NotPredictedError
    from rmqtool.recovery.outcome import skipped, start_findings
    from rmqtool.store.unreadable import denied_finding

    releases = RELEASES if wanted == ALL else [None if wanted == INFERRED else wanted]
    with run.stage("prediction"):
        try:
            with lost_lines(options, store) as tell_lost:
                predictions = tuple(store.predict_recovery(one, lost=tell_lost) for one in releases)
        except (NotPredictedError, EnvironmentFailureError) as failure:
            run.findings.add(skipped(str(failure)))
            if isinstance(failure, DeniedError) and IO_DENIED.code not in run.findings.counts:
                run.findings.add(denied_finding(failure, store.files.base))
            return ()
        for prediction in predictions:
            run.findings.extend(start_findings(prediction))
    return predictions
