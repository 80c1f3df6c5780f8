"""The log's file among several of one name, and records that only a file beside the log holds: by content.

A broker loads all of them, in the order of `in_broker_order`, and serves the first; its recovery reads one
after the other (``MultiPathMappedFileQueue#load``, ``MappedFileQueue#findMappedFileByOffset``, 4.9.8 to
5.5.1).
"""

from __future__ import annotations

import re
import zlib
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import counted
from rmqtool.formats.framing import PLAIN
from rmqtool.formats.message import (
    HEAD_SIZES,
    RECORD_MAGICS,
    SMALLEST_RECORD,
    decode_head,
    host_variant,
)
from rmqtool.javacompat import string_hash
from rmqtool.store.segments import NAME_DIGITS, FileQueue, Segment, StoreFile, Stray, Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.io import Location

T = TypeVar("T")

_FEWEST_BUCKETS = 16
_MAGIC_AT = 4
_MAGIC_BYTES = 4
_MAGIC = re.compile(b"|".join(re.escape(magic.to_bytes(4, "big", signed=True)) for magic in RECORD_MAGICS))
_SEARCHED = 1 << 20
_LONGEST_RECORD = 64 << 20
"""Far more than the 4 MiB that ``maxMessageSize`` allows by default."""

_NAME = re.compile(rf"(?<!\d)\d{{{NAME_DIGITS}}}(?!\d)")
_CRC_BITS = 0x7FFFFFFF


def in_broker_order(paths: Sequence[tuple[str, T]]) -> list[T]:
    """Return what belongs to paths in the order of a Java ``HashSet``, into which brokers put them."""
    buckets = _FEWEST_BUCKETS
    while len(paths) > buckets * 3 // 4:
        buckets *= 2

    def bucket(path: tuple[str, T]) -> int:
        number = string_hash(path[0]) & 0xFFFFFFFF
        return (number ^ number >> 16) & (buckets - 1)

    return [what for _, what in sorted(paths, key=bucket)]


class WholeRecord(NamedTuple):
    """A record whose body is as stored, at ``position`` of a file; others are what it says of itself."""

    position: int
    size: int
    physical_offset: int
    store_timestamp_ms: int


def whole_records(file: StoreFile, start: int | None = None, position: int = 0) -> Iterator[WholeRecord]:
    """Yield the whole records of a file, whatever lies between; with ``start``, those at their own place.

    They are looked for from ``position`` on.
    """
    window, at = Window(file), position + _MAGIC_AT
    while (at := _next_magic(window, file, at)) < file.size_bytes:
        record = _record_at(window, at - _MAGIC_AT)
        if record is None or (start is not None and record.physical_offset != start + record.position):
            at += 1
        else:
            yield record
            at += record.size


def lacking(file: StoreFile, log: FileQueue) -> int:
    """Return how many whole records of a file the log does not have at the place that they name."""
    count, same = 0, _same_bytes(file, log)
    if same == file.size_bytes:
        return 0
    for record in whole_records(file, position=max(same - _LONGEST_RECORD, 0)):
        segment = log.segment_at(record.physical_offset)
        position = 0 if segment is None else record.physical_offset - segment.start
        data = b"" if segment is None else segment.read_at(position, record.size, [])
        count += data != file.read_at(record.position, record.size, [])
    return count


def _same_bytes(file: StoreFile, log: FileQueue) -> int:
    """Return how many bytes from its start, by whole blocks, a file has in common with the log."""
    record = next(whole_records(file), None)
    segment = None if record is None else log.segment_at(record.physical_offset)
    if record is None or segment is None or record.physical_offset - record.position != segment.start:
        return 0
    for at in range(0, min(file.size_bytes, segment.size_bytes), _SEARCHED):
        if file.read_at(at, _SEARCHED, []) != segment.read_at(at, _SEARCHED, []):
            return at
    return min(file.size_bytes, segment.size_bytes)


def own_records(stray: Stray, root: Location, log: FileQueue) -> int | None:
    """Return how many whole records of a stray the log lacks; None if that cannot be read."""
    if stray.own_records is not None or not stray.size_bytes:
        return stray.own_records or 0
    try:
        file = _file(stray, root)
        return None if file is None else lacking(file, log) or (None if _named(stray, log) is not None else 0)
    except EnvironmentFailureError:
        return None


def missing_file(stray: Stray, root: Location, log: FileQueue, file_size: int) -> int | None:
    """Return where the log's missing file begins that a file beside it is, by its records or its name."""
    if not stray.size_bytes:
        return None
    with suppress(EnvironmentFailureError):
        file = _file(stray, root)
        record = None if file is None else next(whole_records(file), None)
        if record is not None:
            at = record.physical_offset
            return at - at % file_size if at >= 0 and log.segment_at(at) is None else None
    return _named(stray, log)


def _named(stray: Stray, log: FileQueue) -> int | None:
    """Return which file, that the log lacks, a stray is by its name: one that is packed, or partly copied."""
    name = _NAME.search(stray.name)
    return None if name is None or log.segment_at(int(name[0])) is not None else int(name[0])


def _file(stray: Stray, root: Location) -> StoreFile | None:
    path = root.elsewhere(stray.label) if stray.label.startswith("/") else root / stray.label
    return StoreFile(path, stray.label, stray.size_bytes) if stray.size_bytes and path.is_regular() else None


class Shadowed(NamedTuple):
    """A file of the log in whose place another of its name is served, which lacks so many whole records."""

    file: Segment
    served: Segment
    records: int


def shadowed(log: FileQueue, loaded: Sequence[Segment]) -> list[Shadowed]:
    """Return the files of a log that are not served, by what a broker has ``loaded``, in its order.

    Java: ``MappedFileQueue#findMappedFileByOffset`` (4.9.8 to 5.5.1).
    """
    if len(loaded) == len({segment.start for segment in loaded}):
        return []
    served: dict[int, Segment] = {}
    for segment in loaded:
        served.setdefault(segment.start, segment)
    pairs = ((one, served[one.start]) for one in log if one.start in served)
    twins = (
        Shadowed(one, other, lacking(one, FileQueue((), (other,))))
        for one, other in pairs
        if one.path != other.path
    )
    return [twin for twin in twins if twin.records]


def without_twins(segments: Sequence[Segment]) -> tuple[list[Segment], list[Stray]]:
    """Return the log's files, and as strays those of the same name in other directories.

    Of two that hold records, the one that fits between its neighbours by time is the log's, then the one that
    holds more. ``segments`` ascend, those of one name in the order of a broker.
    """
    groups: dict[int, list[Segment]] = {}
    for segment in segments:
        groups.setdefault(segment.start, []).append(segment)
    if len(groups) == len(segments):
        return [*segments], []
    numbered = [*groups.values()]
    kept = [
        group[0] if len(group) == 1 else max(group, key=_Rank(numbered[:number][-1:], numbered[number + 1 :]))
        for number, group in enumerate(numbered)
    ]
    log = FileQueue((), tuple(kept))
    strays = [
        _stray(one, best, group[0].label, log)
        for best, group in zip(kept, numbered, strict=True)
        for one in group
        if one is not best
    ]
    return kept, strays


def _stray(segment: Segment, kept: Segment, served: str, log: FileQueue) -> Stray:
    reason = f"has the name of {kept.label}"
    try:
        own = lacking(segment, log)
    except EnvironmentFailureError as failure:
        reason = f"{reason}, and may not be read: {failure}"
        return Stray(segment.label, reason, segment.size_bytes, None, served)
    if own:
        lacks = "that the other lacks: the log has only one of them"
        reason += f", and {counted(own, 'whole record', spec=',')} {lacks}"
    elif _content(segment.path, segment.size_bytes, segment.start).size_bytes:
        reason += ", which has all its records"
    else:
        reason += ", and holds no record"
    return Stray(segment.label, reason, segment.size_bytes, own, served)


class _Content(NamedTuple):
    size_bytes: int  # of whole records at their own places
    first_ms: int | None


class _Rank:
    """Rank of a file among those of one name; the neighbours are the files before and after it."""

    def __init__(self, before: Sequence[list[Segment]], after: Sequence[list[Segment]]) -> None:
        times = [_first_ms(group[0]) if len(group) == 1 else None for group in (*before, *after[:1])]
        self._earliest = times[0] if before else None
        self._latest = times[-1] if after else None

    def __call__(self, segment: Segment) -> tuple[bool, bool, int]:
        try:
            content = _content(segment.path, segment.size_bytes, segment.start)
        except EnvironmentFailureError:
            return False, False, 0
        if content.first_ms is None:
            return False, False, 0
        early = self._earliest is not None and content.first_ms < self._earliest
        late = self._latest is not None and content.first_ms > self._latest
        return True, not early and not late, content.size_bytes


@lru_cache(maxsize=64)
def _content(path: Location, size_bytes: int, start: int) -> _Content:
    size, first_ms = 0, None
    for record in whole_records(StoreFile(path, str(path), size_bytes), start):
        size += record.size
        first_ms = record.store_timestamp_ms if first_ms is None else first_ms
    return _Content(size, first_ms)


def _first_ms(segment: Segment) -> int | None:
    try:
        record = _record_at(Window(segment), 0)
    except EnvironmentFailureError:
        return None
    return None if record is None else record.store_timestamp_ms


def _next_magic(window: Window, file: StoreFile, at: int) -> int:
    """Return the position of the next magic of a record from ``at`` on; the file's end without one."""
    if _MAGIC.match(window.read_at(at, _MAGIC_BYTES)):
        return at
    while at < file.size_bytes:
        data = window.read_at(at, _SEARCHED)
        match = _MAGIC.search(data)
        if match is not None:
            return at + match.start()
        at = max(at + max(len(data) - _MAGIC_BYTES, 1), file.next_written(at))
    return file.size_bytes


def _record_at(window: Window, position: int) -> WholeRecord | None:
    """Return the whole record at a position; only BODYCRC may be 0 in it."""
    window.focus(position)
    head = decode_head(window.read_at(position, max(HEAD_SIZES)))
    if head is None or head.magic not in RECORD_MAGICS:
        return None
    body = position + HEAD_SIZES[host_variant(head.sys_flag)]
    stop = PLAIN.frame_stop(position, head.total_size)
    if not SMALLEST_RECORD <= head.total_size <= window.size_bytes - position:
        return None
    if not 0 <= head.body_length <= stop - body:
        return None
    crc = zlib.crc32(window.read_at(body, head.body_length)) & _CRC_BITS
    if head.body_crc not in {0, crc}:
        return None
    return WholeRecord(position, head.total_size, head.physical_offset, head.store_timestamp_ms)
