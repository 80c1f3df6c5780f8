"""What a run made of what, and the report of that."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.commands.rebuild.report import Account, QueueUnits, RangeCount, RebuildReport, RecordCount
from rmqtool.commands.rebuild.request import Asked
from rmqtool.errors import DeniedError
from rmqtool.scan.log_end import LogExtent
from rmqtool.topics import HALF_TOPIC, OP_TOPIC, ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.account.lost import LostTotals
    from rmqtool.account.model import LogLosses
    from rmqtool.commands.rebuild.compare import FileDifference
    from rmqtool.commands.rebuild.generations import Dropped
    from rmqtool.commands.rebuild.present import Present
    from rmqtool.commands.rebuild.request import RebuildRequest
    from rmqtool.dispatch.tag_evidence import TagRule
    from rmqtool.findings import FindingLog
    from rmqtool.reput.damage import SkippedRange
    from rmqtool.reput.gap_contents import UnreachableRange
    from rmqtool.reput.pipeline import ReputPlan, ReputResult
    from rmqtool.store import Store

_TRANSACTIONAL = frozenset({HALF_TOPIC, OP_TOPIC, ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC})
_TRANSACTIONS = "half and op messages of transactions (CL-HALF, CL-OP, CL-PREPARED): verify checks it"


@dataclass(frozen=True, slots=True)
class RebuildRun:
    """What a run made of what.

    Attributes:
        plan: what was to be made.
        result: counts and times.
        skipped: damaged ranges that were not dispatched.
        unreachable: ranges after the end of the broker's way.
        findings: what is wrong with the log.
        tags: which messages have an index entry for their tags; None without an index.
        older_generations: queues of topics that were created again, without their older messages.
        unsettled: sentences about queues of which nothing shows which messages live.
        present: what is there, held against the result; None for a part of one.
        lost: messages that the result has not; None unless they are asked for.
        log_losses: messages that the log has lost.
    """

    plan: ReputPlan
    result: ReputResult
    skipped: tuple[SkippedRange, ...]
    unreachable: tuple[UnreachableRange, ...]
    findings: FindingLog
    tags: TagRule | None
    older_generations: tuple[Dropped, ...]
    unsettled: tuple[str, ...]
    present: Present | None
    lost: LostTotals | None
    log_losses: LogLosses

    @property
    def account(self) -> Account:
        """Return where the log's true records went."""
        records, dispatched = self.result.records, self.result.messages
        skipped = sum(one.records for one in self.skipped)
        unreachable = sum(one.records for one in self.unreachable)
        return Account(
            records + skipped + unreachable, dispatched, records - dispatched, skipped, unreachable
        )


def _not_looked_at(store: Store, result: ReputResult) -> tuple[str, ...]:
    """Return what `rmqtool.check.log.transaction_checks` would look at, where there are transactions."""
    topics = {plan.topic for plan in result.plans}
    with suppress(DeniedError):  # then the queues that were made tell, if any were
        topics.update(store.topics())
    return () if topics.isdisjoint(_TRANSACTIONAL) else (_TRANSACTIONS,)


def report_of(
    request: RebuildRequest,
    made: RebuildRun,
    doubtful: Mapping[str, str],
    differences: tuple[FileDifference, ...] | None,
) -> RebuildReport:
    """Return the report.

    Args:
        request: what was requested.
        made: what was made.
        doubtful: settings that are not sure, and what speaks against them.
        differences: of the present files; None if they were not compared.
    """
    plan, result, account = made.plan, made.result, made.account
    left_bytes = sum(one.record_bytes for one in made.skipped)
    left_bytes += sum(one.record_bytes for one in made.unreachable)
    return RebuildReport(
        store=str(request.store.base),
        log=LogExtent.of(request.store),
        out=None if request.out is None or request.dry_run else str(request.out),
        mode="broker",
        engine=request.engine.kind,
        partial=plan.is_partial,
        asked=Asked.by(request),
        settings={setting.name: setting for setting in request.store.settings},
        doubtful_settings=doubtful,
        tag_items=made.tags,
        records=result.messages,
        bytes=result.chain.end - plan.log.start,
        units=result.units,
        index_entries=result.entries,
        queues=result.queues,
        files=dict(result.files),
        present=made.present,
        account=account,
        skipped=made.skipped,
        more_skipped=RangeCount(result.chain.more_skips, result.chain.more_skipped_bytes),
        unreachable=made.unreachable,
        skipped_units_by_queue=tuple(
            QueueUnits(*queue, units) for queue, units in sorted(result.skipped_units.items())
        ),
        older_generations=made.older_generations,
        unsettled_generations=made.unsettled,
        unindexed=result.unindexed,
        salvage_would_add=RecordCount(account.skipped + account.unreachable, left_bytes),
        salvaged=None,
        lost_messages=made.lost,
        log_losses=made.log_losses,
        findings=made.findings,
        not_looked_at=_not_looked_at(request.store, result),
        compared=differences is not None,
        differences=differences or (),
        seconds=result.seconds,
    )
