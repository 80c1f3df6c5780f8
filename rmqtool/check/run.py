"""Verification of a store: its layout, the parts that are left out, and fitting remedies.

The content of files, from level 1 on, is checked in ``stages``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rmqtool.check import MAX_LEVEL, Examined, VerifyInterruptedError, VerifyReport, VerifyRequest, VerifyRun
from rmqtool.check.side_files import config_findings
from rmqtool.check.timer import timer_findings
from rmqtool.errors import DeniedError, RefusedError, UsageError
from rmqtool.findings import (
    Finding,
    FindingLog,
    codes,
)
from rmqtool.retention.deletion import HOUR_MS, next_deletions
from rmqtool.store.kinds import QUEUE_KINDS, PathKind
from rmqtool.store.layout import layout_findings
from rmqtool.store.layouts import Deed
from rmqtool.store.lock import lock_holder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.progress import Progress
    from rmqtool.store import Store

_LEVELS = (
    "level 0: names and sizes only",
    "level 1: each file on its own, not compared with the log",
    "level 2: whether every message is in queues and index was not checked",
)
_DERIVED = {**dict.fromkeys(QUEUE_KINDS, "queues"), PathKind.INDEX: "index"}


def limits_of(request: VerifyRequest) -> Iterator[str]:
    """Yield the parts that are left out, each as the end of a sentence."""
    store, level = request.store, request.level
    name = _DERIVED.get(store.kind)
    if level < MAX_LEVEL:
        yield _LEVELS[level]
    if store.kind is PathKind.COMMITLOG:
        yield "commit log alone: without queues and index"
    elif name is not None and not len(store.log):
        yield f"{name} alone: not compared with the log"
    if store.place.is_file and name is not None:
        yield "one file: the files beside it were not checked"
    if store.kind is PathKind.STORE and store.config is None and next(store.queues(), None) is not None:
        yield "without config/: a start on this copy forgets topics and offsets, and deletes queues"
    yield from _other_layouts(store)


def _other_layouts(store: Store) -> Iterator[str]:
    for feature in store.features:
        if Deed.COMPARE not in feature.layout.can:
            is_path = feature.code is codes.ST_ONE_PATH
            what = f"{'' if is_path else 'without '}{feature.label}: {feature.code.title}"
            yield what + Deed.COMPARE.value
        elif feature.code is codes.ST_ROCKSDB and store.kind in {PathKind.STORE, PathKind.CONSUMEQUEUE}:
            what = " of light queues" if Deed.READ_QUEUES in feature.layout.can else ""
            yield f"without {feature.label}: {feature.code.title}{what}"


_DAY_MS = 24 * HOUR_MS
_BETWEEN = "engine"
"""The stage between the others: engine and scratch files are set up, or removed."""


def check(request: VerifyRequest, progress: Progress) -> VerifyRun:
    """Check a store, or the part of it that is shown; an open engine stays open."""
    if not 0 <= request.level <= MAX_LEVEL:
        raise UsageError(f"--level {request.level}: there are 0 to {MAX_LEVEL}")
    request.store.forget()
    findings = FindingLog(request.max_findings)
    findings.extend(_lock_findings(request))
    limits = tuple(limits_of(request))
    run = VerifyRun(VerifyReport(str(request.store.base), request.level, findings, Examined(), limits=limits))
    try:
        with run.stage("layout"):
            run.findings.extend(layout_findings(request.store, timer_findings(request.store)))
            run.findings.extend(config_findings(request.store))
            with suppress(DeniedError):  # the checks say so
                run.note(retention=next_deletions(request.store, _DAY_MS))
        if request.level > 0:
            for setting in request.store.settings.defaulted_sizes():
                progress.warn(setting.assumption)
            # Here, because the layout alone needs no compiler, and takes a fraction of a second without.
            from rmqtool.check.stages import ContentCheck

            ContentCheck(request, run, progress).check()
    except KeyboardInterrupt:
        run.note(interrupted=run.report.interrupted or _BETWEEN)
        raise VerifyInterruptedError(run.report) from None
    return run


def _lock_findings(request: VerifyRequest) -> Iterator[Finding]:
    root = request.store.root
    try:
        holder = lock_holder(root) if root is not None else None
    except DeniedError as failure:
        yield Finding(code=codes.IO_DENIED, file="lock", message=failure.reason)
        return
    if holder is None:
        return
    if not request.live:
        raise RefusedError(
            f"{root}: {holder} holds the store's lock; stop the broker, or add --live to verify the store "
            "as it is now"
        )
    yield Finding(code=codes.ST_LOCKED, file="lock", message=f"{holder} holds the store's lock")
