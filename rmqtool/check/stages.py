"""Stages of a verification: the log, the queues and the index, then the checks of all of them together."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rmqtool.check import CheckInterruptedError, VerifyRequest, VerifyRun, denied, run_guarded
from rmqtool.check.delays import DelayBalance
from rmqtool.check.derived import check_derived
from rmqtool.check.entries import member_findings
from rmqtool.check.lag import check_window
from rmqtool.check.log import LogCheck, LogResult, check_log
from rmqtool.check.log_findings import fold_without_sum, tell_contradicted, unlisted_batch_topics
from rmqtool.check.side_files import check_checkpoint, check_epochs, check_offsets, is_log_cut
from rmqtool.derived.positions import checked_half_offsets, passed_delays
from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.engine import Engine, options_of
from rmqtool.engine.choice import opened_engine
from rmqtool.errors import DeniedError
from rmqtool.findings import Finding, Severity, Structure, codes, counted
from rmqtool.kernels.jit import compile_kernels
from rmqtool.reput.blocks import place_of_blocks
from rmqtool.retention.expiry import check_expiry, of_findings
from rmqtool.scan.classify import page_writer
from rmqtool.store.layouts import Deed
from rmqtool.topics import TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.progress import Progress
    from rmqtool.store import Store
    from rmqtool.store.segments import FileQueue, StoreFile
    from rmqtool.store.staging import StagingHandle

_DERIVED_LEVEL = 2
"""From this level on derived files are compared with the log."""

_LOSS_SIGNS = frozenset(
    code.code
    for code in (
        codes.CL_QOFF_GAP,
        codes.CQ_DANGLING,
        codes.CQ_STALE_TAIL,
        codes.CQ_SUPERFLUOUS,
        codes.IX_DANGLING,
    )
)
"""Without a finding of these, each message that a queue lists has its record."""
_SIGNS_OF_A_TWIN = {codes.CL_TS_BACK.code, codes.IX_HEADER.code}
"""With `IX-WRONG`: or a file of a log to which the same was sent has it; see `rmqtool.genuine.foreign`."""

_BALANCE_LEVEL = 3
"""From this level on half messages, op messages and commits are compared with each other."""


def _no_files(_store: Store) -> tuple[StoreFile, ...]:
    return ()


class ContentCheck:
    """Checks of what is in the files; a run gets their findings, also if they are interrupted."""

    def __init__(self, request: VerifyRequest, run: VerifyRun, progress: Progress) -> None:
        self._request = request
        self._run = run
        self._progress = progress

    def check(self) -> None:
        """Run the checks in order."""
        request, store = self._request, self._request.store
        options = request.engine
        place = place_of_blocks(options, store.evidence_roots, store.log.stop - store.log.start)
        with place as staging, opened_engine(options) as engine:
            if options_of(options).kind != "local":
                compile_kernels()  # while Java starts; in this process, threads share what the first compiles
            log, is_denied = self._log_stage(staging, engine)
            is_partial = is_denied or not store.can(Deed.COMPARE)
            log_cut = log is not None and not is_partial and self._is_log_cut(log)
            with self._stage("derived"):
                if request.live:
                    store.list_anew()  # the broker has made more of them since
                level = min(request.level, _DERIVED_LEVEL - 1) if is_partial else request.level
                compared = replace(request, level=level)
                findings, examined = check_derived(compared, log, engine, self._progress, log_cut=log_cut)
                self._run.add(findings, examined)
                if log is not None and not is_denied and request.level >= _DERIVED_LEVEL:
                    head = of_findings(log.log_start, log.latest_ms, log.plans, self._run.findings)
                    self._add(Structure.COMMITLOG, partial(check_expiry, head=head))
                    tell_contradicted(store.log, self._run.findings)
                if not is_partial and not request.live:
                    self._account(log, engine)
                if not is_partial and not log_cut:
                    self._tell_passed(log, engine)
        if store.root is not None:
            with suppress(DeniedError):  # IO-DENIED of level 0 says so
                self._check_whole_store(log, is_partial=is_partial)

    def _log_stage(self, staging: StagingHandle, engine: Engine) -> tuple[LogResult | None, bool]:
        """Check what can be read of the log; return the result, and whether some of it could not be read."""
        store = self._request.store
        if not (len(store.commitlog) or (len(store.log) and self._request.level >= _DERIVED_LEVEL)):
            return None, False
        with self._stage("log"):
            readable = self._readable_log()
            log = self._log(readable, staging, engine) if len(readable) else None
        if is_denied := len(readable) < len(store.log):
            left_out = "parts of the log could not be read: nothing was compared with it"
            self._run.note(limits=(*self._run.report.limits, left_out))
        if log is not None and log.last_entries is not None and not self._request.live:
            self._add(Structure.COMMITLOG, partial(member_findings, last=log.last_entries))
        return log, is_denied

    def _check_whole_store(self, log: LogResult | None, *, is_partial: bool) -> None:
        """Check what needs all structures of the store; what needs the log only if that was read whole."""
        store = self._request.store
        if store.can(Deed.READ_QUEUES):
            timed = log is None or is_partial or any(plan.topic == TIMER_TOPIC for plan in log.plans)
            self._add(
                Structure.STORE, partial(check_offsets, timed=timed)
            )  # else there are other queues, too
        if not is_partial:
            self._tell_unconfirmed(log)
            if log is not None:
                self._run.findings.extend(check_epochs(self._request.store, log.log_end))
            self._tell_window()

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Keep the findings of a check that was interrupted."""
        with self._run.stage(name):
            try:
                yield
            except CheckInterruptedError as stop:
                self._run.add(stop.findings, stop.examined)
                raise

    def _is_log_cut(self, log: LogResult) -> bool:
        """Compare the checkpoint with the log; return whether the log was longer once."""
        if log.latest_ms is None or self._request.live:  # a running broker writes both meanwhile
            return False
        return is_log_cut(self._add(Structure.STORE, partial(check_checkpoint, latest_ms=log.latest_ms)))

    def _add(self, structure: Structure, check: Callable[[Store], Iterable[Finding]]) -> list[Finding]:
        """Add the findings of a check of the whole store, or that it has failed itself."""
        findings = run_guarded(lambda store: list(check(store)), _no_files, structure, self._request.store)
        findings = [findings] if isinstance(findings, Finding) else findings
        self._run.findings.extend(findings)
        return findings

    def _account(self, log: LogResult | None, engine: Engine) -> None:
        """Add the account of the log's messages, if something shows losses: a sound log is read once."""
        store, findings = self._request.store, self._run.findings
        with suppress(DeniedError):  # IO-DENIED of level 0 says so
            confirmed = store.confirm_offset
            is_behind = log is not None and confirmed is not None and confirmed < log.log_end
            shown = Structure.COMMITLOG in findings.errors or bool(_LOSS_SIGNS & findings.counts.keys())
            shown |= codes.IX_WRONG.code in findings.counts and bool(
                _SIGNS_OF_A_TWIN & findings.counts.keys()
            )
            if is_behind or shown or (log is not None and log.log_start > 0):
                from rmqtool.account.log_losses import losses_of  # few logs have lost anything

                losses = losses_of(store, findings, engine, is_suspect=is_behind or shown)
                self._run.note(log_losses=losses)

    def _tell_passed(self, log: LogResult | None, engine: Engine) -> None:
        """Add the delayed messages that no broker delivers any more, if all records are known."""
        run, losses = self._run, self._run.report.log_losses
        is_lost = losses is not None and losses.messages > 0
        if log is None or not log.passed or is_lost or Structure.COMMITLOG in run.findings.errors:
            return
        for finding, count in engine.map(DelayBalance.check, [DelayBalance(log.blocks, log.passed)])[0]:
            run.findings.add(finding, count=count)

    def _tell_unconfirmed(self, log: LogResult | None) -> None:
        """Add the part of the log that replicas have not confirmed, in controller mode."""
        confirmed = self._request.store.confirm_offset
        if log is None or confirmed is None or confirmed >= log.log_end:
            return
        start, losses = max(confirmed, log.log_start), self._run.report.log_losses
        what = f"{log.log_end - start} bytes"
        if losses is not None and losses.states is not None:
            what = f"{counted(losses.states.unconfirmed, 'record', spec=',')} in {what}"
        message = f"{what} from {start} on are not confirmed, by the checkpoint"
        finding = Finding(
            code=codes.ST_UNCONFIRMED, physical_offset=start, length=log.log_end - start, message=message
        )
        self._run.findings.add(finding)

    def _tell_window(self) -> None:
        """Add the records that the next start leaves without units; a running broker is past that."""
        if self._request.live:
            return
        damaged = any(
            finding.structure is Structure.CONSUMEQUEUE and finding.severity is Severity.ERROR
            for finding in self._run.findings
        )
        self._add(Structure.CONSUMEQUEUE, partial(check_window, damaged=damaged))

    def _readable_log(self) -> FileQueue:
        log, readable = self._request.store.own_log, []
        for segment in log:
            if (finding := denied(segment)) is None:
                readable.append(segment)
            else:
                self._run.findings.add(finding)
        return log if len(readable) == len(log) else replace(log, segments=tuple(readable))

    def _log(self, log: FileQueue, staging: StagingHandle, engine: Engine) -> LogResult:
        request = self._request
        is_whole = len(log) == len(request.store.log) and request.store.can(Deed.COMPARE)
        is_asked = is_whole and request.level >= _BALANCE_LEVEL and len(request.store.commitlog)
        policy = DispatchPolicy.to_check(request.store.settings)
        check = LogCheck(
            log,
            policy if request.level >= _DERIVED_LEVEL else policy._replace(index_enabled=False),
            staging,
            request.max_findings,
            live=request.live,
            unclean=request.live or request.store.is_end_torn_by_kill,
            page_writer=page_writer(request.store.settings),
            half_offsets=checked_half_offsets(request.store) if is_asked else None,
            passed=passed_delays(request.store) if is_asked and not request.live else (),
            is_whole=is_whole,
            pictured=request.pictured,
        )
        result = check_log(check, engine, self._progress)
        fold_without_sum(result.findings, request.store.settings)
        self._run.add(result.findings, result.examined)
        self._run.findings.extend(unlisted_batch_topics(request.store, result.plans))
        self._run.note(picture=result.picture)
        return result
