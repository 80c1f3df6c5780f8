"""Queues and index over the new log, by the engine of ``rebuild``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.dispatch.tag_evidence import tag_rule
from rmqtool.formats.consumequeue import UNITS
from rmqtool.formats.index import HEADERS
from rmqtool.io import location_of
from rmqtool.reput.pipeline import ReputPlan, run_reput
from rmqtool.reput.queues import QueueGeometry
from rmqtool.salvage.model import Holes, PartKind
from rmqtool.salvage.writing import LOG_DIRECTORY, Written, write_log
from rmqtool.store.segments import FileQueue, Segment

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from rmqtool.commands.salvage.run import SalvageRequest
    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.salvage.model import SalvagePlan
    from rmqtool.store.staging import StagingArea, StagingHandle

    Rows = npt.NDArray[Any]

_DERIVED = ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index")
_CHUNK_BYTES = 4 << 20


@dataclass
class Derived:
    """What was made over the new log.

    Attributes:
        units: of the queues.
        entries: of the index.
        last_ms: store time of the last record.
        index_ms: endTimestamp of the last index file that is full.
        files: with their digests.
        log: the files of the log, where they had to be written again.
    """

    units: int
    entries: int
    last_ms: int
    index_ms: int
    files: list[Written] = field(default_factory=list)
    log: list[Written] = field(default_factory=list)


def make_derived(
    plan: SalvagePlan, request: SalvageRequest, area: StagingArea, progress: Progress, engine: Engine
) -> Derived:
    """Make queues and index.

    With ``--holes repeat`` the queues are made over a log with tombstones; then these become records that no
    queue takes, and their units repeat the one before.
    """
    whole = _reput_plan(plan, request, area)
    rewritten: list[Written] = []
    if plan.holes is Holes.REPEAT:
        queues = run_reput(replace(whole, parts=frozenset({"consumequeue"})), engine, progress)
        _repeat_units(plan, area.handle)
        rewritten = write_log(plan, request.logs, area.handle, engine, silent=True)
        result = run_reput(
            replace(_reput_plan(plan, request, area), parts=frozenset({"index"})), engine, progress
        )
        units, entries = queues.units, result.entries
    else:
        result = run_reput(whole, engine, progress)
        units, entries = result.units, result.entries
    last_ms = max([0, *(one.last_stored_ms or 0 for one in plan.queues)])
    paths = [path for name in _DERIVED for path in sorted((area.handle.result / name).rglob("*"))]
    files = engine.map(_Digester(area.handle.result), [path for path in paths if path.is_file()])
    return Derived(units, entries, last_ms, _index_ms(area.handle.result), files, rewritten)


def _reput_plan(plan: SalvagePlan, request: SalvageRequest, area: StagingArea) -> ReputPlan:
    store = request.stores[0]
    settings = store.settings
    policy = request.policy
    if settings.message_index_enable:
        policy = replace(policy, tag_items=tag_rule(store).value)
    return ReputPlan(
        log=_log_of(plan, area.handle),
        file_size=plan.file_size,
        policy=policy,
        staging=area.handle,
        parts=frozenset({"consumequeue", "index"}),
        queue_geometry=QueueGeometry(
            settings.consumequeue_file_size,
            settings.consumequeue_ext_file_size,
            settings.batchconsumequeue_file_size,
        ),
        index_geometry=settings.index_geometry,
        zone=settings.index_timezone,
    )


def _log_of(plan: SalvagePlan, handle: StagingHandle) -> FileQueue:
    base = location_of(handle.result)
    directory = base / LOG_DIRECTORY
    segments = []
    for start in range(plan.start, plan.stop, plan.file_size):
        name = f"{start:020d}"
        segments.append(Segment(directory / name, f"{LOG_DIRECTORY}/{name}", plan.file_size, start))
    return FileQueue((directory,), tuple(segments))


@dataclass(frozen=True)
class _Digester:
    """Reads files of the result."""

    base: Path

    def __call__(self, path: Path) -> Written:
        digest, size = hashlib.sha256(), 0
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
        return Written(str(path.relative_to(self.base)), digest.hexdigest(), size)


def _index_ms(result: Path) -> int:
    """Return endTimestamp of the last index file but one: that is full."""
    times = [0]
    files = sorted((result / "index").glob("*"))
    for path in files[:-1]:
        with path.open("rb") as file:
            times.append(HEADERS.padded(file.read(HEADERS.size)).end_timestamp_ms)
    return max(times)


def _repeat_units(plan: SalvagePlan, handle: StagingHandle) -> None:
    """Let units of tombstones repeat the one before them in their queue, or the next where there is none."""
    starts, stops = _tombstones(plan)
    if not len(starts):
        return
    for directory in sorted((handle.result / "consumequeue").glob("*/*")):
        before = None
        for path in sorted(directory.iterdir()):
            data = path.read_bytes()
            rows = np.frombuffer(data, UNITS.dtype, len(data) // UNITS.size).copy()
            after = np.searchsorted(stops, rows["physicalOffset"], "right")
            inside = (rows["size"] > 0) & (after < len(starts))
            inside[inside] = starts[after[inside]] <= rows["physicalOffset"][inside]
            if inside.any():
                before = _repeat(rows, inside, before)
                with handle.create_file(str(path.relative_to(handle.result)), len(data)) as file:
                    file.write_at(0, rows.tobytes())
            elif rows["size"].any():
                before = rows[np.flatnonzero(rows["size"])[-1]].copy()


def _repeat(rows: Rows, inside: Rows, before: Any) -> Any:  # noqa: ANN401 - a numpy row
    """Repeat units; return the last one."""
    good = np.flatnonzero(~inside & (rows["size"] > 0))
    for number in np.flatnonzero(inside):
        place = int(np.searchsorted(good, number))
        if place:
            rows[number] = rows[good[place - 1]]
        elif before is not None:
            rows[number] = before
        elif len(good):
            rows[number] = rows[good[0]]
    return rows[np.flatnonzero(rows["size"])[-1]].copy()


def _tombstones(plan: SalvagePlan) -> tuple[Rows, Rows]:
    parts = [part for part in plan.parts if part.kind is PartKind.TOMBSTONES]
    bounds = np.array([(part.start, part.stop) for part in parts], np.int64).reshape(-1, 2)
    return bounds[:, 0], bounds[:, 1]
