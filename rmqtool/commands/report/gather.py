"""Collection of a report's content, with as few walks of the log as possible."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.check.model import VerifyRequest, VerifyRun
from rmqtool.check.run import verify
from rmqtool.commands.report.coverage import coverage_of
from rmqtool.commands.report.model import Backlog, ReportRequest, StoreReport, TopicLoss
from rmqtool.commands.report.provenance import file_times, provenance_of
from rmqtool.derived.checkpoint import read_checkpoint
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.recovery import NotPredictedError, predict_recovery
from rmqtool.recovery.outcome import skipped, start_findings
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.scan.record_at import record_at
from rmqtool.scan.record_walk import walk_log
from rmqtool.scan.records import Record
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqtool.account.lost import LostMessage
    from rmqtool.account.model import LogLosses
    from rmqtool.check.log.picture import LogPicture
    from rmqtool.commands.report.model import QueueProgress
    from rmqtool.progress import Progress
    from rmqtool.recovery.model import Prediction
    from rmqtool.store import Store

_IN_ORDER = {"ok", "no-offset"}
NAMED = 100
"""Limit of lost messages by name; verify --lost has all."""


def gather(request: ReportRequest, readers: Iterable[QueueProgress], progress: Progress) -> StoreReport:
    """Return a report; ``readers`` are the progress of groups, delay levels and the timer.

    Raises:
        UsageError: it is only a part of a store.
        RefusedError: a broker holds the store's lock, and ``live`` is off.
        EnvironmentFailureError: a directory cannot be listed, or scratch files cannot be written.
        KeyboardInterrupt: there is no report then.
    """
    store = request.store
    if store.kind is not PathKind.STORE:
        raise UsageError(f"{store.place.path}: a report is about a whole store; give the store root")
    run = VerifyRun(
        verify(
            VerifyRequest(
                store,
                engine=request.engine,
                max_findings=request.max_findings,
                live=request.live,
                pictured=True,
            ),
            progress,
        )
    )
    with run.stage("prediction"):
        progress.stage("next start", None)
        predictions = _predictions(store, run)
        lost = _lost(store, predictions)
    picture = run.picture
    with run.stage("derived"):
        progress.stage("queues and index", None)
        coverage = coverage_of(store)
    provenance = provenance_of(
        *(store, request.version, request.command, request.broker_conf, progress), log=request.hash_log
    )
    return StoreReport(
        store=str(store.base),
        provenance=provenance,
        verification=run.report(),
        predictions=predictions,
        losses=_losses(predictions, run.log_losses),
        lost=lost,
        backlogs=_backlogs(readers),
        coverage=coverage,
        times=tuple(file_times(store)),
        cut_ms=_cut_ms(store, predictions),
        finding_times=_finding_times(store, run, picture),
        checkpoint=_checkpoint(store),
        abort=store.abort is not None,
    )


def _predictions(store: Store, run: VerifyRun) -> tuple[Prediction, ...]:
    try:
        prediction = predict_recovery(store, store.settings.release)
    except (NotPredictedError, EnvironmentFailureError) as failure:
        run.findings.add(skipped(str(failure)))
        return ()
    run.findings.extend(start_findings(prediction))
    run.log_losses = prediction.log_losses or run.log_losses
    return (prediction,)


def _lost(store: Store, predictions: Sequence[Prediction]) -> tuple[LostMessage, ...]:
    """Return the first of the messages that are lost, in a second prediction only if there are some."""
    found: list[LostMessage] = []

    def tell(message: LostMessage) -> None:
        if len(found) < NAMED:
            found.append(message)

    for one in predictions:
        if one.lost or (one.log_losses is not None and one.log_losses.messages):
            with suppress(EnvironmentFailureError):  # an unreadable file is a finding already
                predict_recovery(store, one.release, tell)
    return tuple(found)


def _losses(predictions: Sequence[Prediction], log_losses: LogLosses | None) -> tuple[TopicLoss, ...]:
    """Add up by topic the messages that the next start cuts off and that the log has lost."""
    cut: Counter[str] = Counter()
    cut_bytes: Counter[str] = Counter()
    for prediction in predictions:
        for loss in prediction.lost:
            cut[loss.topic] += loss.messages
            cut_bytes[loss.topic] += loss.bytes
    missing = Counter({} if log_losses is None else log_losses.by_topic())
    total = cut + missing
    losses = (TopicLoss(topic, cut[topic], cut_bytes[topic], missing[topic]) for topic in total)
    return tuple(sorted(losses, key=lambda one: (-one.next_start - one.missing, one.topic)))


def _backlogs(readers: Iterable[QueueProgress]) -> tuple[Backlog, ...]:
    found: dict[tuple[str, str], Backlog] = {}
    for one in readers:
        key = one.reader, one.topic
        before = found.get(key, Backlog(*key, 0, 0, 0, None))
        times = [ms for ms in (before.last_timestamp_ms, one.last_timestamp_ms) if ms is not None]
        found[key] = Backlog(
            *key,
            queues=before.queues + 1,
            units=before.units + (one.lag or 0),
            odd=before.odd + (one.state not in _IN_ORDER),
            last_timestamp_ms=max(times, default=None),
        )
    return tuple(sorted(found.values(), key=lambda one: (-one.units, one.reader, one.topic)))


def _cut_ms(store: Store, predictions: Sequence[Prediction]) -> int | None:
    """Return the store time of the first intact record after the cut."""
    for prediction in predictions:
        if prediction.cut is not None and prediction.lost:
            for event in walk_log(FoundEdge.of(store), prediction.cut.physical_offset):
                if isinstance(event, Record):
                    return event.head.store_timestamp_ms
    return None


def _finding_times(store: Store, run: VerifyRun, picture: LogPicture | None) -> dict[int, int]:
    """Return the store times at the findings' physical offsets, as far as they are known."""
    found: dict[int, int] = {}
    if picture is None:
        return found
    runs = [one for file in picture.files for one in file.stretches if one.last_ms is not None]
    for offset in {one.physical_offset for one in run.findings if one.physical_offset is not None}:
        record = _record(store, offset)
        if record is not None:
            found[offset] = record.head.store_timestamp_ms
            continue
        before = [one.last_ms for one in runs if one.stop <= offset and one.last_ms is not None]
        if before:
            found[offset] = before[-1]
    return found


def _record(store: Store, offset: int) -> Record | None:
    try:
        return record_at(store.commitlog, offset)
    except EnvironmentFailureError:
        return None  # there is a finding


def _checkpoint(store: Store) -> rows.Checkpoint | None:
    try:
        found = read_checkpoint(store.checkpoint, [])
    except EnvironmentFailureError:
        return None
    return None if found is None else rows.Checkpoint(*found)
