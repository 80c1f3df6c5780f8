"""The way of ``verify``: checks, the outcome of each action where something is wrong, and fitting advice."""

from __future__ import annotations

import re
import shlex
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.check import MAX_LEVEL, VerifyInterruptedError, VerifyReport, VerifyRequest, VerifyRun
from rmqtool.check.run import check
from rmqtool.errors import DeniedError, EnvironmentFailureError, ExitStatus
from rmqtool.findings import NOT_READ, FailOn, FindingLog, Severity, Structure, advises_rebuild, codes
from rmqtool.store.kinds import PathKind
from rmqtool.store.layouts import Deed
from rmqtool.store.segments import denied_finding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqtool.account.lost import LostMessage
    from rmqtool.progress import Progress
    from rmqtool.recovery import Prediction
    from rmqtool.releases import Release
    from rmqtool.store import Store

    LostLines = AbstractContextManager[Callable[[LostMessage], object] | None]


def verify(request: VerifyRequest, progress: Progress) -> VerifyReport:
    """Verify a store, or the part of it that is shown; an open engine stays open."""
    run = check(request, progress)
    may_harm = _may_harm(run.findings, request.store)
    if may_harm:
        run.note(directories=request.store.directories)
    if not request.live and may_harm:
        progress.stage("outcomes", None)
        try:
            foresee(run, request.store)
        except KeyboardInterrupt:
            raise VerifyInterruptedError(run.report) from None
    _advise(run, request.store)
    return run.report


def _may_harm(findings: FindingLog, store: Store) -> bool:
    """Whether a start may lose or hide something: it reads times of the checkpoint after a crash alone."""
    spared = () if store.abort else (Structure.CHECKPOINT,)
    return any(
        finding.severity is Severity.ERROR
        or (finding.severity is Severity.WARNING and finding.structure not in spared)
        for finding in findings
    )


_KEEP = "Leave the queues in place, and install no rebuild: it would lack {what}."
_DAMAGED = "The commit log is damaged: rmqtool verify {store} (all of it) names the best action."
_PLACEHOLDER = re.compile(r"\bSTORE\b")


def foresee(run: VerifyRun, store: Store, release: Release | None = None) -> None:
    """Add the outcome of each action; none where the store is a part, or its start is not modelled.

    ``release`` is the broker's; None is the store's own.
    """
    if run.report.level < MAX_LEVEL or store.kind is not PathKind.STORE or store.root is None:
        return
    if any(finding.structure in NOT_READ for finding in run.findings):
        return
    # A sound store needs none of it.
    from rmqtool.actions.foresight import foresee as outcomes_for
    from rmqtool.recovery import add_skipped
    from rmqtool.recovery.predict import NotPredictedError

    broker = store.settings.release if release is None else release
    if len(run.report.outcomes) > 1 and run.report.release == broker.name:
        return  # they are known
    with run.stage("outcomes"), suppress(EnvironmentFailureError):
        try:
            outcomes = outcomes_for(store, broker, run.findings)
        except NotPredictedError as failure:
            if run.findings.errors:  # what a kill leaves needs no advice
                add_skipped(run.findings, failure)
        else:
            run.note(outcomes=outcomes, release=broker.name)


def predict(
    run: VerifyRun, store: Store, releases: Sequence[Release | None], lost: LostLines
) -> tuple[Prediction, ...]:
    """Add what a start of each release does, and what it costs if it is one; None is the store's own release.

    ``lost`` opens the receiver of every message that will be lost. A finding says why nothing is predicted.
    """
    from rmqtool.outcomes import start_findings as harm_findings
    from rmqtool.recovery import add_skipped, start_findings
    from rmqtool.recovery.predict import NotPredictedError, predict_recovery

    try:
        with run.stage("prediction"), lost as tell_lost:
            predictions = tuple(
                predict_recovery(store, release or store.settings.release, tell_lost) for release in releases
            )
    except (NotPredictedError, EnvironmentFailureError) as failure:
        add_skipped(run.findings, failure)
        if isinstance(failure, DeniedError) and codes.IO_DENIED.code not in run.findings.counts:
            run.findings.add(denied_finding(failure, store.base))
        return ()
    for prediction in predictions:
        run.findings.extend(start_findings(prediction))
    if len(predictions) == 1:
        foresee(run, store, predictions[0].release)
        run.findings.extend(harm_findings(run.report.outcomes, predictions[0].release.name))
    return predictions


def _advise(run: VerifyRun, store: Store) -> None:
    """Advise no rebuild that loses messages, of a damaged log, or beside parts that it does not build.

    Command lines in the advice get the store's path.
    """
    findings = run.findings
    if (elsewhere := store.bars(Deed.INSTALL)) and store.root is not None:
        _advise_no_rebuild(findings, _KEEP.format(what=elsewhere[0].sentence), store)
    elif store.kind is PathKind.STORE and not len(store.commitlog):
        _advise_no_rebuild(findings, _KEEP.format(what="every message"), store)
    elif run.report.outcomes:
        from rmqtool.outcomes import advise

        advise(findings, run.report.outcomes)
    elif findings.exit_status(FailOn.ERROR) is ExitStatus.LOG_DAMAGED:
        _advise_no_rebuild(findings, _DAMAGED.format(store=shlex.quote(str(store.base))), store)
    for finding in list(findings):
        remedy = _PLACEHOLDER.sub(lambda _: shlex.quote(str(store.base)), finding.remedy)
        if remedy != finding.remedy:
            findings.exchange(finding, replace(finding, remedy_override=remedy))


def _advise_no_rebuild(findings: FindingLog, remedy: str, store: Store) -> None:
    for finding in list(findings):
        is_alone = finding.structure is Structure.INDEX and store.can(Deed.REBUILD)
        if advises_rebuild(finding.remedy, finding.structure) and not is_alone:
            findings.exchange(finding, replace(finding, remedy_override=remedy))
