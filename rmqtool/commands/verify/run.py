"""The way of ``verify``: the check, the next start, the manifest, known findings, and the verdict."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.actions.verification import predict, verify
from rmqtool.check import VerifyInterruptedError, VerifyReport, VerifyRequest, VerifyRun
from rmqtool.commands.verify import Baseline, Comparison, Verdict
from rmqtool.findings import FailOn, counted
from rmqtool.store import PathKind
from rmqtool.store.segments import label_of

if TYPE_CHECKING:
    from rmqtool.actions.verification import LostLines
    from rmqtool.commands.verify.manifest import Manifest
    from rmqtool.progress import Progress
    from rmqtool.recovery import Prediction
    from rmqtool.releases import Release


class Verification(NamedTuple):
    """Request of `verify`: the check, and all that comes after it.

    Attributes:
        request: request of the check.
        fail_on: findings that fail.
        releases: releases whose start is predicted; None stands for the one that wrote the store.
        lost: opens the writer of lost messages.
        manifest: manifest to be made or compared.
        baseline: known findings.
        setting_arguments: arguments of the command line that give settings.
    """

    request: VerifyRequest
    fail_on: FailOn
    releases: tuple[Release | None, ...] = ()
    lost: LostLines = nullcontext()
    manifest: Manifest | None = None
    baseline: Baseline | None = None
    setting_arguments: tuple[str, ...] = ()


def verified(wanted: Verification, progress: Progress) -> Verdict:
    """Verify a store, and return the verdict on it; an interrupted run has one of what it has seen."""
    request, baseline, store = wanted.request, wanted.baseline, wanted.request.store
    if baseline is not None:
        request = replace(request, max_findings=request.max_findings + baseline.largest)
    predictions: tuple[Prediction, ...] = ()
    try:
        report = verify(request, progress)
    except VerifyInterruptedError as stop:
        report = stop.report
    else:
        run = VerifyRun(report)
        with suppress(KeyboardInterrupt):  # the report says so
            if wanted.manifest is not None:
                wanted.manifest.add(run, store, progress)
            if wanted.releases:
                predictions = predict(run, store, wanted.releases, wanted.lost)
        report = run.report
    compared = None if baseline is None else _compared(baseline, report, progress)
    part = None if store.kind is PathKind.STORE else label_of(store.place.path, store.base)
    return Verdict(report, wanted.fail_on, compared, predictions, part, wanted.setting_arguments)


def _compared(baseline: Baseline, report: VerifyReport, progress: Progress) -> Comparison:
    """Compare findings with the baseline, and warn of those that only their number shows."""
    comparison = baseline.compare(report.findings, complete=report.interrupted is None)
    for code, count in comparison.by_number.items():
        progress.warn(
            f"{counted(count, 'finding')} of {code} known by number only, as the baseline does not list"
            " them; write it again with a higher --max-findings"
        )
    return comparison
