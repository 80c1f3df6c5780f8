"""Logs of compacted topics as a broker loads them: what stops its start, and what it deletes.

Origin: ``CompactionService#load``, ``CompactionStore#load``, ``CompactionLog.TopicPartitionLog#init``,
``SparseConsumeQueue#recover`` (5.3.3, 5.5.1: the same bytecode). A size that does not fit is an
``IOException``, which only that queue does not survive; a name that does not fit is another exception, which
ends the start.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.io import FileKind, Location
from rmqtool.javacompat import parse_int
from rmqtool.recovery.loading import NO_NUMBER, LoadedFiles, load_files
from rmqtool.recovery.model import PredictionDraft, Refusal
from rmqtool.store.setting import DEFINITIONS, Origin
from rmqtool.store.side_layout import COMPACTION_LOGS, COMPACTION_QUEUES, names_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store import Settings
    from rmqtool.store.segments import Segment

_UNIT = struct.Struct(">qiqqqh8x")
_READ_BYTES = _UNIT.size * 4096
_FEWEST_QUEUES = 5  # a file of the log is at least as long as so many of a queue


class _CompactedQueue(NamedTuple):
    """Directories of a queue of a compacted topic, in log and queues."""

    log: str
    queue: str


def load_compaction(settings: Settings, root: Location, base: Location, prediction: PredictionDraft) -> None:
    """Load ``compaction/``; refusals, deletions and hazards are added to ``prediction``."""
    setting = settings["enableCompaction"]
    if not setting.value or not DEFINITIONS[setting.name].is_known_to(prediction.release):
        return
    queues = list(_queues(root, prediction))
    if not queues:
        return
    log_size, queue_size = _sizes(settings, root, queues)
    for one in queues:
        log = load_files((root / one.log,), base, log_size, prediction.release)
        queue = load_files((root / one.queue,), base, queue_size, prediction.release)
        wrong = [*log.refusals, *queue.refusals]
        if not wrong:
            _pair(one, log, queue, prediction)
        elif wrong[0].reason == NO_NUMBER:
            prediction.refusals.append(wrong[0])
        else:
            _pass_over(one, f"{wrong[0].file} {wrong[0].reason}", prediction)
        prediction.deleted_files += [*log.deleted.values(), *queue.deleted.values()]


def _queues(root: Location, prediction: PredictionDraft) -> Iterator[_CompactedQueue]:
    """Yield the queues that have both directories; one without that of its queue is skipped."""
    for topic in sorted(names_in(root / COMPACTION_LOGS, FileKind.DIRECTORY)):
        for name in sorted(names_in(root / COMPACTION_LOGS / topic, FileKind.DIRECTORY)):
            log, number = f"{COMPACTION_LOGS}/{topic}/{name}", parse_int(name)
            one = _CompactedQueue(log, f"{COMPACTION_QUEUES}/{topic}/{number}")
            if number is None:
                prediction.refusals.append(Refusal(log, "is a directory that no queue id names"))
            elif (root / one.queue).kind() is FileKind.DIRECTORY:
                yield one
            else:
                _pass_over(one, f"{one.queue} is not there", prediction)


def _sizes(settings: Settings, root: Location, queues: list[_CompactedQueue]) -> tuple[int, int]:
    """Return the sizes of files of logs and queues: by the settings, else those of most present files."""
    queue_size = _number(settings, "compactionCqMappedFileSize") // _UNIT.size * _UNIT.size
    whole, rest = divmod(_number(settings, "compactionMappedFileSize"), max(queue_size, 1))
    more = whole >= _FEWEST_QUEUES and not 0 < rest < queue_size >> 1
    log_size = max(whole + more, _FEWEST_QUEUES) * queue_size
    names = ("compactionCqMappedFileSize", "compactionMappedFileSize")
    if settings.has_conf or any(settings[name].origin is Origin.GIVEN for name in names):
        return log_size, queue_size
    logs, others = (
        _commonest([root / one.log for one in queues]),
        _commonest([root / one.queue for one in queues]),
    )
    return logs or log_size, others or queue_size


def _number(settings: Settings, name: str) -> int:
    value = settings[name].value
    assert isinstance(value, int), name
    return value


def _commonest(directories: list[Location]) -> int:
    sizes = Counter(
        status.size_bytes
        for directory in directories
        for _, status in directory.entries()
        if status.kind is FileKind.FILE
    )
    return sizes.most_common(1)[0][0] if sizes else 0


def _pair(one: _CompactedQueue, log: LoadedFiles, queue: LoadedFiles, prediction: PredictionDraft) -> None:
    """Cut the log where its queue ends, then compare the names of the files that remain."""
    end = -1
    if queue.segments:
        end = _end(queue.segments[-1])
        queue.segments[-1].close()
    kept = [file for file in log.segments if not 0 < end < file.start]
    prediction.deleted_files += [file.label for file in log.segments if file not in kept]
    names = {file.label.rpartition("/")[2] for file in queue.segments}
    others = {file.label.rpartition("/")[2] for file in kept}
    for files, partners, place in ((kept, names, one.queue), (queue.segments, others, one.log)):
        for file in files:
            if file.label.rpartition("/")[2] not in partners:
                prediction.refusals.append(Refusal(file.label, f"has no file of its name in {place}"))


def _end(last: Segment) -> int:
    """Return where the record of the last unit ends; -1 without a unit that counts."""
    end = -1
    for position in range(0, last.size_bytes, _READ_BYTES):
        data = last.read_at(position, min(_READ_BYTES, last.size_bytes - position))
        whole = memoryview(data)[: len(data) // _UNIT.size * _UNIT.size]
        for log_offset, size, _, _, queue_offset, messages in _UNIT.iter_unpack(whole):
            if log_offset < 0 or size <= 0 or queue_offset < 0 or messages <= 0:
                return end
            end = log_offset + size
    return end


def _pass_over(one: _CompactedQueue, reason: str, prediction: PredictionDraft) -> None:
    prediction.hazards.append(f"{one.log} is not loaded, as {reason}: its consumers get no message of it.")
