"""Consume queues, their extensions and batch consume queues, in memory (4.9.8, 5.3.3)."""

from __future__ import annotations

import struct


def java_long(value: int) -> int:
    """Wrap around as a Java long does."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def java_remainder(dividend: int, divisor: int) -> int:
    """Return Java's ``%``, which has the dividend's sign."""
    remainder = abs(dividend) % divisor
    return -remainder if dividend < 0 else remainder


class MappedFiles:
    """``MappedFileQueue``: files of one size by the address of their first byte, and the bytes written."""

    def __init__(self, file_size: int) -> None:
        self.file_size = file_size
        self.files: dict[int, bytearray] = {}
        self.written = 0  # in the last file

    def last_file(self, start_offset: int) -> int:
        """Return the start of the last file, created if there is none or it is full."""
        start = next(reversed(self.files), None)
        if start is None:
            start = start_offset - java_remainder(start_offset, self.file_size)
        elif self.written == self.file_size:
            start = java_long(start + self.file_size)
        else:
            return start
        self.files[start] = bytearray(self.file_size)
        self.written = 0
        return start

    def append(self, data: bytes) -> None:
        file = self.files[next(reversed(self.files))]
        assert self.written + len(data) <= self.file_size
        file[self.written : self.written + len(data)] = data
        self.written += len(data)

    def named(self, directory: str) -> dict[str, bytes]:
        return {
            f"{directory}/{'-' if start < 0 else ''}{abs(start):020d}": bytes(data)
            for start, data in self.files.items()
        }


class ConsumeQueue:
    """``ConsumeQueue#putMessagePositionInfo`` and ``ConsumeQueueExt#put``."""

    def __init__(self, file_size: int, ext_file_size: int | None) -> None:
        self.files = MappedFiles(file_size)
        self.ext = None if ext_file_size is None else MappedFiles(ext_file_size)
        self.max_physical_offset = -1

    def put(self, offset: int, size: int, tags_code: int, queue_offset: int) -> None:
        if offset + size <= self.max_physical_offset:
            return
        files = self.files
        expected = java_long(queue_offset * 20)
        start = files.last_file(expected)
        if len(files.files) == 1 and queue_offset != 0 and files.written == 0:
            for _ in range(0, java_remainder(expected, files.file_size), 20):
                files.append(struct.pack(">qiq", 0, 0x7FFFFFFF, 0))
        if queue_offset != 0 and expected < java_long(start + files.written):
            return
        self.max_physical_offset = offset + size
        files.append(struct.pack(">qiq", offset, size, tags_code))

    def put_ext(self, tags_code: int, store_timestamp_ms: int) -> int:
        """Put an ext unit without a bit map; return its address."""
        assert self.ext is not None
        start = self.ext.last_file(0)
        if self.ext.file_size - self.ext.written - 4 < 20:
            self.ext.append(struct.pack(">h", -1))
            self.ext.written = self.ext.file_size
            start = self.ext.last_file(0)
        address = start + self.ext.written - (1 << 63)
        self.ext.append(struct.pack(">hqqh", 20, tags_code, store_timestamp_ms, 0))
        return address


class BatchConsumeQueue:
    """``BatchConsumeQueue#putBatchMessagePositionInfo`` (5.3.3)."""

    def __init__(self, file_size: int) -> None:
        self.files = MappedFiles(file_size)
        self.max_physical_offset = -1

    def put(
        self, offset: int, size: int, tags_code: int, store_timestamp_ms: int, base: int, batch_size: int
    ) -> None:
        if offset <= self.max_physical_offset:
            return
        self.files.last_file(0)
        unit = struct.pack(">qiqqqhii", offset, size, tags_code, store_timestamp_ms, base, batch_size, -1, 0)
        self.files.append(unit)
        self.max_physical_offset = offset
