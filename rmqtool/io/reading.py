"""Read-only access to one file of evidence, robust against bad sectors and shrinking files.

Never mmap: a mapped file that shrinks, or a sector that cannot be read, kills the process with SIGBUS. Only
`rmqtool.store.lock` may open the file ``lock``: closing any descriptor of it drops a record lock that this
process might hold.
"""

from __future__ import annotations

import errno
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqtool.errors import EnvironmentFailureError
from rmqtool.io.local import Descriptor

if TYPE_CHECKING:
    from collections.abc import MutableSequence

    from rmqtool.io.source import Handle, Source

_PIECE_BYTES = 1 << 20
_ZEROS = memoryview(bytes(_PIECE_BYTES))
_MOST_OPEN = 128
"""Files of this machine that stay open: a log can have thousands, and a process may have 256 or 1,024."""
RETRY_BYTES = 4096
"""Smallest piece that is read on its own after a failure: a page, and whole sectors of any disk."""


@dataclass(frozen=True, slots=True, order=True)
class UnreadableRange:
    """Bytes of a file that the disk could not deliver; they were read as zeros."""

    position: int
    length: int

    @property
    def stop(self) -> int:
        """The position after the range."""
        return self.position + self.length


class ReadOnlyFile:
    """One file, opened at the first read, shared by threads (no read moves a position), picklable by name."""

    def __init__(self, source: Source, path: str) -> None:
        self.source = source
        self.path = path
        self._handle: Handle | None = None
        self._opening = threading.Lock()

    def __getstate__(self) -> tuple[Source, str]:
        return self.source, self.path

    def __setstate__(self, state: tuple[Source, str]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __enter__(self) -> ReadOnlyFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, after reads of other threads; the next read opens it again."""
        self._handle = None

    def size_bytes(self) -> int:
        """Return the file's current size."""
        return self._open().size_bytes()

    def next_written(self, position: int) -> int:
        """Return the first position from ``position`` on where bytes were ever written; else the file's end.

        Holes of a sparse file in between are zeros. A source that does not know holes has none.
        """
        return self._open().next_written(position)

    def next_data(self, position: int) -> int:
        """Return as `next_written`, or the file's end where samples say so, see `Handle.next_data`."""
        return self._open().next_data(position)

    def end_of_data(self) -> int:
        """Return a position after which `next_data` is the file's end; it may be that end itself."""
        return self._open().end_of_data()

    def read_at(
        self, position: int, length: int, unreadable: MutableSequence[UnreadableRange] | None = None
    ) -> bytes:
        """Return up to ``length`` bytes from ``position`` on, fewer at the end of the file.

        Memory is taken for the file's bytes only, however large ``length`` is; a negative position reads
        nothing. ``unreadable`` receives the ranges that the disk could not deliver; without it, they raise
        `EnvironmentFailureError`, as do other failures.
        """
        available = min(length, self.size_bytes() - position)
        if position < 0 or available <= 0:
            return b""
        buffer = bytearray(available)
        return bytes(memoryview(buffer)[: self.read_into(position, buffer, unreadable)])

    def read_into(
        self,
        position: int,
        buffer: bytearray | memoryview[Any],
        unreadable: MutableSequence[UnreadableRange] | None = None,
    ) -> int:
        """Fill a writable buffer from ``position`` on and return the number of bytes, fewer at the end.

        Unreadable bytes become zeros; ``unreadable`` receives their ranges, ascending, 4 KiB exact. Raises
        `EnvironmentFailureError` as for `read_at`.
        """
        view = memoryview(buffer).cast("B")
        handle = self._open()  # a reference keeps it open while it is read
        done = 0
        while done < len(view):
            try:
                count = _read(handle, position + done, view[done:], unreadable)
            except OSError as failure:
                raise self._failure(failure, position + done) from failure
            if count == 0:
                break
            done += count
        return done

    def _open(self) -> Handle:
        handle = self._handle
        if handle is None:
            with self._opening:
                handle = self._handle
                if handle is None:
                    handle = self._handle = self.source.open(self.path)
                    if isinstance(handle, Descriptor):
                        _bound_open(self)
        return handle

    def _failure(self, failure: OSError, position: int) -> EnvironmentFailureError:
        return EnvironmentFailureError(f"{self.path}: read at position {position} failed: {failure.strerror}")


_OPENED: deque[weakref.ref[ReadOnlyFile]] = deque()
"""In the order in which they were opened; some may be closed by now, or open once more."""


def _bound_open(file: ReadOnlyFile) -> None:
    _OPENED.append(weakref.ref(file))
    if len(_OPENED) > _MOST_OPEN and (oldest := _OPENED.popleft()()) is not None:
        oldest.close()  # its next read opens it again


def sha256_of(file: ReadOnlyFile, stop: int, unreadable: MutableSequence[UnreadableRange]) -> tuple[str, int]:
    """Return SHA-256 of a file's first ``stop`` bytes in hex, and how many of them it had.

    Holes are not read. A ``stop`` one byte beyond the file shows whether it grows. ``unreadable`` receives
    the ranges that the disk could not deliver, hashed as zeros.
    """
    import hashlib  # and OpenSSL, which look-ups do without

    hasher, position = hashlib.sha256(), 0
    view = memoryview(bytearray(min(_PIECE_BYTES, stop)))
    while position < stop:
        data = min(file.next_written(position), stop)
        for start in range(position, data, len(_ZEROS)):
            hasher.update(_ZEROS[: data - start])
        position = max(position, data)
        count = file.read_into(position, view[: stop - position], unreadable)
        hasher.update(view[:count])
        position += count
        if not count:
            break
    return hasher.hexdigest(), position


def _read(
    handle: Handle, position: int, view: memoryview[Any], unreadable: MutableSequence[UnreadableRange] | None
) -> int:
    """Read a range; where that fails, halve it until the bad blocks are found.

    Returns the bytes of ``view`` that were filled, with data or with zeros; fewer at the end of the file.
    """
    try:
        return handle.read_into(position, view)
    except OSError as failure:
        if failure.errno != errno.EIO or unreadable is None:
            raise
    first_block = position // RETRY_BYTES
    blocks = (position + len(view) - 1) // RETRY_BYTES - first_block + 1
    if blocks == 1:
        view[:] = bytes(len(view))
        _note(unreadable, UnreadableRange(position, len(view)))
        return len(view)
    middle = (first_block + blocks // 2) * RETRY_BYTES - position
    count = _read(handle, position, view[:middle], unreadable)
    if count < middle:
        return count
    return middle + _read(handle, position + middle, view[middle:], unreadable)


def _note(unreadable: MutableSequence[UnreadableRange], bad: UnreadableRange) -> None:
    if unreadable and unreadable[-1].stop == bad.position:
        bad = UnreadableRange(unreadable[-1].position, unreadable[-1].length + bad.length)
        unreadable.pop()
    unreadable.append(bad)
