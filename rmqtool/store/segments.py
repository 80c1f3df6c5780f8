"""Value objects: a file of the store, a segment of a file queue, a file queue."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rmqtool.findings import Finding, FindingCode
from rmqtool.io import Location, ReadOnlyFile, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator


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

    ``start``, from its name, is the address of its first byte (in the commit log: the physical offset).
    """

    start: int

    @property
    def stop(self) -> int:
        """Address after its last byte on disk."""
        return self.start + self.size_bytes


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


@dataclass(frozen=True, slots=True)
class FileGap:
    """Difference between a file's start and the end of the file before it.

    ``expected`` is the end, ``found`` the next start: lower where files overlap. ``after`` is the file before
    the gap, ``before`` the one behind it.
    """

    expected: int
    found: int
    after: Segment
    before: Segment


@dataclass(frozen=True, slots=True)
class Stray:
    """An unexpected entry of a directory; it was not opened.

    ``reason`` ends a sentence that begins with its label; ``size_bytes`` is None where it does not matter.
    """

    label: str
    reason: str
    size_bytes: int | None = None

    @property
    def name(self) -> str:
        """Its name in its directory."""
        return self.label.rpartition("/")[2]


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
        for one, two in pairwise(self.segments):
            expected = one.start + (file_size or one.size_bytes)
            if two.start != expected:
                yield FileGap(expected, two.start, one, two)

    def without_excess(self, file_size: int) -> FileQueue:
        """Return the queue with longer files cut to their configured size, where the next file begins there.

        No broker starts on such a file (``MappedFileQueue#doLoad``, 5.3.3). Its bytes after the size are not
        part of the queue, and would be read in place of the next file's.
        """
        cut = {
            one.start: replace(one, size_bytes=file_size)
            for one, two in pairwise(self.segments)
            if two.start == one.start + file_size < one.stop
        }
        if not cut:
            return self
        return replace(self, segments=tuple(cut.get(segment.start, segment) for segment in self.segments))

    def close(self) -> None:
        """Close all files."""
        for segment in self.segments:
            segment.close()
