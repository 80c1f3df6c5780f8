"""``--salvage``: queues and index over all intact records of a damaged log, as it lies there.

No broker makes them so: it stops at damage. They are made over the log that ``rmqtool salvage`` would write,
without writing it. Intact records keep their places. Where a message is lost, the unit before it is repeated,
so all others keep their queue offsets.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.commands.rebuild.report import Account, RangeCount, RebuildReport, RecordCount, Salvaged
from rmqtool.findings import counted
from rmqtool.recovery.predict import NotPredictedError, predict_recovery
from rmqtool.salvage import Choices, Holes, PartKind, SalvagePlan
from rmqtool.salvage.derived import DerivedFiles, make_derived
from rmqtool.salvage.gathering import LogCopies
from rmqtool.salvage.writing import PlannedLog

if TYPE_CHECKING:
    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.store import Store
    from rmqtool.store.staging import StagingHandle


def salvaged_report(
    report: RebuildReport, store: Store, staging: StagingHandle, engine: Engine, progress: Progress
) -> RebuildReport:
    """Make queues and index of a damaged log; return the report of a broker's way with what became of it."""
    store.base.source.fetch_tails()  # every intact record counts, wherever it lies
    copies = LogCopies((store,))
    seconds = dict(report.seconds)
    plan = copies.plan(Choices(Holes.REPEAT), engine, progress, seconds)
    derived = make_derived(PlannedLog(plan, copies.logs), store, staging, engine, progress)
    records, left_out = plan.records_of(PartKind.RECORDS), _left_out(plan)
    account = Account(
        records + left_out, derived.messages, records - derived.messages, left_out, unreachable=0
    )
    return replace(
        report,
        mode="salvage",
        records=derived.messages,
        bytes=plan.end - plan.start,
        units=derived.units,
        index_entries=derived.entries,
        queues=derived.queues,
        files=_files(derived),
        present=None,
        account=account,
        skipped=(),
        more_skipped=RangeCount(0, 0),
        unreachable=(),
        salvage_would_add=RecordCount(0, 0),
        salvaged=_salvaged(plan, next_start(store)),
        seconds=seconds,
    )


def _left_out(plan: SalvagePlan) -> int:
    """Return how many records are not recovered."""
    return sum(one.cause != "torn" for one in plan.found)


def _files(derived: DerivedFiles) -> dict[str, int]:
    return dict(Counter(label.partition("/")[0] for label, _ in derived.files))


def _salvaged(plan: SalvagePlan, start: str) -> Salvaged:
    lost = sum(one.count for one in plan.lost if not one.is_there and not one.in_light) + len(plan.indexed)
    repeated = sum(one.count for one in plan.lost if one.placed and not one.in_light)
    return Salvaged(start, _left_out(plan), lost, repeated)


def next_start(store: Store) -> str:
    """Say in one sentence what a broker's next start makes of a log."""
    try:
        prediction = predict_recovery(store, store.settings.release)
    except NotPredictedError as failure:
        return f"What a broker's next start makes of this log is not known: {failure}."
    broker = f"the next start of a {prediction.release.name} broker"
    if prediction.refusals:
        first = prediction.refusals[0]
        return f"Beware: {broker} is refused: {first.file} {first.reason}."
    lost = sum(one.messages for one in prediction.lost)
    if prediction.cut is None or not lost:
        return f"As the store lies there, {broker} cuts no message off its log."
    return (
        f"Beware: {broker} cuts this log at physical offset {prediction.cut.physical_offset} and loses"
        f" {counted(lost, 'message', spec=',')}."
    )
