"""A window of bounded size on one file, for readers that go forward and now and then look elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.io.location import UnreadableRange
    from rmqtool.store.segments import StoreFile

WINDOW_BYTES = 1 << 20
_MARGIN_BYTES = 4096
_ZEROS = bytes(WINDOW_BYTES)


class Window:
    """Bytes of one file: those around the focus are kept, others are read when needed.

    Reading elsewhere does not move the window, so that a hostile length costs one small read and no more.

    Args:
        file: The file.
        size_bytes: Bytes kept.
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
            position = max(position + len(chunk), self._file.next_data(position))
            span = min(2 * span, WINDOW_BYTES)
        return self.size_bytes

    def take_unreadable(self) -> list[UnreadableRange]:
        """Return the ranges that could not be read and were not returned before."""
        found = sorted(one for one in self._unreadable if one.stop > self._reported)
        self._unreadable.clear()
        if found:
            self._reported = max(one.stop for one in found)
        return found
