"""Stores with a log of DLedger, written entry by entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool.formats.entry import ENTRIES, ENTRY_MAGIC
from rmqtool.formats.framing import DLEDGER, END_MARK_BYTES
from tests.scan.log_builder import record

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class LedgerBuilder:
    """A log of entries, with end marks (``DLedgerMmapFileStore#appendAsLeader``, ``MmapFileList#preAppend``).

    Attributes:
        file_size: bytes of each file.
        start: physical offset of the first byte.
        first: index of the first entry.
        data: what was written.
        entries: positions in the data of all entries.
    """

    file_size: int
    start: int = 0
    first: int = 0
    data: bytearray = field(default_factory=bytearray)
    entries: list[int] = field(default_factory=list)

    def add(self, *, term: int = 0, raw: bytes | None = None, **fields: Any) -> int:  # noqa: ANN401 - any field
        """Append a record in an entry, in the next file if it does not fit; return its physical offset."""
        size = ENTRIES.size + len(record(0, **fields) if raw is None else raw)
        room = self.file_size - len(self.data) % self.file_size
        if size + END_MARK_BYTES > room:
            self.data += DLEDGER.end_mark(room).ljust(room, b"\0")
        at, place = len(self.data), self.start + len(self.data) + ENTRIES.size
        body = record(place, **{"physicalOffset": place} | fields) if raw is None else raw
        index = self.first + len(self.entries)
        self.data += ENTRIES.encode(
            (ENTRY_MAGIC, size, index, term, place - ENTRIES.size, 0, 0, 0, len(body))
        )
        self.data += body
        self.entries.append(at)
        return place

    @property
    def place(self) -> int:
        """Return the physical offset of a record that comes next and fits."""
        return self.start + len(self.data) + ENTRIES.size

    def write(self, root: Path, committed: int | None = None) -> Path:
        """Write the files of a member; ``committed`` is the last entry by default. Return its data/."""
        member = root / "dledger-n0"
        (member / "data").mkdir(parents=True)
        data = bytes(self.data) + bytes(-len(self.data) % self.file_size)
        for at in range(0, len(data), self.file_size):
            (member / "data" / f"{self.start + at:020d}").write_bytes(data[at : at + self.file_size])
        last = self.first + len(self.entries) - 1 if committed is None else committed
        (member / "checkpoint").write_text(f"committedIndex={last}\nendIndex={last}\n")
        (member / "currterm").write_text("voteLeader=n0\ncurrTerm=3\n")
        return member / "data"
