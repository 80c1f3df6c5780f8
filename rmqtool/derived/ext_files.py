"""Files of ext queues: units of varying length, found by address (``ConsumeQueueExt``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.formats.consumequeue import (
    EXT_ADDRESS_BASE,
    EXT_END_SIZE,
    EXT_HEAD_SIZE,
    EXT_HEADS,
    EXT_SIZE_BYTES,
    ExtHead,
)
from rmqtool.store.segments import FileQueue, Segment, Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Array, Int64s
    from rmqtool.io.location import UnreadableRange


_FIRST_READ_BYTES = 1 << 16
_LARGEST_UNIT = 1 << 15
_PLAIN_UNITS = 1 << 12


class PlacedExtUnit(NamedTuple):
    """A unit and its position in the file; without a bit map if its sizes are impossible."""

    position: int
    head: ExtHead
    bit_map: bytes | None


class ExtColumns(NamedTuple):
    """The units at the start of an ext file, ``(n,)`` each.

    ``positions`` in the file ascend; ``stop`` is the position after the last unit.
    """

    positions: Int64s
    tags_codes: Int64s
    times_ms: Int64s
    stop: int


class SizeChain(NamedTuple):
    """End of units that are skipped by their sizes alone; ``fails`` if the next one has no end."""

    position: int
    fails: bool


class ExtFile:
    """One file of an ext queue."""

    def __init__(self, segment: Segment, window: Window | None = None) -> None:
        self.segment = segment
        self._window = Window(segment) if window is None else window

    def unit(self, position: int) -> PlacedExtUnit | None:
        """Return the unit at a position; None where the file has no whole head."""
        self._window.focus(position)
        head = EXT_HEADS.decode(self._window.read_at(position, EXT_HEAD_SIZE))
        if head is None:
            return None
        bit_map = self._window.read_at(position + EXT_HEAD_SIZE, head.bit_map_size)
        is_sound = head.size == EXT_HEAD_SIZE + head.bit_map_size and len(bit_map) == head.bit_map_size
        return PlacedExtUnit(position, head, bit_map if is_sound else None)

    def rows(self, position: int = 0) -> Iterator[PlacedExtUnit]:
        """Yield its units up to the end mark or to zeros; sizes chain them, so a bad one is the last."""
        while position + EXT_HEAD_SIZE <= self.segment.size_bytes:
            unit = self.unit(position)
            if unit is None or unit.head.size in {EXT_END_SIZE, 0}:
                return
            yield unit
            if unit.bit_map is None:
                return
            position += unit.head.size

    def size_at(self, position: int) -> int:
        """Return the SIZE field at a position; 0 past the end of the file."""
        return EXT_HEADS.padded(self.segment.read_at(position, EXT_SIZE_BYTES, [])).size

    def columns(self, unreadable: list[UnreadableRange]) -> ExtColumns:
        """Return its units; zeros after them stay unread. ``unreadable`` receives undelivered ranges."""
        length = _FIRST_READ_BYTES
        while True:
            unreadable.clear()
            data = self.segment.read_at(0, min(length, self.segment.size_bytes), unreadable)
            parsed = _parse(data)
            if len(data) < length or parsed.stop + _LARGEST_UNIT <= len(data):
                return parsed
            length *= 8

    def size_chain(self) -> SizeChain:
        """Skip from unit to unit by their sizes, as ``ConsumeQueueExt#recover`` does; zeros stay unread."""
        length = _FIRST_READ_BYTES
        while True:
            data = self.segment.read_at(0, min(length, self.segment.size_bytes), [])
            chain = _skip(data)
            if not chain.fails or len(data) < length:
                return chain
            length *= 8


class ExtReader:
    """Reader of one queue's ext units by address; the window stays on the file of the last look-up."""

    def __init__(self, files: FileQueue) -> None:
        self._files = files
        self._file: ExtFile | None = None

    def at(self, address: int) -> PlacedExtUnit | None:
        """Return the unit at an address, which is a tags code; None where there is no sound one."""
        offset = address - EXT_ADDRESS_BASE
        segment = self._files.segment_at(offset)
        if segment is None:
            return None
        if self._file is None or self._file.segment is not segment:
            self._file = ExtFile(segment)
        unit = self._file.unit(offset - segment.start)
        return None if unit is None or unit.bit_map is None else unit


def _parse(data: bytes) -> ExtColumns:
    """Return the units at the start of some bytes.

    Units without bit maps have one size, so many are read at a time; others one by one.
    """
    import numpy as np

    pieces: list[tuple[Int64s, Array]] = []
    position = 0
    while (head := EXT_HEADS.decode(data, position)) is not None:
        plain = _plain_units(data, position)
        if len(plain):
            pieces.append((position + np.arange(len(plain)) * EXT_HEAD_SIZE, plain))
            position += plain.nbytes
            continue
        if head.bit_map_size < 0 or head.size != EXT_HEAD_SIZE + head.bit_map_size:
            break
        if position + head.size > len(data):
            break
        pieces.append((np.array([position]), np.frombuffer(data, EXT_HEADS.dtype, 1, position)))
        position += head.size
    positions = np.concatenate([np.zeros(0, np.int64), *(at for at, _ in pieces)])
    heads = np.concatenate([np.zeros(0, EXT_HEADS.dtype), *(rows for _, rows in pieces)])
    tags_codes, times_ms = heads["tagsCode"].astype(np.int64), heads["storeTimestamp"].astype(np.int64)
    return ExtColumns(positions, tags_codes, times_ms, position)


def _plain_units(data: bytes, position: int) -> Array:
    import numpy as np

    count = (len(data) - position) // EXT_HEAD_SIZE
    rows = np.frombuffer(data, EXT_HEADS.dtype, min(count, _PLAIN_UNITS), position)
    other = np.flatnonzero((rows["size"] != EXT_HEAD_SIZE) | (rows["bitMapSize"] != 0))
    return rows[: int(other[0])] if len(other) else rows


def _skip(data: bytes) -> SizeChain:
    position = 0
    while position + EXT_SIZE_BYTES <= len(data):
        size = EXT_HEADS.padded(data[position : position + EXT_SIZE_BYTES]).size
        if size <= 0:
            return SizeChain(position, fails=False)
        if position + size > len(data):
            return SizeChain(position, fails=True)
        position += size * max(_alike(data, position, size), 1)
    return SizeChain(position, fails=True)


def _alike(data: bytes, position: int, size: int) -> int:
    """Return how many whole units from ``position`` on have the same size."""
    import numpy as np

    if size < EXT_SIZE_BYTES:
        return 1
    count = (len(data) - position) // size
    sizes: Array = np.ndarray((count,), EXT_HEADS.dtype["size"], data, position, (size,))
    other = np.flatnonzero(sizes != size)
    return int(other[0]) if len(other) else count
