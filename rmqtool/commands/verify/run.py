"""Go through the levels: layout, the log, the queues and the index, what speaks of all of them."""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.commands.switches import policy_of
from rmqtool.commands.verify.checkpoint_checks import check_checkpoint, is_log_cut
from rmqtool.commands.verify.derived import check_derived
from rmqtool.commands.verify.guard import run_guarded
from rmqtool.commands.verify.log_checks import LogCheck, LogResult, check_log
from rmqtool.commands.verify.model import MAX_LEVEL, Examined, VerifyReport, VerifyRequest
from rmqtool.engine import open_engine
from rmqtool.errors import RefusedError, UsageError
from rmqtool.findings import Finding, FindingLog, Structure
from rmqtool.findings.places import ST_LOCKED
from rmqtool.reput.warm import compile_check_kernels, compile_kernels
from rmqtool.store.layout import layout_findings
from rmqtool.store.lock import lock_holder
from rmqtool.store.staging import StagingArea

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.commands.progress import Progress
    from rmqtool.engine import Engine
    from rmqtool.store import Store
    from rmqtool.store.segments import StoreFile
    from rmqtool.store.staging import StagingHandle

_DERIVED_LEVEL = 2
"""From here on derived files are held against the log."""


def verify(request: VerifyRequest, progress: Progress) -> VerifyReport:
    """Verify a store, or the part of it that is shown.

    Raises:
        UsageError: there is no such level.
        RefusedError: a broker holds the store's lock, and ``live`` does not say to go on.
        EnvironmentFailureError: a directory cannot be listed, or scratch files cannot be written.
    """
    if not 0 <= request.level <= MAX_LEVEL:
        raise UsageError(f"--level {request.level}: there are 0 to {MAX_LEVEL}")
    store = request.store
    findings = FindingLog(request.max_findings)
    findings.extend(_lock_findings(request))
    run = _Run(request, progress, VerifyReport(str(store.base), request.level, findings, Examined()))
    with run.timed("layout"):
        findings.extend(layout_findings(store))
    if request.level > 0:
        _warn_of_defaults(store, progress)
        with _scratch() as staging, open_engine(request.engine) as engine:
            if request.engine.kind != "local":
                compile_check_kernels()
                compile_kernels()  # while Java starts; in this process, threads share what the first compiles
            run.contents(staging, engine)
    return run.report


def _lock_findings(request: VerifyRequest) -> Iterator[Finding]:
    root = request.store.root
    holder = lock_holder(root) if root is not None else None
    if holder is None:
        return
    if not request.live:
        raise RefusedError(
            f"{root}: {holder} holds the store's lock; stop the broker, or add --live to verify what the"
            " store holds now"
        )
    yield Finding(code=ST_LOCKED, file="lock", message=f"{holder} holds the store's lock")


def _warn_of_defaults(store: Store, progress: Progress) -> None:
    for setting in store.settings.defaulted_sizes():
        progress.warn(
            f"{setting.name} is not known from the files: {setting.value} assumed;"
            f" give the broker's with -c broker.conf or -p {setting.name}=N"
        )


@contextmanager
def _scratch() -> Iterator[StagingHandle]:
    """Give room for blocks where temporary files belong; nothing of it outlives the run."""
    with tempfile.TemporaryDirectory(prefix="rmqtool-") as place, StagingArea(Path(place) / "out") as area:
        yield area.handle


def _check_offsets(store: Store, max_findings: int) -> FindingLog:
    from rmqtool.commands.verify.offsets_checks import check_offsets

    return check_offsets(store, max_findings)


def _no_files(_store: Store) -> tuple[StoreFile, ...]:
    return ()


class _Run:
    """A verification under way."""

    def __init__(self, request: VerifyRequest, progress: Progress, report: VerifyReport) -> None:
        self._request = request
        self._progress = progress
        self.report = report

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.report.seconds[stage] = round(time.perf_counter() - start, 3)

    def contents(self, staging: StagingHandle, engine: Engine) -> None:
        """Check what is in the files."""
        log: LogResult | None = None
        if len(self._request.store.commitlog):
            with self.timed("log"):
                log = self._log(staging, engine)
        log_cut = log is not None and self._is_log_cut(log)
        with self.timed("derived"):
            findings, examined = check_derived(self._request, log, engine, self._progress, log_cut=log_cut)
            self._add(findings, examined)
        if self._request.store.root is not None:
            self._consumers()

    def _is_log_cut(self, log: LogResult) -> bool:
        """Hold the checkpoint against the log; tell whether the log was longer once."""
        store = self._request.store
        if log.latest_ms is None or self._request.live:  # a running broker writes both meanwhile
            return False
        found = run_guarded(
            partial(check_checkpoint, latest_ms=log.latest_ms), _no_files, Structure.STORE, store
        )
        ahead = [found] if isinstance(found, Finding) else found
        self.report.findings.extend(ahead)
        return is_log_cut(ahead)

    def _consumers(self) -> None:
        """Hold consumer offsets against the queues."""
        check = partial(_check_offsets, max_findings=self._request.max_findings)
        found = run_guarded(check, _no_files, Structure.STORE, self._request.store)
        if isinstance(found, Finding):
            self.report.findings.add(found)
        else:
            self.report.findings.merge(found)

    def _log(self, staging: StagingHandle, engine: Engine) -> LogResult:
        request = self._request
        policy = policy_of(request.store.settings)
        check = LogCheck(
            log=request.store.commitlog,
            policy=policy if request.level >= _DERIVED_LEVEL else replace(policy, index_enabled=False),
            staging=staging,
            max_findings=request.max_findings,
            live=request.live,
            unclean=request.live or request.store.abort is not None,
        )
        result = check_log(check, engine, self._progress)
        self._add(result.findings, result.examined)
        return result

    def _add(self, findings: FindingLog, examined: Examined) -> None:
        self.report.findings.merge(findings)
        self.report.examined += examined
