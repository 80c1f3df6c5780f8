"""Queues and index over the new log, by the engine of ``rebuild``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.index_keys import assumptions, tag_rule
from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.formats.consumequeue import BATCH_UNITS, UNITS
from rmqtool.formats.index import HEADERS
from rmqtool.reput.pipeline import ReputPlan, run_reput
from rmqtool.salvage import Holes, PartKind, SalvagePlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Bools, Int64s, Row, Rows
    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.salvage.writing import PlannedLog
    from rmqtool.store import Store, StoreFile
    from rmqtool.store.segments import FileQueue
    from rmqtool.store.staging import StagingHandle


_DERIVED = ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index")
PARTS = ("consumequeue", "index")
_REPEATED = {"consumequeue": UNITS.dtype, "batchconsumequeue": BATCH_UNITS.dtype}
_NAMING = ("physicalOffset", "size", "tagsCode")
"""Fields that name a message; the rest of a batch unit, its queue offsets and time, is its place."""


@dataclass
class DerivedFiles:
    """Queues and index made over the new log.

    Attributes:
        messages: intact records that were dispatched.
        units: of the queues.
        queues: how many.
        entries: of the index.
        index_ms: endTimestamp of the last index file that is full.
        files: their labels, with their digests, but for large ones that are mostly a hole.
        assumed: settings that no file shows, and what rests on them.
    """

    messages: int
    units: int
    queues: int
    entries: int
    index_ms: int
    files: list[tuple[str, str]]
    assumed: dict[str, str]


def make_derived(
    log: PlannedLog,
    store: Store,
    staging: StagingHandle,
    engine: Engine,
    progress: Progress,
    written: FileQueue | None = None,
) -> DerivedFiles:
    """Make queues and index over a planned log, or the one that was written of it, by a store's settings.

    With ``--holes repeat`` the queues are made over a log with tombstones, whose units then repeat the one
    before; the index over one without.
    """
    if log.plan.holes is Holes.REPEAT:
        loud = reput_plan(replace(log, silent=False).files, store, staging, "consumequeue")
        queues = run_reput(loud, engine, progress)
        _repeat_units(log.plan, staging)
        index = run_reput(
            reput_plan(replace(log, silent=True).files, store, staging, "index"), engine, progress
        )
    else:
        queues = index = run_reput(reput_plan(written or log.files, store, staging, *PARTS), engine, progress)
    files = [file for name in _DERIVED for file in staging.finished(name)]
    digests = staging.digests(files, engine.map)
    made = sum(log.plan.records_of(kind) for kind in (PartKind.TOMBSTONES, PartKind.FILLER))
    return DerivedFiles(
        index.messages - made,
        queues.units,
        queues.queues,
        index.entries,
        last_index_ms(staging.finished("index")),
        [(file.label, digests[file]) for file in files if file in digests],
        assumptions(store, PARTS, tag_rule(store) if store.settings.message_index_enable else None),
    )


def reput_plan(log: FileQueue, store: Store, staging: StagingHandle, *parts: str) -> ReputPlan:
    """Return the plan of parts made over a new log, by the settings of the store that it is of."""
    policy = DispatchPolicy.from_settings(store.settings)
    if policy.index_enabled:
        policy = policy._replace(tag_items=tag_rule(store).value)
    return ReputPlan.of(store.settings, log, policy, staging, *parts)


def last_index_ms(files: Sequence[StoreFile]) -> int:
    """Return endTimestamp of the last index file but one: that is full."""
    heads = [HEADERS.padded(file.path.read_head(HEADERS.size)) for file in files[:-1]]
    return max((head.end_timestamp_ms for head in heads), default=0)


def _repeat_units(plan: SalvagePlan, handle: StagingHandle) -> None:
    """Let units of tombstones repeat the one before them in their queue, or the next where there is none."""
    starts, stops = _tombstones(plan)
    if not len(starts):
        return
    for name, kind in _REPEATED.items():
        for _, of_queue in groupby(handle.finished(name), lambda file: file.path.parent):
            before = None
            for one in of_queue:
                data = one.path.read_head(one.size_bytes)
                rows = np.frombuffer(data, kind, len(data) // kind.itemsize).copy()
                after = np.searchsorted(stops, rows["physicalOffset"], "right")
                inside = (rows["size"] > 0) & (after < len(starts))
                inside[inside] = starts[after[inside]] <= rows["physicalOffset"][inside]
                if inside.any():
                    before = _repeat(rows, inside, before)
                    with handle.create_file(one.label, len(data)) as file:
                        file.write_at(0, rows.tobytes())
                elif rows["size"].any():
                    before = rows[np.flatnonzero(rows["size"])[-1]].copy()


def _repeat(rows: Rows, inside: Bools, before: Row | None) -> Row:
    """Let units name the message of another; return the last one."""
    good = np.flatnonzero(~inside & (rows["size"] > 0))
    for number in np.flatnonzero(inside):
        place = int(np.searchsorted(good, number))
        other = rows[good[place - 1]] if place else before
        if other is None and len(good):
            other = rows[good[0]]
        if other is not None:
            for name in _NAMING:
                rows[number][name] = other[name]
    return rows[np.flatnonzero(rows["size"])[-1]].copy()


def _tombstones(plan: SalvagePlan) -> tuple[Int64s, Int64s]:
    parts = [part for part in plan.parts if part.kind is PartKind.TOMBSTONES]
    bounds = np.array([(part.start, part.stop) for part in parts], np.int64).reshape(-1, 2)
    return bounds[:, 0], bounds[:, 1]
