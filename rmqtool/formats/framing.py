"""Framing of a log's files: where a record begins in its frame, and what ends a file.

Frames follow each other without a byte between. A frame is ``lead`` bytes of any content, then the record,
whose PHYSICALOFFSET is its own place, not the frame's. A file that is full ends with a mark in place of a
frame: its magic, and the bytes from the mark to the file's end, which it fills.
"""

from __future__ import annotations

from typing import NamedTuple

from rmqtool.formats.entry import ENTRIES, ENTRY_END_MAGIC
from rmqtool.formats.message import BLANK_MAGIC, END_FILE_MIN_BLANK_LENGTH, PLACED_STARTS, RECORD_STARTS


class FrameHead(NamedTuple):
    """Beginning of a frame, or of what stands in its place.

    Attributes:
        total_size: TOTALSIZE of its record; of an end mark, the bytes that it states.
        magic: MAGICCODE of its record; of an end mark, that of the mark.
        physical_offset: PHYSICALOFFSET of its record; of no meaning in an end mark.
        is_end: whether it is an end mark, be the bytes that it states right or wrong.
    """

    total_size: int
    magic: int
    physical_offset: int
    is_end: bool


class Framing(NamedTuple):
    """Framing of the records of one file.

    Attributes:
        lead: bytes of a frame before its record.
        end_magic: magic of the mark that ends a file.
        end_magic_at: position of that magic in the mark, 0 or 4; the bytes left are at the other one.
    """

    lead: int = 0
    end_magic: int = BLANK_MAGIC
    end_magic_at: int = 4

    @property
    def end_size_at(self) -> int:
        """Position in an end mark of the bytes to the file's end."""
        return 4 - self.end_magic_at

    @property
    def head_size(self) -> int:
        """Bytes that ``head`` reads."""
        return self.lead + PLACED_STARTS.size

    @property
    def most_zeros(self) -> int:
        """Zeros at most that a frame begins with: a lead can be, and all of TOTALSIZE but one byte."""
        return self.lead + 3

    def record_at(self, frame: int) -> int:
        """Return where the record of a frame begins, by where the frame does."""
        return frame + self.lead

    def frame_stop(self, frame: int, total_size: int) -> int:
        """Return where a frame ends, by where it begins."""
        return self.record_at(frame) + total_size

    def end_size(self, data: bytes) -> int | None:
        """Return the bytes to the file's end that an end mark states; None if the bytes are none."""
        numbers = RECORD_STARTS.decode(data)
        if numbers is None or numbers[self.end_magic_at // 4] != self.end_magic:
            return None
        return int(numbers[self.end_size_at // 4])

    def head(self, data: bytes) -> FrameHead:
        """Return the beginning of a frame, zeros past the end of the bytes."""
        end = self.end_size(data)
        start = PLACED_STARTS.padded(data[self.lead : self.head_size])
        if end is None:
            return FrameHead(start.total_size, start.magic, start.physical_offset, False)
        return FrameHead(end, self.end_magic, start.physical_offset, True)

    def end_mark(self, size: int) -> bytes:
        """Return the mark that ends a file after ``size`` more bytes, its own among them; zeros follow."""
        numbers = (size, self.end_magic) if self.end_magic_at else (self.end_magic, size)
        return RECORD_STARTS.encode(numbers)


PLAIN = Framing()
"""Framing of ``commitlog/``: nothing lies between records, and a BLANK ends a file."""

DLEDGER = Framing(lead=ENTRIES.size, end_magic=ENTRY_END_MAGIC, end_magic_at=0)
"""Framing of ``dledger-ID/data/``: each record is the body of an entry."""

END_MARK_BYTES = END_FILE_MIN_BLANK_LENGTH
"""Bytes of an end mark, which every full file has room for."""
