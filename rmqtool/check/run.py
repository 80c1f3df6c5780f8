"""Verification of a store: its layout here; the content of files, from level 1 on, in ``stages``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.check.configs import config_findings
from rmqtool.check.limits import limits_of
from rmqtool.check.model import (
    MAX_LEVEL,
    Examined,
    VerifyInterruptedError,
    VerifyReport,
    VerifyRequest,
    VerifyRun,
)
from rmqtool.check.remedies import fit_remedies
from rmqtool.check.tails import Tails
from rmqtool.errors import DeniedError, RefusedError, UsageError
from rmqtool.findings import Finding, FindingLog
from rmqtool.findings.places import IO_DENIED, ST_LOCKED
from rmqtool.store.layout import layout_findings
from rmqtool.store.lock import lock_holder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.store import Store

_BETWEEN = "engine"
"""The stage between the others: engine and scratch files are set up, or removed."""


def verify(request: VerifyRequest, progress: Progress, engine: Engine | None = None) -> VerifyReport:
    """Verify a store, or the part of it that is shown; an open ``engine`` stays open.

    Raises:
        UsageError: there is no such level.
        RefusedError: a broker holds the store's lock, and ``live`` is off.
        EnvironmentFailureError: a directory cannot be listed, or scratch files cannot be written.
        VerifyInterruptedError: Ctrl-C; it carries the report so far.
    """
    if not 0 <= request.level <= MAX_LEVEL:
        raise UsageError(f"--level {request.level}: there are 0 to {MAX_LEVEL}")
    tails = Tails(request.store)
    run = _run(request, progress, engine)
    if tails.refute(run):
        progress.note("the unfetched ranges may hold records: everything is fetched and checked again")
        run = _run(request, progress, engine)
    run.limits.extend(tails.limits())
    fit_remedies(run.findings, request.store)
    return run.report()


def _run(request: VerifyRequest, progress: Progress, engine: Engine | None) -> VerifyRun:
    findings = FindingLog(request.max_findings)
    findings.extend(_lock_findings(request))
    run = VerifyRun(VerifyReport(str(request.store.base), request.level, findings, Examined()))
    run.limits.extend(limits_of(request))
    try:
        with run.stage("layout"):
            run.findings.extend(layout_findings(request.store))
            run.findings.extend(config_findings(request.store))
        if request.level > 0:
            _warn_of_defaults(request.store, progress)
            # Here, because the layout alone needs no compiler, and takes a fraction of a second without.
            from rmqtool.check.stages import check_contents

            check_contents(request, run, progress, engine)
    except KeyboardInterrupt:
        run.interrupted = run.interrupted or _BETWEEN
        raise VerifyInterruptedError(run.report()) from None
    return run


def _lock_findings(request: VerifyRequest) -> Iterator[Finding]:
    root = request.store.root
    try:
        holder = lock_holder(root) if root is not None else None
    except DeniedError as failure:
        yield Finding(code=IO_DENIED, file="lock", message=failure.reason)
        return
    if holder is None:
        return
    if not request.live:
        raise RefusedError(
            f"{root}: {holder} holds the store's lock; stop the broker, or add --live to verify the store "
            "as it is now"
        )
    yield Finding(code=ST_LOCKED, file="lock", message=f"{holder} holds the store's lock")


def _warn_of_defaults(store: Store, progress: Progress) -> None:
    for setting in store.settings.defaulted_sizes():
        progress.warn(
            f"{setting.name} cannot be inferred from the files: {setting.value} assumed; pass the broker's "
            f"own with -c broker.conf or -p {setting.name}=N"
        )
