"""``dump``: what lies in the files of a store, structure by structure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rmqtool.commands import rows
from rmqtool.commands.dump_config import dump_config
from rmqtool.commands.dump_hex import HexRows
from rmqtool.commands.dump_index import dump_index_file
from rmqtool.commands.dump_queues import dump_queue
from rmqtool.commands.index_files import warn_of_assumed_geometry
from rmqtool.commands.messages import MessageFilter, MessageRows
from rmqtool.commands.query import QueryRequest
from rmqtool.commands.query.inquiry import Inquiry
from rmqtool.commands.query.queue import QueueReader, find_queue
from rmqtool.commands.query.remarks import Remarks
from rmqtool.commands.query.times import records_by_time
from rmqtool.errors import UsageError
from rmqtool.findings import Severity, Structure
from rmqtool.findings.places import CP_SIZE
from rmqtool.formats import checkpoint, struct_of
from rmqtool.javacompat import tags_hash
from rmqtool.scan.record_walk import record_defects, walk
from rmqtool.scan.records import Record, check_record
from rmqtool.store import FileQueue, PathKind
from rmqtool.store.listing import digits_of
from rmqtool.store.segments import NAME_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.commands.progress import Progress
    from rmqtool.store import QueueFiles, Store, StoreFile

_CHECKPOINT = struct_of(checkpoint.CHECKPOINT)
_KINDS: tuple[PathKind, ...] = tuple(kind for kind in PathKind if kind is not PathKind.STORE)
_QUEUES = (PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE, PathKind.CONSUMEQUEUE_EXT)
_WITH_OFFSETS = (PathKind.COMMITLOG, PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE, PathKind.INDEX)
_LOG = (PathKind.COMMITLOG,)
_BODY_FORMS = ("none", "text", "hex")

LARGE_LOG_BYTES = 16 << 20
"""Up to here plain Python is done before the kernels are loaded."""

_ROWS_A_STEP = 4096
"""Progress is told once for so many records."""


@dataclass(frozen=True)
class DumpRequest:
    """What to dump.

    Attributes:
        kinds: Structures; empty means all that the path shows.
        messages: What messages, or units of queues, must be like.
        from_offset: Physical offset; inside a record the next one is the first.
        to_offset: Physical offset; what starts there or later is not dumped.
        on_corrupt: ``resync``, or ``stop`` at the first damage that ends a chain of records; who reads the
            rows may ``fail`` at the first error.
        slots: Also the used slots of index files.
        chains: Also the chains of index files.
        hex: Also the bytes of every row, field by field.
        lines: How bodies look if messages may come as lines of ndjson; None if rows are needed. ``none``,
            ``text`` and ``hex`` can be written so.
        odd_flags: Bits of SYSFLAG whose messages are needed as rows, whatever ``lines`` says.
    """

    kinds: frozenset[PathKind] = frozenset()
    messages: MessageFilter = field(default_factory=MessageFilter)
    from_offset: int | None = None
    to_offset: int | None = None
    on_corrupt: str = "resync"
    slots: bool = False
    chains: bool = False
    hex: bool = False
    lines: str | None = None
    odd_flags: int = 0

    def applicable(self) -> dict[str, tuple[PathKind, ...]]:
        """Return the structures to which each filter in use can be applied, by the option's name."""
        wanted = self.messages
        uses: dict[str, tuple[object, tuple[PathKind, ...]]] = {
            "--topic": (wanted.topic, (*_LOG, *_QUEUES)),
            "--queue": (wanted.queue_id, (*_LOG, *_QUEUES)),
            "--tag": (wanted.tag, (*_LOG, PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE)),
            "--key": (wanted.key, _LOG),
            "--begin": (wanted.begin_ms, (*_LOG, PathKind.BATCHCONSUMEQUEUE, PathKind.CONSUMEQUEUE_EXT)),
            "--end": (wanted.end_ms, (*_LOG, PathKind.BATCHCONSUMEQUEUE, PathKind.CONSUMEQUEUE_EXT)),
            "--from-queue-offset": (wanted.from_queue_offset, (*_LOG, PathKind.CONSUMEQUEUE)),
            "--from-offset": (self.from_offset, _WITH_OFFSETS),
            "--to-offset": (self.to_offset, _WITH_OFFSETS),
        }
        return {name: kinds for name, (value, kinds) in uses.items() if value is not None}


def dump(store: Store, request: DumpRequest, progress: Progress) -> Iterator[rows.Row]:
    """Yield the rows of what a path shows of a store.

    A filter narrows what is shown: of a store root, the structures to which it can be applied.

    Raises:
        UsageError: A filter cannot be applied to what the path is.
    """
    annotate = HexRows(store)
    for kind in _chosen_kinds(store, request):
        for row in _dump_kind(store, kind, request, progress):
            yield row
            if request.hex:
                yield from annotate.fields(row)
    _note_strays(store, progress)


def _dump_kind(store: Store, kind: PathKind, request: DumpRequest, progress: Progress) -> Iterator[rows.Row]:
    if kind is PathKind.COMMITLOG:
        return _dump_log(store, request, progress)
    if kind is PathKind.INDEX:
        return _dump_index(store, request, progress)
    if kind is PathKind.CHECKPOINT:
        return _dump_checkpoint(store.checkpoint)
    if kind is PathKind.CONFIG:
        return dump_config(store)
    return _dump_queues(store, kind, request, progress)


def _chosen_kinds(store: Store, request: DumpRequest) -> list[PathKind]:
    shown = [kind for kind in _KINDS if kind in store.roots]
    chosen: list[PathKind] = [kind for kind in shown if kind in (request.kinds or shown)]
    for option, applicable in request.applicable().items():
        narrowed = [kind for kind in chosen if kind in applicable]
        if not narrowed:
            raise UsageError(f"{store.place.path}: {option} says nothing about this kind of file")
        chosen = narrowed
    if (request.slots or request.chains) and PathKind.INDEX not in chosen:
        raise UsageError(f"{store.place.path}: no index file is dumped, so there are no slots and chains")
    return chosen


def _dump_log(store: Store, request: DumpRequest, progress: Progress) -> Iterator[rows.Row]:
    log = _placed_log(store)
    if (through_queue := _through_queue(store, request, progress)) is not None:
        yield from through_queue
        return
    begin = max(request.from_offset or 0, log.start)
    progress.stage("commitlog", _wanted_bytes(log, request))
    if _is_large(log, request):
        yield from _large_log(store, log, request, lambda place: progress.advance(place - begin))
        log.close()
        return
    make = MessageRows(log, store.settings.delay_levels)
    events = walk(log.segments, request.from_offset or 0, request.to_offset, request.on_corrupt)
    for number, event in enumerate(events):
        if not number % _ROWS_A_STEP:
            progress.advance(event.physical_offset - begin)
        if not isinstance(event, Record) or request.messages.admits(event):
            yield make.row(event)
    log.close()


def _through_queue(store: Store, request: DumpRequest, progress: Progress) -> Iterator[rows.Row] | None:
    """Return the messages of a range of one queue by way of that queue; None if something else is wanted."""
    wanted = request.messages
    ranges = (wanted.from_queue_offset, wanted.begin_ms, wanted.end_ms)
    if PathKind.CONSUMEQUEUE not in store.roots or ranges == (None, None, None):
        return None
    if wanted.topic is None or wanted.queue_id is None or _is_glob(wanted.topic):
        return None
    if (request.from_offset, request.to_offset, request.on_corrupt) != (None, None, "resync"):
        return None
    queue = find_queue(store, wanted.topic, wanted.queue_id)
    if queue is None:
        return None
    progress.note(
        f"messages of {queue.topic}/{queue.queue_id} through its consume queue;"
        " dump the commitlog directory to see also what no queue holds"
    )
    return _queue_messages(store, queue, wanted, progress)


def _queue_messages(
    store: Store, queue: QueueFiles, wanted: MessageFilter, progress: Progress
) -> Iterator[rows.Row]:
    make = MessageRows(store.commitlog, store.settings.delay_levels)
    request = QueryRequest(
        topic=wanted.topic, queue_id=wanted.queue_id, begin_ms=wanted.begin_ms, end_ms=wanted.end_ms
    )
    inquiry = Inquiry(store, request, Remarks(progress))
    if wanted.begin_ms is None and wanted.end_ms is None:
        reader = QueueReader(inquiry, queue)
        found = reader.records(max(wanted.from_queue_offset or 0, reader.bounds.min_offset), None)
    else:
        found = records_by_time(inquiry)
    for record in found:
        if wanted.admits(record):
            for defect in record_defects(record):
                yield make.row(defect)
            yield make.row(record)


def _is_glob(text: str) -> bool:
    return not set(text).isdisjoint("*?[")


def _is_large(log: FileQueue, request: DumpRequest) -> bool:
    """Whether so much of the log is wanted, in such a form, that loading the kernels pays."""
    wanted = request.messages
    return (
        request.lines in _BODY_FORMS
        and not request.hex
        and request.on_corrupt == "resync"
        and "[" not in (wanted.topic or "")
        and all(_is_unicode(text) for text in (wanted.topic, wanted.tag, wanted.key))
        and all(_is_plain(one.label) for one in log.segments)
        and _wanted_bytes(log, request) > LARGE_LOG_BYTES
    )


def _wanted_bytes(log: FileQueue, request: DumpRequest) -> int:
    begin, end = request.from_offset or 0, request.to_offset
    sizes = (min(one.stop, end or one.stop) - max(one.start, begin) for one in log.segments)
    return sum(max(0, size) for size in sizes)


def _is_unicode(text: str | None) -> bool:
    """Whether a text is UTF-8; bytes of the command line that are none are surrogates in it."""
    return text is None or not any("\ud800" <= character <= "\udfff" for character in text)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _large_log(
    store: Store, log: FileQueue, request: DumpRequest, tell: Callable[[int], None]
) -> Iterator[rows.Row]:
    from rmqtool.commands.dump_lines import LineJob, log_lines
    from rmqtool.scan.json_kernels import BodyForm

    body = BodyForm[(request.lines or "none").upper()]
    begin, end = request.from_offset or 0, request.to_offset
    levels, messages = store.settings.delay_levels, request.messages
    return log_lines(LineJob(log, levels, messages, body, request.odd_flags, begin, end, tell=tell))


def _placed_log(store: Store) -> FileQueue:
    """Return the log; a lone file whose name says nothing lies where its first record says."""
    log = store.commitlog
    if not store.place.is_file or digits_of(store.place.path.name, NAME_DIGITS) is not None:
        return log
    (segment,) = log.segments
    record = check_record(segment, 0).record
    start = 0 if record is None else max(0, record.head.physical_offset)
    return FileQueue(log.directories, (replace(segment, start=start),))


def _dump_queues(
    store: Store, kind: PathKind, request: DumpRequest, progress: Progress
) -> Iterator[rows.Row]:
    wanted, done = request.messages, 0
    progress.stage(kind.value, None)
    for queue in store.queues(kind):
        if wanted.admits_queue(queue.topic, queue.queue_id):
            for row in dump_queue(queue, wanted.from_queue_offset or 0):
                if isinstance(row, rows.Damage) or _admits_unit(request, row):
                    yield row
            done += sum(segment.size_bytes for segment in queue.files)
            progress.advance(done)


def _admits_unit(request: DumpRequest, row: rows.Row) -> bool:
    wanted = request.messages
    if wanted.tag is not None and getattr(row, "tags_code", None) != tags_hash(wanted.tag):
        return False
    if isinstance(row, rows.BatchUnit | rows.ExtUnit):
        time = row.store_timestamp_ms
        if time < (wanted.begin_ms or time) or time > (wanted.end_ms or time):
            return False
    return isinstance(row, rows.ExtUnit) or _admits_offset(request, getattr(row, "physical_offset", 0))


def _admits_offset(request: DumpRequest, physical_offset: int) -> bool:
    if request.from_offset is not None and physical_offset < request.from_offset:
        return False
    return request.to_offset is None or physical_offset < request.to_offset


def _dump_index(store: Store, request: DumpRequest, progress: Progress) -> Iterator[rows.Row]:
    assumed, done = warn_of_assumed_geometry(store, progress), 0
    progress.stage("index", sum(file.size_bytes for file in store.index_files))
    for file in store.index_files:
        geometry = store.settings.index_geometry
        found = dump_index_file(file, geometry, assumed=assumed, slots=request.slots, chains=request.chains)
        for row in found:
            if not isinstance(row, rows.Item) or _admits_offset(request, row.physical_offset):
                yield row
        file.close()
        done += file.size_bytes
        progress.advance(done)


def _dump_checkpoint(file: StoreFile | None) -> Iterator[rows.Row]:
    if file is None:
        return
    data = file.read_at(0, _CHECKPOINT.size)
    if len(data) == _CHECKPOINT.size:
        yield rows.Checkpoint(*_CHECKPOINT.unpack(data))
    if file.size_bytes != checkpoint.CHECKPOINT_FILE_SIZE:
        sentence = f"{file.label} has {file.size_bytes} bytes instead of {checkpoint.CHECKPOINT_FILE_SIZE}"
        yield rows.Damage(file.label, 0, None, file.size_bytes, CP_SIZE, sentence, Structure.CHECKPOINT)
    file.close()


def _note_strays(store: Store, progress: Progress) -> None:
    """Say what was left out: other storage engines, and entries that are no files of their directories."""
    for feature in store.features:
        if feature.code.severity is Severity.WARNING:
            progress.warn(f"left out: {feature.label}: {feature.code.title}")
    for stray in (*store.commitlog.strays, *store.index_strays):
        progress.warn(f"left out: {stray.label} {stray.reason}")
