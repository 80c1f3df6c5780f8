"""Store as the broker loads it: log, queues, index, checkpoint, and every reason to refuse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.checkpoint import CheckpointFields
from rmqtool.io import FileKind, Location
from rmqtool.recovery import PredictionDraft, Refusal
from rmqtool.recovery.batch_queue import BatchQueue
from rmqtool.recovery.derived import Derived, IndexState, Queue
from rmqtool.recovery.first_file import read_checkpoint
from rmqtool.recovery.loading import LoadedFiles, load_compaction, load_files, load_queues
from rmqtool.recovery.unit_queue import ExtFailureError, ExtFiles, QueueKey, UnitQueue
from rmqtool.store.broker_json import (
    ConfigFileError,
    batch_queue_topics,
    load_broker_json,
    parse_broker_json,
    read_config_text,
)
from rmqtool.store.kinds import DIRECTORY_NAMES, PathKind
from rmqtool.store.setting import Origin

if TYPE_CHECKING:
    from rmqtool.store import Setting, Settings, Store
    from rmqtool.store.segments import Segment

# What the broker reads before, with or after the store; one that cannot be decoded keeps it from starting.
_CONFIG_FILES = (
    "topics.json",
    "consumerOffset.json",
    "subscriptionGroup.json",
    "consumerFilter.json",
    "delayOffset.json",
)


@dataclass
class LoadedStore:
    """Content of the broker's memory before it recovers: each queue by itself is recovered already."""

    log: list[Segment]
    derived: Derived
    checkpoint: CheckpointFields
    unclean: bool


def load_store(store: Store, root: Location, settings: Settings, prediction: PredictionDraft) -> LoadedStore:
    """Load a store as a broker with ``settings`` does; refusals and deletions are added to ``prediction``."""
    release, unclean = prediction.release, store.abort is not None
    log = load_files(store.commitlog.directories, store.base, settings.commitlog_file_size, release)
    prediction.refusals += _explained(log.refusals, settings["mappedFileSizeCommitLog"])
    prediction.deleted_files += log.deleted.values()
    prediction.refusals += _config_refusals(root)
    load_compaction(settings, root, store.base, prediction)
    checkpoint = read_checkpoint(root / "checkpoint")
    if isinstance(checkpoint, Refusal):
        prediction.refusals.append(checkpoint)
        checkpoint = CheckpointFields()
    batch_topics = _batch_topics(root) if release.batch_queues else frozenset()
    derived = Derived(
        _load_queues(store, root, settings, batch_topics, prediction),
        _load_index(
            *(store, root, settings.index_geometry.items),
            checkpoint.index_msg_timestamp_ms if unclean else None,
            prediction,
        ),
        settings.consumequeue_file_size,
        settings.batchconsumequeue_file_size,
        batch_topics,
    )
    return LoadedStore(log.segments, derived, checkpoint, unclean)


def _load_queues(
    store: Store,
    root: Location,
    settings: Settings,
    batch_topics: frozenset[str],
    prediction: PredictionDraft,
) -> dict[QueueKey, Queue]:
    release = prediction.release
    queues: dict[QueueKey, Queue] = {}
    size = settings.consumequeue_file_size
    for one in load_queues(_tree(root, PathKind.CONSUMEQUEUE), store.base, size, release):
        wrong_type = one.key[0] in batch_topics
        _note(root, one, prediction, wrong_type, settings["mappedFileSizeConsumeQueue"])
        ext = _load_ext(store, root, settings, one, prediction) if settings.enable_consume_queue_ext else None
        try:
            queue = UnitQueue(one.segments, size, one.deleted, ext)
        except ExtFailureError as failure:
            prediction.refusals.append(Refusal(failure.label, str(failure)))
        else:
            queues[one.key] = queue
    if release.batch_queues:
        size = settings.batchconsumequeue_file_size
        for one in load_queues(_tree(root, PathKind.BATCHCONSUMEQUEUE), store.base, size, release):
            wrong_type = one.key[0] not in batch_topics
            _note(root, one, prediction, wrong_type, settings["mapperFileSizeBatchConsumeQueue"])
            prediction.deleted_files += one.deleted.values()
            queues[one.key] = BatchQueue(one.segments, size)
    return queues


def _load_ext(
    store: Store, root: Location, settings: Settings, queue: LoadedFiles, prediction: PredictionDraft
) -> ExtFiles:
    directory = _tree(root, PathKind.CONSUMEQUEUE_EXT) / queue.key[0] / str(queue.key[1])
    size = settings.consumequeue_ext_file_size
    files = load_files((directory,), store.base, size, prediction.release)
    prediction.refusals += _explained(files.refusals, settings["mappedFileSizeConsumeQueueExt"])
    return ExtFiles(files.segments, size, files.deleted)


def _tree(root: Location, kind: PathKind) -> Location:
    return root / DIRECTORY_NAMES[kind]


def _explained(refusals: list[Refusal], size: Setting) -> list[Refusal]:
    """Name the origin of a size that the broker's configuration file does not set."""
    if size.origin is not Origin.DEFAULT or not size.note:
        return refusals
    return [replace(one, reason=f"{one.reason} ({size.name}, {size.note})") for one in refusals]


def _note(
    root: Location, queue: LoadedFiles, prediction: PredictionDraft, wrong_type: bool, size: Setting
) -> None:
    prediction.refusals += _explained(queue.refusals, size)
    if wrong_type:  # ConsumeQueueStore#queueTypeShouldBe (5.3.3)
        reason = f"contradicts the directory of the queues of topic {queue.key[0]}"
        if not (root / "config" / "topics.json").is_there():
            reason = f"is missing, but topic {queue.key[0]} has batch queues, which need queue.type=BatchCQ"
        prediction.refusals.append(Refusal("config/topics.json", reason))


def _load_index(
    store: Store, root: Location, items: int, index_ms: int | None, prediction: PredictionDraft
) -> IndexState:
    index = IndexState(items)
    directory = _tree(root, PathKind.INDEX)
    places = [directory / name for name, _ in directory.entries()]
    index.load(places, store.base, prediction.release, index_ms)
    prediction.refusals += index.refusals
    prediction.ignored_index_files += index.ignored
    return index


def _batch_topics(root: Location) -> frozenset[str]:
    """Return the topics for which the broker has batch queues: those of topics.json alone."""
    try:
        return batch_queue_topics(load_broker_json(root / "config" / "topics.json"))
    except ConfigFileError:
        return frozenset()


def _config_refusals(root: Location) -> list[Refusal]:
    """Java: ``ConfigManager#load`` (4.9.8, 5.3.3): only a ``.bak`` that is needed and undecodable counts."""
    refusals = []
    for name in _CONFIG_FILES:
        path = root / "config" / name
        for needed in (path, path.with_name(name + ".bak")):
            if needed.kind() is FileKind.FIFO:
                refusals.append(Refusal(f"config/{needed.name}", "is a FIFO: opening it blocks for ever"))
                break
            if (decodes := _decodes(needed)) is True:
                break
            if decodes is False and needed is not path:
                refusals.append(Refusal(f"config/{name}", "cannot be decoded, nor can its .bak"))
    return refusals


def _decodes(path: Location) -> bool | None:
    """Whether a config file can be decoded; None if it is missing, empty, or not a regular file.

    Java: ``MixAll#file2String`` reads as many bytes as ``File#length`` states, which is 0 for a device.
    """
    try:
        text = read_config_text(path)
        if not text:
            return None
        parse_broker_json(text)
    except EnvironmentFailureError:
        return None
    except ValueError:
        return False
    return True
