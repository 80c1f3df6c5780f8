"""Stores of many tiny files for tests of a start: a log, its queues as a broker has them, a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool.formats import struct_of
from rmqtool.formats.checkpoint import CHECKPOINT, CHECKPOINT_FILE_SIZE
from rmqtool.formats.consumequeue import UNIT
from rmqtool.store import open_store
from tests.builders import LogBuilder
from tests.scan.log_builder import STORE_TIMESTAMP_MS, record

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.store import Store

RECORD_BYTES = len(record(0))
MESSAGES_A_FILE = 2
FILE_BYTES = MESSAGES_A_FILE * RECORD_BYTES + 30
QUEUE_FILE_BYTES = 20 * 8
_SIZES: dict[str, Any] = {
    "mappedFileSizeCommitLog": FILE_BYTES,
    "mappedFileSizeConsumeQueue": QUEUE_FILE_BYTES,
    "maxHashSlotNum": 50,
    "maxIndexNum": 40,
}


class TinyLog:
    """A store whose log has two messages a file, one a second, all in queue 0 of one topic.

    Args:
        root: an empty directory, or one that is not there.
        files: how many files the log has.
    """

    def __init__(self, root: Path, files: int) -> None:
        self.root = root
        log = LogBuilder(FILE_BYTES)
        self.offsets = [
            log.add(queueOffset=number, storeTimestamp=self.time_ms(number))
            for number in range(files * MESSAGES_A_FILE)
        ]
        self.end = log.place
        for start, data in log.files().items():
            self._write(f"commitlog/{start:020d}", data)
        self.starts = sorted(log.files())

    @staticmethod
    def time_ms(number: int) -> int:
        """Return the store time of a message by its number."""
        return STORE_TIMESTAMP_MS + 1000 * number

    def queue(self, messages: int | None = None) -> TinyLog:
        """Write the queue with the units of the first messages, of all by default."""
        offsets = self.offsets[:messages]
        units = b"".join(struct_of(UNIT).pack(offset, RECORD_BYTES, 0) for offset in offsets)
        for at in range(0, max(len(units), 1), QUEUE_FILE_BYTES):
            self.queue_file(at, units[at : at + QUEUE_FILE_BYTES])
        return self

    def queue_file(self, start: int, units: bytes) -> TinyLog:
        """Write one file of the queue."""
        self._write(f"consumequeue/TopicTest/0/{start:020d}", units.ljust(QUEUE_FILE_BYTES, b"\0"))
        return self

    def blank_at(self, file: int) -> int:
        """Return where the BLANK of a file begins, by the file's number."""
        return file * FILE_BYTES + MESSAGES_A_FILE * RECORD_BYTES

    def checkpoint(
        self, *, physic: int = 0, logics: int = 0, index: int = 0, logics_offset: int = 0
    ) -> TinyLog:
        """Write the checkpoint, times in ms."""
        fields = struct_of(CHECKPOINT).pack(physic, logics, index, 0, 0, logics_offset)
        self._write("checkpoint", fields.ljust(CHECKPOINT_FILE_SIZE, b"\0"))
        return self

    def crash(self) -> TinyLog:
        """Leave ``abort`` after."""
        (self.root / "abort").touch()
        return self

    def preallocate(self) -> TinyLog:
        """Add the next file, of zeros."""
        self._write(f"commitlog/{self.starts[-1] + FILE_BYTES:020d}", bytes(FILE_BYTES))
        return self

    def overwrite(self, offset: int, data: bytes) -> TinyLog:
        """Write bytes at an offset of the log."""
        path = self.root / f"commitlog/{offset // FILE_BYTES * FILE_BYTES:020d}"
        content = bytearray(path.read_bytes())
        content[offset % FILE_BYTES : offset % FILE_BYTES + len(data)] = data
        path.write_bytes(content)
        return self

    def open(self, **given: Any) -> Store:  # noqa: ANN401 - any setting
        """Open the store, with settings of its broker."""
        return open_store(self.root, properties=self.settings(**given))

    @staticmethod
    def settings(**given: Any) -> list[str]:  # noqa: ANN401 - any setting
        """Return the lines of its broker's properties file."""
        return [f"{name}={value}" for name, value in (_SIZES | given).items()]

    def _write(self, label: str, data: bytes) -> None:
        path = self.root / label
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
