"""Files beside the new log: checkpoint, config, timer, compacted topics, the plan, lost messages, digests."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from itertools import groupby
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy as np

from rmqtool.account.log_losses import before_log
from rmqtool.derived.timer import TIMER_LOG
from rmqtool.doctor.diagnose import diagnose
from rmqtool.errors import DeniedError, EnvironmentFailureError, UsageError
from rmqtool.formats.checkpoint import CHECKPOINT_FILE_SIZE, CHECKPOINTS, CheckpointFields
from rmqtool.formats.consumequeue import BATCH_UNITS
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.io import FileKind, Location
from rmqtool.projection import camel_case, json_object
from rmqtool.releases import OLDEST, UncleanStart
from rmqtool.salvage import PLAN_SCHEMA, Lost, Part, PartKind, SalvagedQueue, SalvagePlan
from rmqtool.salvage.writing import copy_file
from rmqtool.store.broker_json import (
    ConfigFileError,
    ConfigSource,
    compaction_topics,
    parse_broker_json,
    read_config_text,
)
from rmqtool.store.segments import StoreFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.doctor.choices import ConfigChoice, ConfigDiagnosis
    from rmqtool.releases import Release
    from rmqtool.store import Store
    from rmqtool.store.staging import StagingHandle

    _Copier = Callable[[StagingHandle, StoreFile], tuple[str, str]]


_RESCUED, _LOST = "+", "-"


def plan_text(plan: SalvagePlan) -> str:
    """Return a plan as JSON."""
    return json.dumps(json_object(plan), indent=1) + "\n"


def read_plan(text: str) -> SalvagePlan:
    """Return the plan that ``plan_text`` wrote; its account is proven again."""
    try:
        value = json.loads(text)
        if value["schema"] != PLAN_SCHEMA:
            raise UsageError(f"a plan of {value['schema']}, not of {PLAN_SCHEMA}: make a new plan")
        plan = _built(SalvagePlan, value)
    except (ValueError, KeyError, TypeError, RecursionError) as failure:
        raise UsageError(f"no plan of a salvage ({failure}): make one with --plan") from failure
    if not isinstance(plan, SalvagePlan):
        raise TypeError("a plan is built of a plan's fields")
    plan.check()
    return plan


def _built(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any type of the plan's fields
    """Return a value of a type from its JSON."""
    if isinstance(kind, UnionType):
        return (
            None
            if value is None
            else _built(next(member for member in get_args(kind) if member is not type(None)), value)
        )
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(
            **{field.name: _built(hints[field.name], value[camel_case(field.name)]) for field in fields(kind)}
        )
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        if inner[-1] is Ellipsis:
            return tuple(_built(inner[0], item) for item in value)
        return tuple(_built(item_kind, part) for item_kind, part in zip(inner, value, strict=True))
    return _plain(kind, value)


def _plain(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any plain type
    if kind is bytes:
        return bytes.fromhex(value)
    if issubclass(kind, Enum):
        return kind(value)
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def lost_lines(plan: SalvagePlan) -> Iterator[str]:
    """Yield a line of ndjson for every loss; nothing names the queue of those that the index alone knows."""
    for loss in plan.lost:
        yield _lost_line(json_object(loss))
    for place in plan.indexed:
        loss = Lost("", 0, 0, 1, place, place + SMALLEST_RECORD, "indexed", place, placed=False)
        yield _lost_line(json_object(loss) | dict.fromkeys(("topic", "queueId", "queueOffset")))


def before_lines(store: Store, start: int) -> Iterator[str]:
    """Yield a line for every message before a log's first byte to which units or index items lead."""
    for queue, units in before_log(store, start):
        columns = (units.keys, units.messages, units.physical_offsets, units.sizes, units.tags_codes)
        for number, messages, place, size, tags_code in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            if queue is None:
                loss = Lost("", 0, 0, messages, place, place + SMALLEST_RECORD, "before", place, placed=False)
                yield _lost_line(json_object(loss) | dict.fromkeys(("topic", "queueId", "queueOffset")))
            else:
                bounds = place, place + size
                loss = Lost(*queue, number, messages, *bounds, "before", place, size, tags_code, placed=False)
                yield _lost_line(json_object(loss))


def _lost_line(value: dict[str, Any]) -> str:
    return json.dumps({"type": "lost"} | value, ensure_ascii=False) + "\n"


def rescue_map(plan: SalvagePlan) -> Iterator[str]:
    """Yield the lines of a map of the log as ddrescue writes it; positions count from the log's start."""
    yield f"# Rescue map of a commit log that begins at physical offset {plan.start}\n"
    yield "# current_pos  current_status\n"
    yield f"0x{plan.stop - plan.start:08X}     +\n"
    yield "#      pos        size  status\n"
    for status, parts in groupby(plan.parts, lambda part: _status(part, plan)):
        several = list(parts)
        start, length = several[0].start - plan.start, several[-1].stop - several[0].start
        yield f"0x{start:08X}  0x{length:08X}  {status}\n"


def _status(part: Part, plan: SalvagePlan) -> str:
    if part.kind is PartKind.FILE_END:
        return _RESCUED if part.start in plan.kept_blanks else _LOST
    return _LOST if part.kind in {PartKind.TOMBSTONES, PartKind.FILLER} else _RESCUED


_TIMER_PLACES = ("timerwheel", "config/timercheck")
_COPIED = frozenset({FileKind.FILE, FileKind.LINK, FileKind.HIDDEN})
"""Kinds of entries that are copied, or reported: links and what may not be read."""
_MANY = 1000  # config files that are read
_NOTHING_LEFT = "nothing is left of it: restore it from a backup or a replica before the next start"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file of ``config/``.

    Attributes:
        label: path in the store.
        problem: why it is not copied; None if it is.
        mended: the text written in place of a damaged one, and its meaning; None if it is a copy.
    """

    label: str
    problem: str | None = None
    mended: str | None = None


def copy_config(store: Store, staging: StagingHandle) -> tuple[list[ConfigFile], list[tuple[str, str]]]:
    """Copy the broker's settings; of damaged ones what the doctor takes for the best that is left."""
    reported: list[ConfigFile] = []
    written: list[tuple[str, str]] = []
    if store.config is None or store.root is None:
        return reported, written
    root = store.root.without_links()
    damaged = {
        diagnosis.file: diagnosis
        for diagnosis in diagnose(store, config=root / "config")
        if not diagnosis.is_sound
    }
    labels = {*damaged} if "config" in damaged else {*damaged, *_listed_settings(root)}
    for label in sorted(labels):
        if label not in damaged:
            data, problem = _parsed(root / label)
            reported.append(ConfigFile(label, problem))
        else:
            data, file = _mended(damaged[label], root)
            reported.append(file)
        if data is not None:
            written.append(_write(label, data, staging))
    return reported, written


def _listed_settings(root: Location) -> list[str]:
    return [
        f"config/{entry.name}"
        for entry in (root / "config").entries()[:_MANY]
        if entry.status.kind in _COPIED and entry.name.endswith((".json", ".properties"))
    ]


def _mended(diagnosis: ConfigDiagnosis, root: Location) -> tuple[bytes | None, ConfigFile]:
    """Return the best choice there is: a broker that starts without the file forgets all of it."""
    for copy in diagnosis.denied[:1]:
        return None, ConfigFile(copy.file, copy.reason)
    best = _best(diagnosis)
    if best is None:
        return None, ConfigFile(diagnosis.file, _NOTHING_LEFT)
    others = ", ".join(choice.name for choice in diagnosis.choices if choice is not best)
    said = [f"{best.name}: {best.about}", *best.consequences()]
    said += [f"other choices: {others}"] if others and not diagnosis.obvious else []
    return best.data(root), ConfigFile(diagnosis.file, mended="; ".join(said))


def _best(diagnosis: ConfigDiagnosis) -> ConfigChoice | None:
    return next((choice for choice in diagnosis.choices if choice.name != "empty"), None)


def mended_files(store: Store) -> frozenset[str]:
    """Return the damaged settings of which the result has the best that is left."""
    unsound = (diagnosis for diagnosis in diagnose(store) if not diagnosis.is_sound and not diagnosis.denied)
    return frozenset(diagnosis.file for diagnosis in unsound if _best(diagnosis) is not None)


def _parsed(path: Location) -> tuple[bytes | None, str | None]:
    """Return a config file that can be used as it is, or why it cannot."""
    try:
        text = read_config_text(path)
        if path.name.endswith(".json"):
            if not text.strip("\0 \r\n\t"):
                return None, "is empty"
            parse_broker_json(text)
        return path.read_head(len(text.encode()) * 4 + 4), None
    except DeniedError as failure:
        return None, failure.reason
    except (EnvironmentFailureError, ValueError) as failure:
        return None, str(failure)


def copy_timer(
    store: Store, staging: StagingHandle, copy: _Copier = copy_file
) -> tuple[list[ConfigFile], list[tuple[str, str]]]:
    """Copy what the timer of 5.x knows, its log by ``copy``: what that names is where the records are."""
    if store.root is None:
        return [], []
    root = store.root.without_links()
    beside, files = copied(root, map(root.__truediv__, _TIMER_PLACES), staging)
    more, logs = copied(root, [root / TIMER_LOG], staging, copy)
    return beside + more, files + logs


def copied(
    root: Location, places: Iterable[Location], staging: StagingHandle, copy: _Copier = copy_file
) -> tuple[list[ConfigFile], list[tuple[str, str]]]:
    """Copy files, and all below directories; report what may not be read, and links, which nobody follows."""
    reported: list[ConfigFile] = []
    written: list[tuple[str, str]] = []
    for place in places:
        label, status = place.relative_to(root), place.status()
        try:
            if status is None:
                continue
            if status.kind is FileKind.DIRECTORY:
                more = copied(root, [place / entry.name for entry in place.entries()], staging, copy)
                reported, written = reported + more[0], written + more[1]
            elif status.kind in _COPIED:
                place.read_head(1)  # fails before an empty file is made
                written.append(copy(staging, StoreFile(place, label, status.size_bytes)))
        except DeniedError as failure:
            reported.append(ConfigFile(label, failure.reason))
    return reported, written


def write_checkpoint(
    staging: StagingHandle, release: Release, *, last_ms: int, index_ms: int, end: int, last_record: int
) -> tuple[str, str]:
    """Write the checkpoint of a broker of ``release`` that stopped after the log's last record.

    ``last_ms`` is the store time of that record, ``end`` the physical offset after it; ``index_ms`` is the
    endTimestamp of the last index file that is full, 0 without any.
    """
    end = 0 if release.line == OLDEST.line else end
    last_record = last_record if release.unclean_start is UncleanStart.BY_OFFSET else 0
    fields = CheckpointFields(last_ms, last_ms, index_ms, 0, end, last_record)
    return _write("checkpoint", CHECKPOINTS.encode(fields).ljust(CHECKPOINT_FILE_SIZE, b"\0"), staging)


def _write(label: str, data: bytes, staging: StagingHandle) -> tuple[str, str]:
    with staging.create_file(label) as file:
        file.write_at(0, data)
    return label, hashlib.sha256(data).hexdigest()


_PLACE = "compaction"
_LOGS, _QUEUES = f"{_PLACE}/compactionLog", f"{_PLACE}/compactionCq"
_POSITIONS = f"{_PLACE}/position-checkpoint"
_ANEW = "the topic is empty until a broker rebuilds queues and this: rmqtool help salvage"


def copy_compaction(
    store: Store, plan: SalvagePlan, staging: StagingHandle
) -> tuple[list[ConfigFile], list[tuple[str, str]]]:
    """Copy the logs of compacted topics as they are; return what was not copied, and why, and the copies."""
    topics = frozenset[str]() if store.root is None else _compacted(store.root)
    mine = (queue for queue in plan.queues if queue.topic in topics)
    queues = sorted(mine, key=lambda queue: (queue.topic, queue.queue_id))
    if store.root is None or not queues:
        return [], []
    root = store.root.without_links()
    reported, written = copied(root, [root / _POSITIONS], staging)
    for queue in queues:
        name, files = f"{queue.topic}/{queue.queue_id}", list[StoreFile]()
        try:
            units, logs = list(_files(root, f"{_QUEUES}/{name}")), list(_files(root, f"{_LOGS}/{name}"))
            problem, files = _problem(units, logs, queue), [*logs, *units]
        except DeniedError as failure:
            problem = f"{failure.path.removeprefix(f'{root}/')} {failure.reason}"
        if problem is None:
            written += [copy_file(staging, file) for file in files]
        else:
            reported.append(ConfigFile(f"{_LOGS}/{name}", f"{problem}; {_ANEW}"))
    return reported, written


def _compacted(root: Location) -> frozenset[str]:
    try:
        return compaction_topics(ConfigSource(root).document("topics.json"))
    except ConfigFileError:  # reported with the settings
        return frozenset()


def _problem(units: list[StoreFile], logs: list[StoreFile], queue: SalvagedQueue) -> str | None:
    """Return why a queue's log is of no use; None if it is."""
    if not units or not logs:
        return "is not there"
    end = max(_end(file) for file in units)
    if end > queue.end_queue_offset:
        return f"ends at queue offset {end}, the new queue at {queue.end_queue_offset}"
    return (
        "queue offsets are others than before"
        if queue.unknown or queue.placed < queue.not_given_back
        else None
    )


def _end(file: StoreFile) -> int:
    """Return the queue offset after the last that a file of units has; 0 without any."""
    data = file.read_at(0, file.size_bytes)
    rows = np.frombuffer(data, BATCH_UNITS.dtype, len(data) // BATCH_UNITS.size)
    rows = rows[rows["size"] > 0]
    return int((rows["msgBaseOffset"].astype(np.int64) + rows["batchSize"]).max(initial=0))


def _files(root: Location, directory: str) -> Iterator[StoreFile]:
    """Yield the files of a directory; `DeniedError` if one may not be read, or is a link."""
    place = root / directory
    if place.kind() is FileKind.LINK:
        raise DeniedError(str(place), f"is {FileKind.LINK}")
    for entry in place.entries():
        if entry.status.kind in _COPIED:
            label = f"{directory}/{entry.name}"
            (root / label).read_head(1)
            yield StoreFile(root / label, label, entry.status.size_bytes)
