"""Collection of a report's content, with as few walks of the log as possible."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.actions.verification import predict, verify
from rmqtool.check import VerifyRequest, VerifyRun
from rmqtool.check.digests import Hashed, ListedFile, hash_all
from rmqtool.commands.report import (
    Backlog,
    FileDigest,
    Provenance,
    ReportRequest,
    StoreReport,
    TopicLoss,
)
from rmqtool.derived.positions import read_checkpoint
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.io import FileKind, Location, location_of
from rmqtool.lookup.delayed import DelayedMessages, delayed_messages
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import walk_log
from rmqtool.scan.records import Record
from rmqtool.store import PathKind, Store
from rmqtool.store.segments import label_of
from rmqtool.times import present_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rmqtool.account import LogLosses
    from rmqtool.account.lost import LostMessage
    from rmqtool.progress import Progress
    from rmqtool.recovery import Prediction


_SMALL_BYTES = 8 << 20
"""A larger config file is named and not hashed."""

_MOST_FILES = 500


def provenance_of(
    store: Store,
    version: str,
    command: str,
    broker_conf: Path | None,
    progress: Progress,
    *,
    log: bool,
) -> Provenance:
    """Return the sources of a report; ``log`` hashes the log's files, too."""
    places = [(label_of(place, store.base), place) for place in _small_files(store)]
    if broker_conf is not None:
        places.append((str(broker_conf), location_of(broker_conf)))
    files = [_listed(label, place) for label, place in places[:_MOST_FILES]]
    files += [
        ListedFile(segment.path, segment.label, segment.size_bytes, 0) for segment in store.commitlog if log
    ]
    wanted = [file for file in files if isinstance(file, ListedFile)]
    hashed = iter(hash_all(wanted, None, progress, "SHA-256"))
    digests = (file if isinstance(file, FileDigest) else _digest(file, next(hashed)) for file in files)
    return Provenance(
        version=version,
        command=command,
        made_ms=present_ms(),
        settings={setting.name: setting for setting in store.settings},
        digests=tuple(digests),
    )


def _small_files(store: Store) -> list[Location]:
    """Return the files beside log, queues and index that a start reads, and the settings."""
    locations = [] if store.checkpoint is None else [store.checkpoint.path]
    locations += [] if store.abort is None else [store.abort]
    if store.config is not None:
        try:
            names = [entry.name for entry in store.config.entries() if entry.status.kind is FileKind.FILE]
        except EnvironmentFailureError:
            names = []  # there is a finding
        locations += [store.config / name for name in sorted(names)]
    return locations


def _listed(label: str, place: Location) -> ListedFile | FileDigest:
    """Return a file to be hashed; without digest what is none, or too large."""
    status = place.status()
    if status is None or status.kind is not FileKind.FILE:
        return FileDigest(label, 0, None, "gone" if status is None else f"is {status.kind}")
    if status.size_bytes > _SMALL_BYTES:
        return FileDigest(label, status.size_bytes, None, f"larger than {_SMALL_BYTES >> 20} MiB")
    return ListedFile(place, label, status.size_bytes, 0)


def _digest(file: ListedFile, hashed: Hashed) -> FileDigest:
    return FileDigest(
        file.label,
        file.size_bytes,
        hashed.digest,
        next((finding.message for finding in hashed.findings), None),
    )


NAMED = 100
"""Limit of lost messages by name; verify --lost has all."""


def gather(
    request: ReportRequest, backlogs: Callable[[], tuple[Backlog, ...]], progress: Progress
) -> StoreReport:
    """Return a report; ``backlogs`` returns those of groups, delay levels and the timer."""
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
    progress.stage("next start", None)
    predictions, lost = _predictions(store, run)
    provenance = provenance_of(
        *(store, request.version, request.command, request.broker_conf, progress), log=request.hash_log
    )
    return StoreReport(
        store=str(store.base),
        provenance=provenance,
        verification=run.report,
        predictions=predictions,
        losses=_losses(predictions, run.report.log_losses),
        lost=lost,
        backlogs=backlogs(),
        delayed=_delayed(store, provenance.made_ms),
        cut_ms=_cut_ms(store, predictions),
        checkpoint=_checkpoint(store),
        abort=store.abort is not None,
    )


def _predictions(store: Store, run: VerifyRun) -> tuple[tuple[Prediction, ...], tuple[LostMessage, ...]]:
    """Return the next start, and the first of the messages that are lost."""
    messages: list[LostMessage] = []

    def add(message: LostMessage) -> None:
        if len(messages) < NAMED:
            messages.append(message)

    predictions = predict(run, store, [None], nullcontext(add))
    for prediction in predictions:
        run.note(log_losses=run.report.log_losses or prediction.log_losses)
    return predictions, tuple(messages)


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
    return tuple(sorted(losses, key=lambda queue: (-queue.next_start - queue.missing, queue.topic)))


def _cut_ms(store: Store, predictions: Sequence[Prediction]) -> int | None:
    """Return the store time of the first intact record after the cut."""
    for prediction in predictions:
        if prediction.cut is not None and prediction.lost:
            for event in walk_log(FoundEdge.of(store), prediction.cut.physical_offset):
                if isinstance(event, Record):
                    return event.head.store_timestamp_ms
    return None


def _delayed(store: Store, now_ms: int) -> tuple[DelayedMessages, ...]:
    try:
        return tuple(
            row for row in delayed_messages(store, now_ms) if row.waiting or row.passed_over or row.twice
        )
    except EnvironmentFailureError:
        return ()  # there is a finding


def _checkpoint(store: Store) -> rows.Checkpoint | None:
    try:
        fields = read_checkpoint(store.checkpoint, [])
    except EnvironmentFailureError:
        return None
    return None if fields is None else rows.Checkpoint(*fields)
