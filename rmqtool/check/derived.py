"""Checks of every derived file, together with the units or entries that the log requires of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.check import CheckInterruptedError, Examined, VerifyRequest, denied, run_guarded
from rmqtool.check.expected import IndexCheckTask, QueueCheck, QueueCheckTask
from rmqtool.check.lag import Lag, confirmed_lag, lag_of
from rmqtool.check.queue_offsets import restarts, with_queues_gone
from rmqtool.check.queue_units import tell_delay_table_once
from rmqtool.derived.queues import open_queue
from rmqtool.dispatch.policy import NEVER
from rmqtool.engine import Engine, MapInterruptedError, together
from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.findings import Finding, FindingLog, Structure
from rmqtool.formats.consumequeue import UNIT_SIZE
from rmqtool.progress import stage_of
from rmqtool.reput.blocks import UNIT_COLUMNS
from rmqtool.reput.indexes import index_stream
from rmqtool.store.broker_conf import Origin
from rmqtool.store.broker_json import ListedTopics
from rmqtool.store.files import TREE_DEPTH, Root, StoreFiles
from rmqtool.store.kinds import QUEUE_KINDS, UNIT_QUEUE_KINDS, PathKind
from rmqtool.store.layouts import Deed
from rmqtool.store.names import is_illegal
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rmqtool.check.log import LogResult
    from rmqtool.progress import Progress
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store import QueueFiles, Store
    from rmqtool.store.segments import FileQueue, StoreFile


@dataclass
class ShownQueues:
    """The queues of a kind that are shown, by topic and queue id; ``denied`` may not be listed."""

    root: Root | None = None
    found: dict[tuple[str, int], FileQueue] = field(default_factory=dict)
    denied: set[tuple[str | None, int | None]] = field(default_factory=set)

    def covers(self, topic: str, queue_id: int) -> bool:
        """Whether a queue that the log requires would be here."""
        if self.root is None or {(topic, None), (topic, queue_id)} & self.denied:
            return False
        if self.root.depth == TREE_DEPTH:
            return True
        place = self.root.paths[0].parent if self.root.is_file else self.root.paths[0]
        if self.root.depth:
            return place.name == topic
        return (place.parent.name, place.name) == (topic, str(queue_id))

    def add(self, queue: QueueFiles) -> None:
        """Add a present queue."""
        try:
            self.found[queue.topic or "", queue.queue_id or 0] = queue.files
        except EnvironmentFailureError:
            self.denied.add((queue.topic, queue.queue_id))


def list_queues(store: StoreFiles, kind: PathKind) -> ShownQueues:
    """List the queues of a kind, topic by topic."""
    root = store.read_root(kind)
    if root is None:
        return ShownQueues()
    try:
        topics = store.topics(kind) if root.depth == TREE_DEPTH else [None]
    except EnvironmentFailureError:
        return ShownQueues()
    shown = ShownQueues(root)
    for topic in topics:
        try:
            for queue in store.queues(kind, topic):
                shown.add(queue)
        except EnvironmentFailureError:
            shown.denied.add((topic, None))
    return shown


_Checked = tuple[FindingLog, Examined]
_Outcome = Finding | _Checked

_EXPECTED_LEVEL = 2
_TASKS = 16
_BASE_WEIGHT = 1000  # units that opening a queue is worth
_LEAST_WEIGHT = 64 * _BASE_WEIGHT
"""Of a task, if there is so much: threads with less wait for each other, not for the files."""


def check_derived(
    request: VerifyRequest,
    log: LogResult | None,
    engine: Engine,
    progress: Progress,
    *,
    log_cut: bool = False,
) -> _Checked:
    """Check consume queues and index at the requested level, at level 1 if the log is not shown.

    With ``log_cut`` the log was longer once, so units and items beyond its end are no left-overs. Trouble
    with a file is a finding.
    """
    derived = _DerivedTasks(request, log, log_cut=log_cut)
    outcomes: list[_Outcome] = []
    try:
        for check in CHECKS:
            if tasks := check.tasks(derived):
                sizes = (sum(file.size_bytes for file in task.files) for task in tasks)
                run = partial(run_guarded, check.check, _files_of, check.structure)
                outcomes += engine.map(run, tasks, stage_of(progress, check.stage, sizes))
    except MapInterruptedError as stop:
        outcomes += [stop.results[number] for number in sorted(stop.results)]
        raise CheckInterruptedError(*_sum(outcomes, request.max_findings)) from None
    except KeyboardInterrupt:
        raise CheckInterruptedError(*_sum(outcomes, request.max_findings)) from None
    return _sum(outcomes, request.max_findings)


def _sum(outcomes: Sequence[_Outcome], max_findings: int) -> _Checked:
    findings, examined = FindingLog(max_findings), Examined()
    for outcome in outcomes:
        if isinstance(outcome, Finding):
            findings.add(outcome)
        else:
            findings.merge(outcome[0])
            examined += outcome[1]
    tell_delay_table_once(findings)
    return findings, examined


def _lag(request: VerifyRequest, log: LogResult | None) -> Lag:
    """Return the lag that a kill explains; none is known without the log."""
    if log is None:
        return Lag()
    store = request.store
    lag = Lag() if store.abort is None and not request.live else lag_of(store, log.log_end)
    confirmed = store.confirm_offset
    return lag if confirmed is None else confirmed_lag(store, log.log_end, confirmed, lag)


def _check_queues(task: QueueCheckTask) -> _Checked:
    from rmqtool.check.queues import check_queues

    try:
        return check_queues(task)
    except EnvironmentFailureError:
        if len(task.queues) == 1:
            raise
    # One file that cannot be read: each queue by itself, so that only that one is left out.
    alone = [replace(task, queues=(queue,)) for queue in task.queues]
    outcomes = [run_guarded(_check_queues, _files_of, Structure.CONSUMEQUEUE, one) for one in alone]
    return _sum(outcomes, task.max_findings)


def _check_index(task: IndexCheckTask) -> _Checked:
    from rmqtool.check.index import check_index

    return check_index(task)


def _files_of(task: QueueCheckTask | IndexCheckTask) -> Sequence[StoreFile]:
    return task.files


class _DerivedTasks:
    def __init__(self, request: VerifyRequest, log: LogResult | None, *, log_cut: bool) -> None:
        self._request = request
        self._store: Store = request.store
        self._expected = log if request.level >= _EXPECTED_LEVEL else None
        self._is_log_sound = log is not None and Structure.COMMITLOG not in log.findings.errors
        level = request.level if self._expected is not None else min(request.level, _EXPECTED_LEVEL - 1)
        unclean = request.live or self._store.abort is not None
        self._stale_stop = NEVER if log is None else log.stale_stop
        self._known: dict[str, Any] = {
            "log_start": 0 if log is None else log.log_start,
            "log_end": NEVER if log is None else log.log_end,
            "unclean": unclean,
            "max_findings": request.max_findings,
            "live": request.live,
            "lag": _lag(request, log),
            "log_cut": log_cut and not unclean,  # an unclean start cuts the queues, too
        }
        # One file of a queue is not all of it: other records may have their units elsewhere.
        is_one_file = self._store.place.is_file
        self._is_elsewhere = not self._store.can(Deed.READ_QUEUES)
        self._no_light_queues = not (self._is_elsewhere or self._store.can(Deed.READ_LIGHT_QUEUES))
        self._level = level
        self._queue_level = min(level, _EXPECTED_LEVEL) if is_one_file or self._is_elsewhere else level

    def queue_tasks(self) -> list[QueueCheckTask]:
        """Divide the queues into tasks of about equal work, by topic and queue id."""
        checks = list(self._queue_checks())
        target = max(sum(_weight(check) for check in checks) // _TASKS + 1, _LEAST_WEIGHT)
        return [self._queue_task(group) for group in together(checks, _weight, target)]

    def _queue_task(self, checks: Sequence[QueueCheck]) -> QueueCheckTask:
        blocks = () if self._expected is None else self._expected.blocks
        return QueueCheckTask(
            queues=tuple(checks),
            blocks=tuple(block.slim(*UNIT_COLUMNS) for block in blocks),
            ext=self._store.settings.enable_consume_queue_ext,
            is_log_sound=self._is_log_sound,
            level=self._queue_level,
            **self._known,
        )

    def _queue_checks(self) -> Iterator[QueueCheck]:
        """Yield every present queue, and every one that the log requires; no unlistable one."""
        plans = {} if self._expected is None else _by_queue(self._expected.plans)
        shown = {kind for kind in UNIT_QUEUE_KINDS if self._store.read_root(kind) is not None}
        topics = ListedTopics(self._store.root)
        ext_files = list_queues(self._store.around, PathKind.CONSUMEQUEUE_EXT).found
        for batch, kind in ((False, PathKind.CONSUMEQUEUE), (True, PathKind.BATCHCONSUMEQUEUE)):
            if kind not in shown:
                continue
            listed = list_queues(self._store, kind)
            files = listed.found
            since = {} if batch or not plans else self._created_again(plans[batch], files)
            demanded = [key for key in plans[batch] if listed.covers(*key)] if plans else []
            for topic, queue_id in sorted({*files} if self._is_elsewhere else {*files, *demanded}):
                if self._no_light_queues and topic.startswith(LMQ_PREFIX):
                    continue  # their files are as old as the setting
                key = topic, queue_id
                yield QueueCheck(
                    topic=topic,
                    queue_id=queue_id,
                    batch=batch,
                    files=files.get(key),
                    ext_files=None if batch else ext_files.get(key),
                    expected=plans[batch].get(key) if plans else None,
                    skipped=0 if self._expected is None else self._expected.skipped.get(key, 0),
                    deleted=topics.is_deleted(topic) and not is_illegal(topic.encode(), queue_id),
                    since=since.get(key),
                )

    def _created_again(
        self, plans: Mapping[tuple[str, int], QueuePlan], files: Mapping[tuple[str, int], FileQueue]
    ) -> dict[tuple[str, int], int]:
        """Return the queues with older messages of a topic that was created again, and where that shows."""
        blocks = () if self._expected is None else self._expected.blocks
        try:
            anew = restarts(
                plans.values(), blocks, lambda *key: open_queue(self._store, *key) if key in files else None
            )
            anew = with_queues_gone(anew, plans.values(), blocks, lambda *key: key in files)
            return {key: older.physical_offset for key, older in anew.items()}
        except EnvironmentFailureError:
            return {}  # the check of that queue says so

    def index_tasks(self) -> list[IndexCheckTask]:
        """Return the index's one task; none if it is not shown, or has no files."""
        root = self._store.read_root(PathKind.INDEX)
        if root is None:
            return []
        settings = self._store.settings
        try:
            listed = self._store.index_files
        except DeniedError:
            return []  # IO-DENIED of level 0 says so
        files = [file for file in listed if denied(file) is None]
        is_whole = len(files) == len(listed) and not root.is_file
        task = IndexCheckTask(
            files=tuple(files),
            geometry=settings.index_geometry,
            stale_stop=self._stale_stop,
            geometry_known=settings["maxHashSlotNum"].origin is not Origin.DEFAULT,
            expected=None if self._expected is None else index_stream(self._expected.blocks),
            index_enabled=settings.message_index_enable,
            level=self._level if is_whole else min(self._level, _EXPECTED_LEVEL),
            **self._known,
        )
        return [task]


class DerivedCheck(NamedTuple):
    """The check of some kinds of derived files; ``structure`` is the part that their trouble counts for."""

    kinds: frozenset[PathKind]
    stage: str
    tasks: Callable[[_DerivedTasks], Sequence[Any]]
    check: Callable[[Any], _Checked]
    structure: Structure


CHECKS = (
    DerivedCheck(
        frozenset(QUEUE_KINDS), "queues", _DerivedTasks.queue_tasks, _check_queues, Structure.CONSUMEQUEUE
    ),
    DerivedCheck(
        frozenset({PathKind.INDEX}), "index", _DerivedTasks.index_tasks, _check_index, Structure.INDEX
    ),
)
"""Checks of derived files, kind by kind, in their order."""


def _by_queue(plans: Sequence[QueuePlan]) -> dict[bool, dict[tuple[str, int], QueuePlan]]:
    by_kind: dict[bool, dict[tuple[str, int], QueuePlan]] = defaultdict(dict)
    for plan in plans:
        by_kind[plan.batch][plan.topic, plan.queue_id] = plan
    return by_kind


def _weight(check: QueueCheck) -> int:
    on_disk = 0 if check.files is None else check.files.size_bytes // UNIT_SIZE
    return _BASE_WEIGHT + max(on_disk, 0 if check.expected is None else check.expected.units)
