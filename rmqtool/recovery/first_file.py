"""The file of the log where recovery begins to read, and the files that 5.4.0+ passes over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rmqtool.derived.positions import loaded_checkpoint
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.checkpoint import CheckpointFields
from rmqtool.formats.message import HEAD_SIZES, MAGIC_V1, MAGIC_V2, MessageHead, decode_head
from rmqtool.javacompat import wrap_int
from rmqtool.recovery import Recovery, RecoverySwitches, Refusal, recover_window
from rmqtool.recovery.batch_queue import BatchQueue
from rmqtool.recovery.loading import LoadedFiles, load_queues
from rmqtool.recovery.log_walk import holds_property, lacks_dup_info
from rmqtool.recovery.unit_queue import UnitQueue
from rmqtool.releases import CleanStart, Release, UncleanStart
from rmqtool.scan.records import check_record
from rmqtool.scan.window import Window
from rmqtool.store.kinds import DIRECTORY_NAMES, PathKind
from rmqtool.times import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.io import Location
    from rmqtool.store import Store
    from rmqtool.store.segments import Segment


_FILES_RECOVERED = 3  # CommitLog#recoverNormally up to 5.3.1


def read_checkpoint(path: Location) -> CheckpointFields | Refusal:
    """Read the checkpoint as a broker does: a missing one is zero, a short one is extended by zeros."""
    if not path.is_there():
        return CheckpointFields()
    try:
        return loaded_checkpoint(path.reader())
    except EnvironmentFailureError:
        return Refusal("checkpoint", "cannot be opened as a file")


@dataclass(frozen=True, slots=True)
class Start:
    """Conditions of the choice beside the log; ``queue_end`` is the largest ``maxPhysicOffset``, or -1."""

    release: Release
    unclean: bool
    checkpoint: CheckpointFields
    queue_end: int
    switches: RecoverySwitches


@dataclass(frozen=True, slots=True)
class _Match:
    """Upper limits of the first record's store time and PHYSICALOFFSET, None for none, and their origin."""

    latest_ms: int | None
    last_offset: int | None
    asks: str

    def takes(self, head: MessageHead | None) -> bool:
        if head is None or head.store_timestamp_ms == 0:
            return False
        in_time = self.latest_ms is None or head.store_timestamp_ms <= self.latest_ms
        return in_time and (self.last_offset is None or head.physical_offset <= self.last_offset)

    def __str__(self) -> str:
        limits = []
        if self.last_offset is not None:
            limits.append(f"lies at or before {self.last_offset}")
        if self.latest_ms is not None:
            limits.append(f"was stored by {utc_text(self.latest_ms)}")
        return f"{' and '.join(limits)} ({self.asks})"


def first_file(segments: Sequence[Segment], start: Start) -> tuple[int, Recovery]:
    """Return the number of the file that recovery begins with, and the place in it with the reason."""
    release = start.release
    if start.unclean or release.clean_start is CleanStart.BY_FIRST_RECORD:
        number, reason = _walk_back(segments, _match(start), start)
    elif release.clean_start is CleanStart.THIRD_LAST:
        number, reason = max(len(segments) - _FILES_RECOVERED, 0), "the third last file, or the first"
    else:
        number, reason = _by_queues(segments, start.queue_end)
    first = segments[number]
    skipped = _accelerated(first, start)
    if skipped:
        reason += "; enableAcceleratedRecovery: from logicsPhysicalOffset of the checkpoint on"
    kind: Literal["normal", "abnormal"] = "abnormal" if start.unclean else "normal"
    return number, Recovery(kind, first.label, first.start + skipped, reason)


def acceleration_refusal(start: Start) -> Refusal | None:
    """Return why a broker with ``enableAcceleratedRecovery`` does not load, whatever the log holds.

    Java: ``ConsumeQueueStore#getDispatchFromPhyOffset`` (5.5.0, 5.5.1).
    """
    checkpoint = start.checkpoint
    if not (start.unclean and start.switches.accelerated):
        return None
    if checkpoint.physic_msg_timestamp_ms <= 0 or checkpoint.logics_physical_offset > 0:
        return None
    return Refusal("checkpoint", "has no logicsPhysicalOffset, which enableAcceleratedRecovery=true goes by")


def skip_refusal(first: Segment, recovery: Recovery) -> Refusal | None:
    """Return why recovery cannot begin at its place, if that is not within its first file."""
    if first.start <= recovery.physical_offset <= first.stop:
        return None
    reason = (
        f"has a logicsPhysicalOffset that is not within {first.label}, the file that recovery begins with:"
        " with enableAcceleratedRecovery=true that fails"
    )
    return Refusal("checkpoint", reason)


def _accelerated(first: Segment, start: Start) -> int:
    """Return the bytes of the first file that are skipped (``CommitLog#recoverAbnormally``, 5.5.0+)."""
    if not (start.unclean and start.switches.accelerated):
        return 0
    offset = start.checkpoint.logics_physical_offset - first.start
    return 0 if offset < 0 else wrap_int(offset)  # Java casts it


def _by_queues(segments: Sequence[Segment], queue_end: int) -> tuple[int, str]:
    """Java: ``CommitLog#recoverNormally`` (5.3.2, 5.3.3)."""
    for number in range(len(segments) - 1, 0, -1):
        if segments[number].start <= queue_end:
            return (
                number,
                f"the newest file that begins at or before {queue_end}, where the consume queues end",
            )
    return 0, f"the consume queues end at {queue_end}: the first file"


def _match(start: Start) -> _Match:
    """Java: ``ConsumeQueueStore#isMappedFileMatchedRecover``, ``IndexService#isMappedFileMatchedRecover``.

    Up to 5.4.0 the second is a part of ``CommitLog#isMappedFileMatchedRecover``.
    """
    checkpoint, safe = start.checkpoint, start.switches.index_safe
    index_ms = checkpoint.index_msg_timestamp_ms if safe else None
    also = ", messageIndexSafe" if safe else ""
    if not start.unclean:
        return _Match(index_ms, start.queue_end, f"where the consume queues end{also}")
    if start.release.unclean_start is UncleanStart.BY_TIME:
        latest_ms = checkpoint.minimum_ms
        return _Match(latest_ms if index_ms is None else min(latest_ms, index_ms), None, f"checkpoint{also}")
    if checkpoint.logics_physical_offset > 0:
        return _Match(
            index_ms, checkpoint.logics_physical_offset, f"logicsPhysicalOffset of the checkpoint{also}"
        )
    latest_ms = checkpoint.logics_msg_timestamp_ms
    return _Match(
        latest_ms if index_ms is None else min(latest_ms, index_ms), None, f"logicsMsgTimestamp{also}"
    )


def _walk_back(segments: Sequence[Segment], match: _Match, start: Start) -> tuple[int, str]:
    """Find the newest file that matches, within the files that the release walks back.

    Java: ``CommitLog#recoverNormally`` (5.3.4+), ``#recoverAbnormally``.
    """
    window = start.switches.window
    for walked, number in enumerate(range(len(segments) - 1, -1, -1), 1):
        if match.takes(_first_record(segments[number], start)):
            return number, f"the newest file whose first record {match}"
        if walked == window and number:
            reason = f"no first record of the newest {window} files (commitLogRecoverMaxNum) {match}"
            return number, f"{reason}: the oldest of them"
    return 0, f"no file's first record {match}: the first file"


def _first_record(segment: Segment, start: Start) -> MessageHead | None:
    """Return the head of the record that a broker takes for a file's first."""
    records = start.release.records
    if start.release.first_record_must_parse:
        checked = check_record(
            Window(segment),
            0,
            records,
            base=segment.start,
            check_crc=start.switches.check_body,
            read_body=True,
        )
        record = checked.record
        if record is None or (start.switches.check_property and not holds_property(record)):
            return None
        return None if start.switches.check_dup_info and lacks_dup_info(record) else record.head
    head = decode_head(segment.read_at(0, max(HEAD_SIZES), []))
    magics = (MAGIC_V1, MAGIC_V2) if records.knows_v2 else (MAGIC_V1,)
    return head if head is not None and head.magic in magics else None


NO_UNITS = -1


@dataclass(frozen=True, slots=True)
class StartWindow:
    """The part that the next start reads of a log with more ``log_files`` than its limit, ``files``.

    Attributes:
        reach: physical offset of the first byte that it would read if there were no queues.
        queue_end: where the consume queues end; ``NO_UNITS`` without units; None at or after ``reach``.
    """

    release: Release
    files: int
    log_files: int
    log_start: int
    reach: int
    queue_end: int | None


def window_of(store: Store) -> StartWindow | None:
    """Return the window of the next start; None if it reads all it needs.

    Where the files leave the release open, it is that of the newest candidate: older ones read all.
    """
    release, root, segments = store.settings.candidates[-1], store.root, store.commitlog.segments
    settings = store.settings.of_broker(release)
    files = recover_window(settings, release)
    if files is None or root is None or len(segments) <= files:
        return None
    checkpoint = read_checkpoint(root / "checkpoint")
    checkpoint = CheckpointFields() if isinstance(checkpoint, Refusal) else checkpoint
    switches = RecoverySwitches.from_settings(settings, release)
    start = Start(release, store.abort is not None, checkpoint, NO_UNITS, switches)
    _, recovery = first_file(segments, start)
    reach = recovery.physical_offset
    return StartWindow(
        release, files, len(segments), segments[0].start, reach, _queue_end(store, root, reach)
    )


def _queue_end(store: Store, root: Location, reach: int) -> int | None:
    """Return the largest end of any queue; None as soon as one is at or after ``reach``."""
    end = NO_UNITS
    for kind, queue in sorted(_queues(store, root), key=lambda one: _last_change(one[1]), reverse=True):
        segments = queue.segments
        if kind is PathKind.CONSUMEQUEUE:
            found = UnitQueue(segments, store.settings.consumequeue_file_size).max_physical_offset
        else:
            found = BatchQueue(segments, store.settings.batchconsumequeue_file_size).max_physical_offset
        if found >= reach:
            return None
        end = max(end, found)
    return end


def _queues(store: Store, root: Location) -> Iterator[tuple[PathKind, LoadedFiles]]:
    settings = store.settings
    sizes = {
        PathKind.CONSUMEQUEUE: settings.consumequeue_file_size,
        PathKind.BATCHCONSUMEQUEUE: settings.batchconsumequeue_file_size,
    }
    for kind, size in sizes.items():
        for queue in load_queues(root / DIRECTORY_NAMES[kind], store.base, size, settings.release):
            yield kind, queue


def _last_change(queue: LoadedFiles) -> int:
    """Return when its last file changed, in ns: the queue that ends last is most likely among the newest."""
    segments = queue.segments
    status = segments[-1].path.status() if segments else None
    return 0 if status is None else status.modified_ns
