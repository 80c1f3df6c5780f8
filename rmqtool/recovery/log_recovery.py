"""Recovery of the log: the file where it begins to read, and the records that it accepts."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from rmqtool.derived.positions import loaded_checkpoint
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.checkpoint import CheckpointFields
from rmqtool.formats.message import HEAD_SIZES, MAGIC_V1, MAGIC_V2, MessageHead, Outcome, decode_head
from rmqtool.javacompat import PROP_CRC_SIZE, masked_crc32, parse_prop_crc_digits, wrap_int
from rmqtool.kernels.rows import frame_starts
from rmqtool.kernels.units import first_bad_crc, first_bad_property
from rmqtool.recovery import Recovery, Refusal
from rmqtool.recovery.batch_queue import BatchQueue
from rmqtool.recovery.loading import LoadedFiles, load_queues
from rmqtool.recovery.unit_queue import UnitQueue
from rmqtool.releases import CleanStart, RecordRules, Release, UncleanStart
from rmqtool.scan.gap_walk import GapWalk
from rmqtool.scan.records import Gap, Record, check_record
from rmqtool.scan.walk import SegmentWalk
from rmqtool.store.kinds import DIRECTORY_NAMES, PathKind
from rmqtool.store.segments import Segment, Window
from rmqtool.times import utc_text

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from rmqtool.arrays import Int64s
    from rmqtool.io import Location
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.store import Settings, Store


class RecoverySwitches(NamedTuple):
    """A broker's settings for its recovery.

    Attributes:
        check_crc: ``checkCRCOnRecover``.
        index_safe: ``messageIndexSafe``, which counts where there is an index.
        window: files that are walked back at most (``commitLogRecoverMaxNum``); None without a limit.
        check_offsets: ``checkCommitLogOffsetOnRecover``: a PHYSICALOFFSET outside its file ends the log.
        accelerated: ``enableAcceleratedRecovery``: an unclean start reads from the checkpoint's offset on.
        check_property: ``forceVerifyPropCRC``: the property ``__CRC32#`` is checked in place of the body, and
            a record without one fails.
        confirmed_only: ``duplicationEnable``: only what lies before the confirm offset is dispatched.
        check_dup_info: the same in 5.x: a record whose properties lack ``DUP_INFO`` of two parts fails.
    """

    check_crc: bool = True
    index_safe: bool = False
    window: int | None = None
    check_offsets: bool = False
    accelerated: bool = False
    check_property: bool = False
    confirmed_only: bool = False
    check_dup_info: bool = False

    @property
    def check_body(self) -> bool:
        """Whether bodies are checked."""
        return self.check_crc and not self.check_property

    @classmethod
    def from_settings(cls, settings: Settings, release: Release) -> RecoverySwitches:
        """Return the switches of a broker of ``release`` that has a store's settings."""

        def is_on(name: str) -> bool:
            return bool(settings[name].value)

        return cls(
            check_crc=is_on("checkCRCOnRecover"),
            index_safe=is_on("messageIndexEnable") and is_on("messageIndexSafe"),
            window=settings.recover_window(release),
            check_offsets=release.checks_stored_offset and is_on("checkCommitLogOffsetOnRecover"),
            accelerated=release.accelerated_recovery and is_on("enableAcceleratedRecovery"),
            check_property=release.verifies_property
            and is_on("checkCRCOnRecover")
            and is_on("forceVerifyPropCRC"),
            confirmed_only=is_on("duplicationEnable"),
            check_dup_info=is_on("duplicationEnable") and not release.reputs_from_queues,
        )


_FILES_RECOVERED = 3  # CommitLog#recoverNormally up to 5.3.1


def read_checkpoint(path: Location) -> CheckpointFields | Refusal:
    """Read the checkpoint as a broker does: a missing one is zero, a short one is extended by zeros."""
    if not path.is_there():
        return CheckpointFields()
    try:
        return loaded_checkpoint(path.reader())
    except EnvironmentFailureError:
        return Refusal("checkpoint", "cannot be opened as a file")


class Start(NamedTuple):
    """Conditions of the choice beside the log; ``queue_end`` is the largest ``maxPhysicOffset``, or -1."""

    release: Release
    unclean: bool
    checkpoint: CheckpointFields
    queue_end: int
    switches: RecoverySwitches


_NO_UNIT = "no consume queue has a unit"


class _Match(NamedTuple):
    """Upper limits of the first record's store time and PHYSICALOFFSET, None for none, and their origin."""

    latest_ms: int | None
    last_offset: int | None
    asks: str

    def takes(self, head: MessageHead | None) -> bool:
        if head is None or head.store_timestamp_ms == 0:
            return False
        in_time = self.latest_ms is None or head.store_timestamp_ms <= self.latest_ms
        return in_time and (self.last_offset is None or head.physical_offset <= self.last_offset)

    @property
    def absent(self) -> str:
        """Return that no file matches."""
        if self.last_offset is not None and self.last_offset < 0:
            return _NO_UNIT
        if self.latest_ms is not None and self.latest_ms <= 0:
            return f"no time is known ({self.asks})"
        return f"no first record {self}"

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
    queues = _NO_UNIT if queue_end < 0 else f"the consume queues end at {queue_end}"
    return 0, f"{queues}, so it scans from the first file"


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
            newest = f"the newest {window} files (commitLogRecoverMaxNum)"
            return number, f"{match.absent}, so it scans from the oldest of {newest}"
    return 0, f"{match.absent}, so it scans from the first file"


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
    head = decode_head(segment.read_at(segment.framing.lead, max(HEAD_SIZES), []))
    magics = (MAGIC_V1, MAGIC_V2) if records.knows_v2 else (MAGIC_V1,)
    return head if head is not None and head.magic in magics else None


def first_dispatched(entries: Sequence[Segment], start: Start) -> int:
    """Return the number of the file of entries from which an unclean start dispatches again.

    Java: ``DLedgerCommitLog#isMmapFileMatchedRecover`` (5.3.3, 5.5.1), which knows messages of V1 alone.
    """
    match = _match(start)
    for number in range(len(entries) - 1, -1, -1):
        head = decode_head(entries[number].read_at(entries[number].framing.lead, max(HEAD_SIZES), []))
        if head is not None and head.magic == MAGIC_V1 and match.takes(head):
            return number
    return 0


NO_UNITS = -1


class StartWindow(NamedTuple):
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

    Where the files leave the release open, it is that of the candidate that reads least.
    """
    root = store.root
    if root is None:
        return None
    window = store.settings.worst_candidate(
        lambda release: _window(store, root, release), lambda window: window.reach
    )
    return None if window is None else window._replace(queue_end=_queue_end(store, root, window.reach))


def _window(store: Store, root: Location, release: Release) -> StartWindow | None:
    settings, segments = store.settings.of_broker(release), store.commitlog.segments
    files = settings.recover_window(release)
    if files is None or len(segments) <= files:
        return None
    checkpoint = read_checkpoint(root / "checkpoint")
    checkpoint = CheckpointFields() if isinstance(checkpoint, Refusal) else checkpoint
    switches = RecoverySwitches.from_settings(settings, release)
    start = Start(release, store.abort is not None, checkpoint, NO_UNITS, switches)
    _, recovery = first_file(segments, start)
    return StartWindow(release, files, len(segments), segments[0].start, recovery.physical_offset, NO_UNITS)


def _queue_end(store: Store, root: Location, reach: int) -> int | None:
    """Return the largest end of any queue; None as soon as one is at or after ``reach``."""
    end = NO_UNITS
    for kind, queue in sorted(_queues(store, root), key=lambda pair: _last_change(pair[1]), reverse=True):
        segments = queue.segments
        if kind is PathKind.CONSUMEQUEUE:
            queue_end = UnitQueue(segments, store.settings.consumequeue_file_size).max_physical_offset
        else:
            queue_end = BatchQueue(segments, store.settings.batchconsumequeue_file_size).max_physical_offset
        if queue_end >= reach:
            return None
        end = max(end, queue_end)
    return end


def _queues(store: Store, root: Location) -> Iterator[tuple[PathKind, LoadedFiles]]:
    settings = store.settings
    sizes = {
        PathKind.CONSUMEQUEUE: settings.consumequeue_file_size,
        PathKind.BATCHCONSUMEQUEUE: settings.batchconsumequeue_file_size,
    }
    for kind, size in sizes.items():
        for queue in load_queues(store, root / DIRECTORY_NAMES[kind], size, settings.release):
            yield kind, queue


def _last_change(queue: LoadedFiles) -> int:
    """Return when its last file changed, in ns: the queue that ends last is most likely among the newest."""
    segments = queue.segments
    status = segments[-1].path.status() if segments else None
    return 0 if status is None else status.modified_ns


_CHUNK_BYTES = 1 << 20
_PARTS_OF_DUP_INFO = 2


@dataclass
class RecoveryWalk:
    """The records that recovery accepts.

    Java: the loops of ``CommitLog#recoverNormally`` and ``#recoverAbnormally`` (4.9.8, 5.3.3 to 5.5.1): the
    first record that fails in any way ends the log; an end mark leads to the next file, whatever its name.

    Attributes:
        start: physical offset in the first file at which it begins.
        end: physical offset of the end of the log, once the walk is over; it lies in ``last``.
        unreadable: files where the disk failed: a broker that maps files dies of it.
    """

    segments: Sequence[Segment]
    rules: Int64s
    switches: RecoverySwitches
    start: int
    end: int = 0
    last: Segment | None = None
    unreadable: list[str] = field(default_factory=list)

    def batches(self) -> Iterator[MessageBatch]:
        """Yield the accepted records, in log order."""
        for segment in self.segments:
            self.last = segment
            walk = SegmentWalk(segment, self.rules, stops_at_mismatch=True)
            rolls = yield from self._segment(walk)
            if walk.unreadable:
                self.unreadable.append(segment.label)
            segment.close()
            if not rolls:
                return

    def finish(self) -> None:
        """Walk to the end, for its place alone."""
        for _ in self.batches():
            pass

    def _segment(self, walk: SegmentWalk) -> Generator[MessageBatch, None, bool]:
        """Yield the accepted records of a file; return whether recovery goes on to the next."""
        start = self.start if walk.segment is self.segments[0] else walk.segment.start
        for batch in walk.batches(start, walk.segment.stop):
            good = self._first_bad(walk, batch)
            if good < len(batch.rows):
                self.end = int(frame_starts(batch.rows)[good])
                yield batch.only(slice(good))
                return False
            yield batch
        self.end = walk.log_offset
        return walk.outcome == Outcome.FILE_END

    def _first_bad(self, walk: SegmentWalk, batch: MessageBatch) -> int:
        """Return the row that ends the log; the number of rows if none does."""
        good = len(batch.rows)
        if self.switches.check_property:
            good = _first_bad_property(walk, batch)
        elif self.switches.check_crc:
            good = _first_bad_crc(walk, batch)
        if self.switches.check_offsets:
            stored = batch.rows["physical_offset"][:good]
            outside = (stored < walk.segment.start) | (stored > walk.segment.stop)
            good = int(outside.argmax()) if outside.any() else good
        if self.switches.check_dup_info:
            window = Window(walk.segment)
            places = (frame_starts(batch.rows)[:good] - walk.segment.start).tolist()
            good = next((n for n, at in enumerate(places) if _lacks_dup_info_at(window, walk, at)), good)
        return good


def _first_bad_crc(walk: SegmentWalk, batch: MessageBatch) -> int:
    if not walk.window.cut:
        return int(first_bad_crc(batch))
    row = batch.rows[0]  # a record longer than the window is alone in it, without its body
    position, left = (
        batch.base - walk.segment.start + int(row["body_start"]),
        int(row["body_length"]),
    )
    value = 0
    while left > 0:
        data = walk.segment.read_at(position, min(left, _CHUNK_BYTES), [])
        if not data:
            return 0
        value, position, left = zlib.crc32(data, value), position + len(data), left - len(data)
    return int(value & 0x7FFFFFFF == row["body_crc"])


def _first_bad_property(walk: SegmentWalk, batch: MessageBatch) -> int:
    if not walk.window.cut:
        return int(first_bad_property(batch))
    position = walk.segment.frame_position(int(batch.rows["log_offset"][0]))
    verdict = check_record(Window(walk.segment), position, base=walk.segment.start)
    return int(verdict.record is not None and holds_property(verdict.record))


def holds_property(record: Record) -> bool:
    """Whether a record's property ``__CRC32#`` exists and matches, as ``forceVerifyPropCRC`` requires.

    Java: ``CommitLog#checkMessageAndReturnSize`` (5.3.3).
    """
    digits = record.properties.get("__CRC32#")
    sum_of_bytes = masked_crc32(record.raw[:-PROP_CRC_SIZE])
    return digits is not None and parse_prop_crc_digits(digits) == sum_of_bytes


def _lacks_dup_info_at(window: Window, walk: SegmentWalk, position: int) -> bool:
    record = check_record(window, position, base=walk.segment.start).record
    return record is None or lacks_dup_info(record)


def lacks_dup_info(record: Record) -> bool:
    """Whether a record has properties, and among them no ``DUP_INFO`` of two parts.

    Java: ``CommitLog#checkMessageAndReturnSize`` (5.3.3 to 5.5.1), by ``String#split``, which drops empty
    parts at the end. No released broker writes that property.
    """
    parts = record.properties.get("DUP_INFO", "").rstrip("_").split("_")
    return bool(record.properties_bytes) and len(parts) != _PARTS_OF_DUP_INFO


def true_batches(
    segment: Segment, start: int, stop: int, records: RecordRules, false: Int64s | None = None
) -> Iterator[MessageBatch]:
    """Yield the intact records of a range that lie at the places that they name, whatever lies between.

    Those below ``false`` frames stay in their place, see `GapWalk`.
    """
    walk = GapWalk(segment, records, false=false)
    first = walk.guess(start, stop)
    if first is None:
        return
    for batch in walk.parts(first, stop):
        if isinstance(batch, Gap):
            continue
        true = batch.rows["log_offset"] == batch.rows["physical_offset"]
        if false is not None:
            true &= ~np.isin(batch.rows["log_offset"], false)
        if true.all():
            yield batch
        elif true.any():
            yield batch.only(true)
