"""Judgement of the log that a rebuild has read, by verify's checks; units of topics created again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from rmqtool.check.log_findings import (
    as_torn,
    fold_without_sum,
    illegal_queue_findings,
    record_findings,
    torn_record,
)
from rmqtool.check.queue_offsets import Breaks, Older, add_breaks, breaks_of, without_copies
from rmqtool.commands.rebuild import Generations
from rmqtool.derived.queues import open_queue
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, FindingLog, Severity, codes, counted
from rmqtool.progress import NullProgress, Progress
from rmqtool.reput.damage import SkippedRange, counted_skips, log_findings
from rmqtool.scan.classify import FoundEdge, LogEdge, copied_records
from rmqtool.scan.record_walk import find_log_end
from rmqtool.store.broker_conf import Origin
from rmqtool.store.kinds import PathKind
from rmqtool.store.layout import log_file_findings
from rmqtool.store.names import is_illegal
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Rows
    from rmqtool.derived.queues import Queue
    from rmqtool.engine import Engine
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.pipeline import ReputPlan, ReputResult
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store import Store


_FILES = 2
_SIGNS = (codes.CL_QOFF_DUP, codes.CL_QOFF_RANGE, codes.CL_QOFF_RESET, codes.CL_PHY_MISMATCH)


def report_old_tail(
    findings: FindingLog, plan: ReputPlan, result: ReputResult, engine: Engine, edge: LogEdge
) -> None:
    """Say that the last records are old ones, in the place of what they make look wrong; or say nothing."""
    segments = [segment for segment in plan.log if segment.start < result.chain.end][-_FILES:]
    signs = [finding for finding in findings if finding.code in _SIGNS]
    if not segments or not any((sign.physical_offset or 0) >= segments[0].start for sign in signs):
        return
    # Not every rebuild needs verify's checks of a log.
    from rmqtool.check.log import LogCheck, check_log

    check = LogCheck(
        log=replace(plan.log, segments=tuple(segments)),
        policy=plan.policy._replace(index_enabled=False),
        staging=plan.staging,
        page_writer=edge.page_writer,
    )
    checked = check_log(check, engine, NullProgress())
    start = checked.log_end
    if checked.stale_stop == start:
        return
    for sign in signs:
        if (sign.physical_offset or 0) >= start and sign.severity is Severity.ERROR:
            findings.exchange(sign, replace(sign, severity_override=Severity.WARNING))
    tail = next(
        finding
        for finding in checked.findings
        if finding.code is codes.CL_TAIL_DIRTY and finding.physical_offset == start
    )
    message = f"{tail.message}; the result holds them, too: --until-offset {start} leaves them out"
    findings.add(replace(tail, message=message))


def judge_log(
    store: Store,
    plan: ReputPlan,
    result: ReputResult,
    skipped: Sequence[SkippedRange],
    edge: FoundEdge,
    engine: Engine,
) -> FindingLog:
    """Return the findings about the log: its files, the walk through it, its records, their queue offsets."""
    findings = FindingLog(plan.max_findings)
    findings.extend(log_file_findings(store))
    findings.extend(log_findings(plan, result, skipped, edge))
    more, count = counted_skips(result.chain)
    findings.add(more, count=count)
    reports = result.chain.reports
    for _, group in groupby(reports, key=lambda report: report.split.segment):
        findings.merge(record_findings(list(group), plan.max_findings))
    fold_without_sum(findings, store.settings)
    if edge.unclean:
        end = result.chain.end if edge.stale_from is None else min(result.chain.end, edge.stale_from)
        if (torn := torn_record(findings, end)) is not None:
            findings.exchange(torn, as_torn(torn))
    findings.extend(illegal_queue_findings(plan.log, _illegal_queues(result)))
    lost = [(part.skip.log_offset, part.skip.log_offset + part.skip.length) for part in skipped]
    add_breaks(findings, plan.log, _breaks(plan, result, edge, engine), lost)
    report_old_tail(findings, plan, result, engine, edge)
    if not plan.is_partial:
        with suppress(EnvironmentFailureError):  # present files are compared later, which reports it
            findings.extend(_expiry(store, result, edge))
    return findings


def _expiry(store: Store, result: ReputResult, edge: FoundEdge) -> Iterator[Finding]:
    """Yield what lay before the log's first byte, and whether it has expired."""
    if store.commitlog.start <= 0:  # nothing was before it
        return
    from rmqtool.retention.expiry import check_expiry, of_queues  # loads the prediction

    yield from check_expiry(store, of_queues(store, find_log_end(edge).last_ms, result.plans))


def _illegal_queues(result: ReputResult) -> dict[tuple[bytes, int], int]:
    """Return queues whose name or id no broker would give, with the offset of their first unit's record."""
    first_places = {}
    for plan in result.plans:
        queue = plan.topic.encode(errors="surrogatepass"), plan.queue_id
        if is_illegal(*queue):
            first = plan.runs()[0]
            unit = result.blocks[int(first["block"])].read("units", int(first["first_row"]), 1)
            first_places[queue] = int(unit["physicalOffset"][0])
    return first_places


def _breaks(plan: ReputPlan, result: ReputResult, edge: FoundEdge, engine: Engine) -> Breaks:
    """Return where queue offsets do not follow, of the queues that were placed; copies after the end may."""
    copies = frozenset[int]()
    if edge.stale_from is not None:
        copies = copied_records(edge.segments[edge.last], edge.stale_from)
    most, from_zero = plan.max_findings + len(copies), plan.log.start == 0
    breaks = breaks_of(result.plans, result.blocks, engine, from_zero=from_zero, max_breaks=most)
    return without_copies(breaks, copies)


def judge_delay_table(
    store: Store, plan: ReputPlan, result: ReputResult, findings: FindingLog, progress: Progress
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Report damage of the delay table; return why queues were not read, and what rests on an assumed one."""
    try:
        findings.extend(_delay_findings(store, plan, result))
        doubt = _assumed_delay_table(store, result)
    except EnvironmentFailureError as failure:
        return (str(failure),), {}
    if doubt is None:
        return (), {}
    progress.warn(f"messageDelayLevel is not known: {doubt}")
    return (), {"messageDelayLevel": doubt}


def _delay_findings(store: Store, plan: ReputPlan, result: ReputResult) -> Iterator[Finding]:
    """Yield that the broker had another delay table than is assumed, where the present queues show it."""
    delayed = _delayed(result)
    if not delayed:
        return
    # Not every rebuild needs the checks of queues.
    from rmqtool.check.expected import QueueCheck, QueueCheckTask
    from rmqtool.check.queue_units import tell_delay_table_once
    from rmqtool.check.queues import check_queues

    checks = []
    for queue in delayed:
        kinds = (PathKind.CONSUMEQUEUE, PathKind.CONSUMEQUEUE_EXT)
        there = (store.queue(queue.topic, queue.queue_id, kind) for kind in kinds)
        files, ext_files = (None if one is None else one.files for one in there)
        checks.append(QueueCheck(queue.topic, queue.queue_id, queue.batch, files, ext_files, queue))
    task = QueueCheckTask(
        tuple(checks),
        tuple(result.blocks),
        plan.policy.ext,
        log_start=plan.log.start,
        log_end=result.chain.end,
        level=2,
        unclean=store.abort is not None,
        max_findings=plan.max_findings,
    )
    log, _ = check_queues(task)
    tell_delay_table_once(log)
    yield from (finding for finding in log if finding.code is codes.ST_SETTINGS)


def _assumed_delay_table(store: Store, result: ReputResult) -> str | None:
    """Return what rests on a delay table that nobody gave, and none shows; None if nothing does."""
    queues = _delayed(result)
    if not queues or store.settings["messageDelayLevel"].origin is Origin.GIVEN:
        return None
    there = (open_queue(store, queue.topic, queue.queue_id) for queue in queues)
    if any(queue is not None and queue.file_count for queue in there):
        return None
    units = sum(queue.units for queue in queues)
    return (
        f"the deliver times of {units} delayed messages follow the default;"
        " give the broker's with -c broker.conf or -p messageDelayLevel='1s 5s …'"
    )


def _delayed(result: ReputResult) -> list[QueuePlan]:
    """Return the queues of delayed messages."""
    return [queue for queue in result.plans if queue.topic == SCHEDULE_TOPIC]


@dataclass(frozen=True, slots=True)
class Dropped:
    """Units of a queue as it was before its topic was deleted.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        units: how many are left out.
        kept: units of the generation that lives; 0: the queue was not written to since.
        physical_offset: of the first message of the topic since it was created again.
    """

    topic: str
    queue_id: int
    units: int
    kept: int
    physical_offset: int


@dataclass
class GenerationChoice:
    """Leaves units of older generations out of a run's queues, by the user's ``mode``, and remembers which.

    ``dropped`` are queues of which units were left out; ``unsettled`` are sentences about queues whose
    offsets begin again, where nothing shows which live.
    """

    store: Store
    mode: Generations = Generations.AUTO
    dropped: list[Dropped] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)

    def __call__(self, plans: Sequence[QueuePlan], blocks: Sequence[Block]) -> list[QueuePlan]:
        """Return the queues with the units that live; all of them where nothing begins again."""
        if self.mode is Generations.ALL or all(plan.joined or plan.batch for plan in plans):
            return list(plans)
        # What few logs need is loaded for these only.
        from rmqtool.check.queue_offsets import last_restarts, restarts, with_queues_gone

        older = restarts(plans, blocks, self._queue_of)
        anew = with_queues_gone(older, plans, blocks, lambda *key: self._queue_of(*key) is not None)
        others = [plan for plan in plans if self._shows_nothing(plan, anew)]
        last = last_restarts(others, blocks)
        if self.mode is Generations.LIVE:
            anew, last = last | anew, {}
        for plan in plans:
            if (restart := last.get((plan.topic, plan.queue_id))) is not None:
                self.unsettled.append(
                    f"the queue offsets of {plan.topic}/{plan.queue_id} begin again at 0 after"
                    f" {counted(restart.units, 'message')}, as if the topic had been created again, and no"
                    " queue shows it: older messages hide later ones; --generations live keeps the later ones"
                )
        return [kept for plan in plans if (kept := self._chosen(plan, blocks, anew)) is not None]

    @property
    def since(self) -> dict[tuple[str, int], int]:
        """Return where the first message lies of those that live, by topic and queue id."""
        return {(dropped.topic, dropped.queue_id): dropped.physical_offset for dropped in self.dropped}

    def _shows_nothing(self, plan: QueuePlan, anew: dict[tuple[str, int], Older]) -> bool:
        """Return whether the log alone shows which messages of a queue live.

        A queue that begins later than the log's messages was created while older ones were still dispatched.
        """
        if (plan.topic, plan.queue_id) in anew:
            return False
        queue = None if self.mode is Generations.LIVE else self._queue_of(plan.topic, plan.queue_id)
        first = max(int(plan.runs()[0]["first_queue_offset"]), 0)
        return queue is None or queue.first_number > first

    def _chosen(
        self, plan: QueuePlan, blocks: Sequence[Block], anew: dict[tuple[str, int], Older]
    ) -> QueuePlan | None:
        key = plan.topic, plan.queue_id
        older = anew.get(key)
        if older is None:
            return plan
        self.dropped.append(Dropped(*key, older.units, plan.units - older.units, older.physical_offset))
        return None if older.units == plan.units else plan.with_runs(_after(plan, blocks, older.units))

    def _queue_of(self, topic: str, queue_id: int) -> Queue | None:
        """Return a queue that is there; what cannot be listed shows nothing."""
        with suppress(EnvironmentFailureError):
            queue = open_queue(self.store, topic, queue_id)
            if queue is not None and queue.file_count >= 0:  # it can be listed
                return queue
        return None


def _after(plan: QueuePlan, blocks: Sequence[Block], row: int) -> Rows:
    """Return the runs of a queue from a unit on, one of its own."""
    runs, before = plan.runs_from(row)
    left = runs.copy()
    if before:
        # Where it begins again inside a run, that is read unit by unit.
        left["first_row"][0] += before
        left["count"][0] -= before
        unit = blocks[int(left["block"][0])].read("units", int(left["first_row"][0]), 1)[0]
        left["first_queue_offset"][0] = left["orderly"][0] = 0
        left["first_end"][0] = int(unit["physicalOffset"]) + int(unit["size"])
    return left
