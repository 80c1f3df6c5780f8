"""Ext files of a consume queue in the broker's memory: which a start deletes, and when it fails.

Origin: ``ConsumeQueueExt#recover``, ``#truncateByMaxAddress``, ``#truncateByMinAddress``, ``#get``, ``#put``,
``ConsumeQueue#recover``, ``#truncateDirtyLogicFiles``, ``#correctMinOffset`` (4.9.8, 5.3.3). A cut of the log
does not change them: ``#truncateDirtyLogicFiles`` returns before it reaches them, or has met no address. What
a start appends has no bit map: a broker's filters do not run yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.derived.ext_files import ExtFile
from rmqtool.formats.consumequeue import (
    EXT_ADDRESS_BASE,
    EXT_ADDRESS_MAX,
    EXT_END_ROOM,
    EXT_HEAD_SIZE,
    EXT_HEADS,
    EXT_SIZE_BYTES,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqtool.arrays import Int64s
    from rmqtool.store.segments import Segment


NO_ADDRESS = 1


class ExtFailureError(Exception):
    """An ext file that ends inside a unit that the broker reads; its queue cannot be recovered."""

    def __init__(self, label: str, position: int) -> None:
        super().__init__(f"has an ext unit at {position} that runs out of the file: recovery fails")
        self.label = label


def last_address(tags_codes: Int64s) -> int:
    """Return the last tags code that is an ext address, `NO_ADDRESS` if none is."""
    at = np.flatnonzero(tags_codes <= EXT_ADDRESS_MAX)
    return int(tags_codes[at[-1]]) if len(at) else NO_ADDRESS


class ExtFiles:
    """The ext files of one consume queue, as loaded, by name; ``deleted`` are labels by start."""

    def __init__(
        self, segments: Iterable[Segment], file_size: int, deleted: Mapping[int, str] | None = None
    ) -> None:
        self._segments = {segment.start: segment for segment in segments}
        self._starts = list(self._segments)
        self._size = file_size
        self._end = 0
        self._gone = dict(deleted or {})

    @property
    def deleted(self) -> list[str]:
        """Return the labels of the files that are deleted and not created again."""
        return [label for start, label in self._gone.items() if start not in self._starts]

    def recover(self, max_address: int) -> None:
        """Find the end of the units, then drop those after the one that the queue's last address names.

        Where the broker cannot, and does not start, this raises ExtFailureError.
        """
        for segment in self._segments.values():
            found = ExtFile(segment).size_chain()
            if found.fails:
                raise ExtFailureError(segment.label, found.position)
            self._end = segment.start + found.position
        if max_address <= EXT_ADDRESS_MAX:
            self._drop_after(max_address - EXT_ADDRESS_BASE)

    def put(self, count: int) -> None:
        """Append a unit without bit map for every message, whether the queue takes its unit or not."""
        if self._size < EXT_HEAD_SIZE + EXT_END_ROOM:
            return
        while count > 0:
            if not self._starts or self._end >= self._starts[-1] + self._size:
                self._end = self._starts[-1] + self._size if self._starts else 0
                self._starts.append(self._end)
            stop = self._starts[-1] + self._size
            taken = min(count, max(stop - EXT_END_ROOM - self._end, 0) // EXT_HEAD_SIZE)
            count -= taken
            self._end = stop if count else self._end + taken * EXT_HEAD_SIZE  # the end mark fills the file

    def drop_before(self, min_address: int) -> None:
        """Delete the files that end before the first address of a record that the log still has."""
        if min_address <= EXT_ADDRESS_MAX:
            offset = min_address - EXT_ADDRESS_BASE
            self._delete([start for start in self._starts if start + self._size < offset])

    def destroy(self) -> None:
        """Delete all files."""
        self._delete(list(self._starts))

    def _drop_after(self, offset: int) -> None:
        segment = self._segment_of(offset)
        if segment is None:
            return
        position = offset % self._size
        limit = self._end - segment.start if segment.start == self._starts[-1] else self._size
        data = segment.read_at(position, min(EXT_HEAD_SIZE, max(limit - position, 0)), [])
        head = EXT_HEADS.padded(data)
        if len(data) < EXT_SIZE_BYTES or head.size < 1:
            return
        if len(data) < EXT_HEAD_SIZE or position + EXT_HEAD_SIZE + max(head.bit_map_size, 0) > limit:
            raise ExtFailureError(segment.label, position)
        self._end = offset + head.size
        self._delete([start for start in self._starts if start > self._end])

    def _segment_of(self, offset: int) -> Segment | None:
        """Java: ``MappedFileQueue#findMappedFileByOffset``, which takes the first file for address 0."""
        start = next((one for one in self._starts if one <= offset < one + self._size), None)
        if start is None and offset == 0 and self._starts:
            start = self._starts[0]
        return None if start is None else self._segments[start]

    def _delete(self, starts: list[int]) -> None:
        self._gone |= {start: self._segments[start].label for start in starts if start in self._segments}
        self._starts = [start for start in self._starts if start not in starts]
