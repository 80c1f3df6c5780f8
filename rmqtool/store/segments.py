"""Files of a store, segments and queues of them, and findings on bytes that no read delivered."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.findings import Finding, FindingCode, Structure, codes
from rmqtool.formats.framing import PLAIN, Framing
from rmqtool.io import FileKind, Location, ReadOnlyFile, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.errors import DeniedError
    from rmqtool.io.location import UnreadableRange


ENDLESS = (1 << 63) - 1
"""Physical offset after every other."""

NAME_DIGITS = 20
"""Files of a queue are named by the address of their first byte (``UtilAll#offset2FileName``)."""


@dataclass(unsafe_hash=True)
class StoreFile(ReadOnlyFile):
    """A regular file of the store; picklable by its place, safe to share between threads.

    ``label`` is its path relative to the store, as reports show it; ``size_bytes`` is its size when the
    directory was listed.
    """

    label: str
    size_bytes: int

    def sha256(self) -> str:
        """Return the SHA-256 in hex; unreadable bytes count as zeros."""
        return sha256_of(self, self.size_bytes, [])[0]


@dataclass(unsafe_hash=True)
class Segment(StoreFile):
    """One file of a file queue.

    ``start``, from its name, is the address of its first byte (in the commit log: the physical offset);
    ``framing`` is that of a file of the log; ``excess_bytes`` are those at its end that are not read, as the
    next file begins before them.
    """

    start: int
    framing: Framing = PLAIN
    excess_bytes: int = 0

    @property
    def stop(self) -> int:
        """Address after its last byte on disk."""
        return self.start + self.size_bytes

    def frame_position(self, physical_offset: int) -> int:
        """Return the position in the file of the frame whose record lies at a physical offset."""
        return physical_offset - self.framing.lead - self.start


def finding_at(
    segment: Segment | None,
    code: FindingCode,
    physical_offset: int,
    message: str = "",
    **fields: Any,  # noqa: ANN401 - fields of `Finding`
) -> Finding:
    """Return a finding about a place of the log, which lies in ``segment``, if in any file."""
    return Finding(
        code=code,
        file=None if segment is None else segment.label,
        position=None if segment is None else physical_offset - segment.start,
        physical_offset=physical_offset,
        message=message,
        **fields,
    )


class FileGap(NamedTuple):
    """Difference between a file's start and the end of the file before it.

    ``expected`` is the end, ``found`` the next start: lower where files overlap. ``after`` is the file before
    the gap, ``before`` the one after it.
    """

    expected: int
    found: int
    after: Segment
    before: Segment


class Stray(NamedTuple):
    """An unexpected entry of a directory.

    ``reason`` ends a sentence that begins with its label; ``size_bytes`` is None where it does not matter.
    ``own_records`` are whole ones that the log lacks, of a file that was read, else None; ``served`` is the
    label of the one that a broker serves, of files of one name.
    """

    label: str
    reason: str
    size_bytes: int | None = None
    own_records: int | None = None
    served: str = ""

    @property
    def name(self) -> str:
        """Its name in its directory."""
        return self.label.rpartition("/")[2]

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return self.reason == f"is {FileKind.DIRECTORY}"


@dataclass(frozen=True)
class FileQueue:
    """Files that follow each other, and the other entries of their directories.

    Segments are in the order of their start addresses; where files overlap, ``segment_at`` returns the later
    one.
    """

    directories: tuple[Location, ...]
    segments: tuple[Segment, ...]
    strays: tuple[Stray, ...] = ()

    def __len__(self) -> int:
        return len(self.segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    @cached_property
    def _starts(self) -> list[int]:
        return [segment.start for segment in self.segments]

    @property
    def start(self) -> int:
        """Address of the first byte; 0 for a queue without files."""
        return self.segments[0].start if self.segments else 0

    @property
    def stop(self) -> int:
        """Address after the last file; 0 for a queue without files."""
        return self.segments[-1].stop if self.segments else 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(segment.size_bytes for segment in self.segments)

    def segment_at(self, offset: int) -> Segment | None:
        """Return the segment that holds the byte at an address, or None."""
        number = bisect_right(self._starts, offset) - 1
        segment = self.segments[number] if number >= 0 else None
        return None if segment is None or offset >= segment.start + segment.size_bytes else segment

    def between(self, start: int, stop: int) -> Iterator[Segment]:
        """Yield the segments that hold bytes from the address ``start`` to before ``stop``."""
        for number in range(max(0, bisect_right(self._starts, start) - 1), bisect_left(self._starts, stop)):
            if self.segments[number].stop > start:
                yield self.segments[number]

    def gaps(self, file_size: int | None = None) -> Iterator[FileGap]:
        """Yield the places where files do not join, by the configured file size or each file's own."""
        for segment, two in pairwise(self.segments):
            expected = segment.start + (file_size or segment.size_bytes)
            if two.start != expected:
                yield FileGap(expected, two.start, segment, two)

    def without_excess(self, file_size: int) -> FileQueue:
        """Return the queue with longer files cut to their configured size, where the next file begins there.

        No broker starts on such a file (``MappedFileQueue#doLoad``, 5.3.3). Its bytes after the size are not
        part of the queue, and would be read in place of the next file's.
        """
        cut = {
            segment.start: replace(segment, size_bytes=file_size, excess_bytes=segment.stop - two.start)
            for segment, two in pairwise(self.segments)
            if two.start == segment.start + file_size < segment.stop
        }
        if not cut:
            return self
        return replace(self, segments=tuple(cut.get(segment.start, segment) for segment in self.segments))

    def close(self) -> None:
        """Close all files."""
        for segment in self.segments:
            segment.close()


def label_of(path: Location, base: Location) -> str:
    """Return a path relative to the store, or the whole path if it lies elsewhere."""
    try:
        return path.relative_to(base)
    except ValueError:
        return str(path)


def denied_finding(failure: DeniedError, base: Location) -> Finding:
    """Return the finding about a file or directory that this user may not read."""
    return Finding(
        code=codes.IO_DENIED, file=label_of(base.elsewhere(failure.path), base), message=failure.reason
    )


def unreadable_findings(
    file: StoreFile, ranges: Iterable[UnreadableRange], structure: Structure
) -> Iterator[Finding]:
    """Yield a finding for each range read as zeros; those about the log carry the physical offset."""
    start = file.start if isinstance(file, Segment) and structure is Structure.COMMITLOG else None
    for bad in ranges:
        yield Finding(
            code=codes.IO_UNREADABLE,
            file=file.label,
            position=bad.position,
            length=bad.length,
            physical_offset=None if start is None else start + bad.position,
            message=f"{file.label}: {bad.length} bytes at position {bad.position} cannot be read",
            structure_override=structure,
        )


WINDOW_BYTES = 1 << 20
_MARGIN_BYTES = 4096
_ZEROS = bytes(WINDOW_BYTES)


class Window:
    """Bytes of one file: ``size_bytes`` around the focus are kept, others are read when needed.

    Reading elsewhere does not move the window, so that a hostile length costs one small read and no more.
    """

    def __init__(self, file: StoreFile, size_bytes: int = WINDOW_BYTES) -> None:
        self._file = file
        self._capacity = size_bytes
        self._start = 0
        self._data = b""
        self._unreadable: list[UnreadableRange] = []
        self._reported = 0

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the file, as it was listed."""
        return self._file.size_bytes

    @property
    def framing(self) -> Framing:
        """Return the framing of the file's records."""
        return self._file.framing if isinstance(self._file, Segment) else PLAIN

    def focus(self, position: int) -> None:
        """Move the window so that it starts at ``position``, unless that lies well inside already."""
        stop = self._start + len(self._data)
        inside = self._start <= position and (position + _MARGIN_BYTES <= stop or stop >= self.size_bytes)
        if not inside:
            self._data = b""
            self._data = self.read_at(position, self._capacity)
            self._start = position

    def read_at(self, position: int, length: int) -> bytes:
        """Return ``length`` bytes from ``position``, fewer at the end of the file."""
        at, length = position - self._start, max(length, 0)
        if at >= 0 and at + length <= len(self._data):
            return self._data[at : at + length]
        available = min(length, self.size_bytes - position)  # a file that grows meanwhile is read as listed
        if available <= 0 or position < 0:
            return b""
        buffer = bytearray(available)
        return bytes(memoryview(buffer)[: self._file.read_into(position, buffer, self._unreadable)])

    def skip_zeros(self, position: int) -> int:
        """Return the position of the first byte from ``position`` on that is not zero, or the file's end.

        Holes of a sparse file are not read.
        """
        span = _MARGIN_BYTES
        while position < self.size_bytes:
            chunk = self.read_at(position, span)
            if not chunk:
                break
            if chunk != _ZEROS[: len(chunk)]:
                return position + len(chunk) - len(chunk.lstrip(b"\0"))
            position = max(position + len(chunk), self._file.next_written(position))
            span = min(2 * span, WINDOW_BYTES)
        return self.size_bytes

    def take_unreadable(self) -> list[UnreadableRange]:
        """Return the ranges that could not be read and were not returned before."""
        ranges = sorted(unreadable for unreadable in self._unreadable if unreadable.stop > self._reported)
        self._unreadable.clear()
        if ranges:
            self._reported = max(unreadable.stop for unreadable in ranges)
        return ranges
