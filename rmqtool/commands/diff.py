"""``diff``: what two stores, or the same part of two stores, say differently.

Records are compared by physical offset, units by queue offset and index entries in their order, whatever the
sizes and names of the files: so a slave is held against its master, and an old store against a rebuilt one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar

from rmqtool.commands.index_files import IndexFile
from rmqtool.commands.info import read_checkpoint
from rmqtool.commands.queue_bounds import queue_bounds
from rmqtool.errors import UsageError
from rmqtool.findings.wording import counted
from rmqtool.formats import consumequeue, struct_of
from rmqtool.scan.log_end import find_log_end
from rmqtool.store import PathKind
from rmqtool.store.files import TREE_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store import FileQueue, QueueFiles, Store

_CHUNK_BYTES = 20 << 15  # whole units
_UNIT = struct_of(consumequeue.UNIT)
_QUEUE_KINDS = (PathKind.CONSUMEQUEUE, PathKind.CONSUMEQUEUE_EXT, PathKind.BATCHCONSUMEQUEUE)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of one structure, and how many there are.

    Attributes:
        structure: As for ``--type``.
        topic: Of the queue.
        queue_id: Of the queue.
        queue_offset: Of the first unit that differs.
        physical_offset: Of the first byte of the log that differs.
        item: Number of the first index entry that differs, counted from 0 over all files.
        a: What the first store has there.
        b: What the second has.
        count: Differing units or entries; None where they are not counted.
        message: One sentence.
    """

    type: ClassVar = "difference"
    structure: str
    message: str
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    physical_offset: int | None = None
    item: int | None = None
    a: str | None = None
    b: str | None = None
    count: int | None = None


@dataclass
class Comparison:
    """What was compared; filled while differences are drawn.

    Attributes:
        compared: Things that were compared, by name.
        left_out: Sentences about what only one side has and was not compared.
    """

    compared: dict[str, int] = field(default_factory=lambda: {"bytes": 0, "units": 0, "entries": 0})
    left_out: list[str] = field(default_factory=list)


def diff_stores(a: Store, b: Store, comparison: Comparison) -> Iterator[Difference]:
    """Yield the differences of two stores, or of the same part of two stores.

    Args:
        a: The first.
        b: The second.
        comparison: Receives what was compared.

    Raises:
        UsageError: They are not of one kind.
        EnvironmentFailureError: A file cannot be read.
    """
    if a.kind is not b.kind:
        raise UsageError(
            f"{a.place.path} is {a.kind.value}, {b.place.path} is {b.kind.value}; compare like with like"
        )
    yield from _diff_log(a, b, comparison)
    for kind in _QUEUE_KINDS:
        yield from _diff_queues(a, b, kind, comparison)
    yield from _diff_index(a, b, comparison)
    yield from _diff_checkpoint(a, b, comparison)


def _one_sided(a: object, b: object, name: str, comparison: Comparison) -> bool:
    """Note that only one side has a structure that a rebuilt copy lacks by nature."""
    if bool(a) == bool(b):
        return False
    comparison.left_out.append(f"only {'A' if a else 'B'} has a {name}; it is not compared")
    return True


def _diff_log(a: Store, b: Store, comparison: Comparison) -> Iterator[Difference]:
    one, other = a.commitlog, b.commitlog
    if _one_sided(len(one), len(other), "commit log", comparison) or not len(one):
        return
    ends = find_log_end(one.segments).end, find_log_end(other.segments).end
    if one.start != other.start:
        sentence = f"the logs start at {one.start} and {other.start}"
        yield Difference("commitlog", sentence, a=str(one.start), b=str(other.start))
    at = _first_difference(one, other, max(one.start, other.start), min(ends), comparison)
    if at is not None:
        pieces = (_read(files, at, min(at + 20, *ends)).hex() for files in (one, other))
        sentence = f"the logs differ from physical offset {at} on"
        yield Difference("commitlog", sentence, physical_offset=at, a=next(pieces), b=next(pieces))
    if ends[0] != ends[1]:
        sentence = f"the logs end at {ends[0]} and {ends[1]}"
        yield Difference("commitlog", sentence, a=str(ends[0]), b=str(ends[1]), physical_offset=min(ends))
    one.close()
    other.close()


def _first_difference(
    one: FileQueue, other: FileQueue, start: int, stop: int, comparison: Comparison
) -> int | None:
    for low, high in _stretches(one, other, start, stop):
        ours, theirs = (_read(files, low, high) for files in (one, other))
        comparison.compared["bytes"] += high - low
        if ours != theirs:
            return low + next(n for n in range(high - low) if ours[n] != theirs[n])
    return None


def _stretches(one: FileQueue, other: FileQueue, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cut what one of two file queues holds into pieces; an absurd gap between files costs nothing."""
    position = start
    for low, high in sorted((segment.start, segment.stop) for files in (one, other) for segment in files):
        position = max(position, low)
        while position < min(high, stop):
            end = min(position + _CHUNK_BYTES, high, stop)
            yield position, end
            position = end


def _read(files: FileQueue, start: int, stop: int) -> bytes:
    """Read by address over the files; gaps and what the disk does not deliver are zeros."""
    pieces = bytearray(stop - start)
    for segment in files:
        low, high = max(start, segment.start), min(stop, segment.stop)
        if low < high:
            data = segment.read_at(low - segment.start, high - low, [])
            pieces[low - start : low - start + len(data)] = data
    return bytes(pieces)


def _queues(store: Store, kind: PathKind) -> dict[tuple[str | int | None, ...], QueueFiles]:
    """Return the queues of a part by what names them below that part."""
    root = store.roots.get(kind)
    depth = TREE_DEPTH if root is None else root.depth
    found = {}
    for queue in store.queues(kind):
        key = (queue.topic, queue.queue_id)[TREE_DEPTH - depth :]
        found[key] = queue
    return found


def _diff_queues(a: Store, b: Store, kind: PathKind, comparison: Comparison) -> Iterator[Difference]:
    ours, theirs = _queues(a, kind), _queues(b, kind)
    start = max(a.commitlog.start, b.commitlog.start)
    for key in sorted(ours.keys() | theirs.keys(), key=str):
        one, other = ours.get(key), theirs.get(key)
        known = one or other
        if known is None:
            continue
        if one is None or other is None:
            sentence = f"only {'A' if one else 'B'} has the queue {known.topic}/{known.queue_id}"
            yield Difference(kind.value, sentence, known.topic, known.queue_id)
        elif kind is PathKind.CONSUMEQUEUE:
            yield from _diff_units(one, other, start, comparison)
        else:
            yield from _diff_bytes(one, other, comparison)
        for queue in (one, other):
            if queue is not None:
                queue.files.close()


def _diff_units(
    one: QueueFiles, other: QueueFiles, log_start: int, comparison: Comparison
) -> Iterator[Difference]:
    """Compare the units that both queues hold, and their bounds."""
    ours, theirs = queue_bounds(one, log_start), queue_bounds(other, log_start)
    kind, topic, queue_id = one.kind.value, one.topic, one.queue_id
    name = f"{topic}/{queue_id}"
    for what, left, right in zip(("begins", "ends"), ours, theirs, strict=True):
        if left != right:
            sentence = f"{name} {what} at queue offset {left} and {right}"
            yield Difference(kind, sentence, topic, queue_id, min(left, right), a=str(left), b=str(right))
    low, high = max(ours.min_offset, theirs.min_offset), min(ours.max_offset, theirs.max_offset)
    count, first = 0, None
    for differing in _differing_units(one.files, other.files, low, high, comparison):
        count, first = count + 1, first or differing
    if first is not None:
        number, left_unit, right_unit = first
        sentence = (
            f"{name}: {counted(count, 'unit differs', 'units differ')}, the first at queue offset {number}"
        )
        place = (kind, sentence, topic, queue_id, number, None, None)
        yield Difference(*place, _unit_text(left_unit), _unit_text(right_unit), count)


def _differing_units(
    one: FileQueue, other: FileQueue, low: int, high: int, comparison: Comparison
) -> Iterator[tuple[int, bytes, bytes]]:
    width = _UNIT.size
    for start, stop in _stretches(one, other, low * width, high * width):
        ours, theirs = (_read(files, start, stop) for files in (one, other))
        comparison.compared["units"] += (stop - start) // width
        if ours == theirs:
            continue
        for at in range(0, stop - start, width):
            if ours[at : at + width] != theirs[at : at + width]:
                yield (start + at) // width, ours[at : at + width], theirs[at : at + width]


def _unit_text(data: bytes) -> str:
    physical_offset, size, tags_code = _UNIT.unpack(data.ljust(_UNIT.size, b"\0"))
    return f"offset {physical_offset}, size {size}, tags code {tags_code}"


def _diff_bytes(one: QueueFiles, other: QueueFiles, comparison: Comparison) -> Iterator[Difference]:
    """Compare queues of units that are not addressed by their offset: the bytes that both have files for."""
    ours, theirs = one.files, other.files
    kind, name = one.kind.value, f"{one.topic}/{one.queue_id}"
    stop = max(ours.stop, theirs.stop)  # the longer one's rest is held against zeros
    at = _first_difference(ours, theirs, max(ours.start, theirs.start), stop, comparison)
    if at is not None:
        pieces = (_read(files, at, min(at + 20, stop)).hex() for files in (ours, theirs))
        sentence = f"{name} differs from address {at} on"
        yield Difference(kind, sentence, one.topic, one.queue_id, a=next(pieces), b=next(pieces))


Entry = tuple[int, int, int]


def _entries(store: Store) -> Iterator[Entry]:
    """Yield key hash, physical offset and time of all index entries in the order of the log."""
    for file in store.index_files:
        index_file = IndexFile(file, store.settings.index_geometry)
        begin_ms = index_file.header.begin_timestamp_ms if index_file.header else 0
        for _, item in index_file.items():  # noqa: PERF102 - a method of its own
            yield item.key_hash, item.physical_offset, begin_ms // 1000 + item.time_diff
        file.close()


def _diff_index(a: Store, b: Store, comparison: Comparison) -> Iterator[Difference]:
    """Compare key hash and place of the entries; times in seconds depend on where files begin."""
    if not a.index_files and not b.index_files:
        return
    count, number = 0, 0
    first: tuple[int, str | None, str | None] | None = None
    for number, (one, other) in enumerate(zip_longest(_entries(a), _entries(b)), 1):
        if one is None or other is None or one[:2] != other[:2]:
            count += 1
            first = first or (number - 1, _entry_text(one), _entry_text(other))
    comparison.compared["entries"] += number
    if first is not None:
        sentence = (
            f"{counted(count, 'index entry differs', 'index entries differ')}, the first is number {first[0]}"
        )
        yield Difference("index", sentence, item=first[0], a=first[1], b=first[2], count=count)


def _entry_text(entry: Entry | None) -> str | None:
    return None if entry is None else f"key hash {entry[0]}, offset {entry[1]}"


def _diff_checkpoint(a: Store, b: Store, comparison: Comparison) -> Iterator[Difference]:
    one, other = read_checkpoint(a.checkpoint), read_checkpoint(b.checkpoint)
    if _one_sided(one, other, "checkpoint", comparison) or one is None or other is None:
        return
    for name in one.__slots__:
        left, right = getattr(one, name), getattr(other, name)
        if left != right:
            sentence = f"checkpoint: {name} is {left} and {right}"
            yield Difference("checkpoint", sentence, a=str(left), b=str(right))
