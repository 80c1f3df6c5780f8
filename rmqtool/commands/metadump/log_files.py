"""Files of the log: records become records, what closes a file stays, and all else becomes noise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rmqtool.commands.metadump.records import (
    Frame,
    Records,
    frame_of,
    may_be_framed,
)
from rmqtool.commands.metadump.sparse import write_sparse
from rmqtool.dispatch.index_keys import item_keys
from rmqtool.formats.message import (
    BLANK_MAGIC,
    HEAD_OFFSETS,
    HEAD_SIZES,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_STARTS,
    TOPIC_LENGTHS,
)
from rmqtool.javacompat import decode_utf8, index_key_hash, parse_properties, tags_hash

if TYPE_CHECKING:
    from rmqtool.commands.metadump.disguise import Disguise
    from rmqtool.commands.metadump.fitting import HashTable
    from rmqtool.io.reading import ReadOnlyFile
    from rmqtool.store.staged_file import StagedFile

_WINDOW = 1 << 20
_IPV4_BYTES = 4
_LARGEST_RECORD = 256 << 20
"""What is longer counts as no record, so that memory is bounded whatever a length says."""

_MAGICS = re.compile(
    b"|".join(re.escape((one & 0xFFFFFFFF).to_bytes(4, "big")) for one in (MAGIC_V1, MAGIC_V2, BLANK_MAGIC))
)


class LogFile:
    """Makes one file of the log anew.

    Args:
        source: The file.
        target: Receives it, at its full size already.
        label: Its name in the store.
        start: Physical offset of its first byte; None for a file that is none of the log's.
        disguise: Replaces names.
        tags: Receives the tag hash of every record.
        keys: Receives the key hashes.
    """

    def __init__(
        self,
        source: ReadOnlyFile,
        target: StagedFile,
        label: str,
        start: int | None,
        disguise: Disguise,
        tags: HashTable,
        keys: HashTable,
    ) -> None:
        self._source, self._target, self._label, self._start = source, target, label, start
        self._disguise, self._tags, self._keys = disguise, tags, keys
        self._records = Records(disguise)
        self._size = source.size_bytes()
        self._window, self._window_at = b"", 0

    def run(self) -> None:
        """Go through the file."""
        position = 0
        while position < self._size:
            data = self._head(position)
            if not any(data):
                position = self._after_zeros(position)
                continue
            frame = self._frame(position)
            if frame is not None:
                self._put_record(position, frame)
                position += frame.size
            elif RECORD_STARTS.padded(data).magic == BLANK_MAGIC:
                write_sparse(self._target, position, data[: RECORD_STARTS.size])
                position += RECORD_STARTS.size
                position = self._put_noise(position, self._next_frame(position))
            else:
                position = self._put_wreck(position)

    def _read(self, position: int, length: int) -> bytes:
        """Return bytes of the file, through a window."""
        at = position - self._window_at
        if not 0 <= at <= at + length <= len(self._window):
            self._window = self._source.read_at(position, max(length, _WINDOW), [])
            self._window_at, at = position, 0
        return self._window[at : at + length]

    def _head(self, position: int) -> bytes:
        return self._read(position, min(RECORD_STARTS.size, self._size - position))

    def _frame(self, position: int) -> Frame | None:
        room = self._size - position
        start = RECORD_STARTS.decode(self._head(position))
        if start is None or start.magic not in TOPIC_LENGTHS:
            return None
        if not HEAD_SIZES[0] <= start.total_size <= min(room, _LARGEST_RECORD):
            return None
        if not may_be_framed(self._read(position, min(room, max(HEAD_SIZES))), start.total_size):
            return None
        return frame_of(self._read(position, start.total_size))

    def _after_zeros(self, position: int) -> int:
        """Return where the next byte lies that is not zero, or an eight-byte step before that."""
        while position < self._size:
            position = max(self._source.next_data(position), position)
            data = self._read(position, min(_WINDOW, self._size - position))
            rest = data.lstrip(b"\0")
            position += len(data) - len(rest)
            if rest:
                return position
        return self._size

    def _next_frame(self, position: int) -> int:
        """Return where the next record or BLANK begins; the file's end if there is none."""
        while position < self._size:
            data = self._read(position, min(_WINDOW, self._size - position))
            for match in _MAGICS.finditer(data):
                found = position + match.start() - 4
                if found >= position and self._is_frame(found):
                    return found
            position = max(position + len(data) - 7, self._after_zeros(position + len(data) - 7) - 7)
            if position >= self._size - 8:
                return self._size
        return self._size

    def _is_frame(self, position: int) -> bool:
        start = RECORD_STARTS.padded(self._head(position))
        if start.magic == BLANK_MAGIC:
            return start.total_size == self._size - position
        return self._frame(position) is not None

    def _put_record(self, position: int, frame: Frame) -> None:
        raw = self._read(position, frame.size)
        new = self._records.record(raw, frame, self._label, position)
        write_sparse(self._target, position, new)
        if self._start is not None:
            self._note(self._start + position, raw, new, frame)

    def _note(self, physical_offset: int, raw: bytes, new: bytes, frame: Frame) -> None:
        """Note the hashes that queues and index have of a record, and the ones it now calls for."""
        topics = [decode_utf8(one[slice(*frame.topic)]) for one in (raw, new)]
        properties = [parse_properties(one[slice(*frame.properties)]) for one in (raw, new)]
        tags = [tags_hash(one.get("TAGS", "")) for one in properties]
        if tags[0]:
            self._tags.add(physical_offset, *tags)
        pairs = zip(*map(item_keys, properties), strict=False)
        for old, made in pairs:
            hashes = index_key_hash(topics[0], old), index_key_hash(topics[1], made)
            self._keys.add(physical_offset, *hashes)

    def _put_noise(self, position: int, stop: int) -> int:
        while position < stop:
            data = self._read(position, min(_WINDOW, stop - position))
            if any(data):
                write_sparse(self._target, position, self._disguise.noise(data, self._label, position))
            position += len(data)
        return stop

    def _put_wreck(self, position: int) -> int:
        """Put what should be a record and is none: its numbers stay as far as they can be told.

        Returns:
            Where the next record begins.
        """
        stop = self._next_frame(position + 4)
        head = self._head(position)
        size, magic = RECORD_STARTS.padded(head)
        known = b""
        if magic in TOPIC_LENGTHS:
            known = self._wreck(position, min(stop, position + _LARGEST_RECORD))
        elif 0 < size <= self._size:
            known = head[:4]
        write_sparse(self._target, position, known)
        return self._put_noise(position + len(known), stop)

    def _wreck(self, position: int, stop: int) -> bytes:
        """Return the part of a broken record that can be told apart, from its first byte on."""
        raw = self._read(position, stop - position)
        frame = frame_of(raw, strict=False)
        if frame is None:
            found = bytearray(raw[: HEAD_SIZES[0]])
            for at in (HEAD_OFFSETS[0]["bornHost"], HEAD_OFFSETS[0]["storeHost"]):
                address = slice(at, at + _IPV4_BYTES)
                if len(raw) >= address.stop:
                    found[address] = self._disguise.host(raw[address])
            return bytes(found)
        raw = raw[: frame.properties[1]]
        return self._records.record(raw, frame, self._label, position)
