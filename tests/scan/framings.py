"""A second framing, as DLedger has it: 48 bytes before each record, and a mark that begins with its magic."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.formats.framing import END_MARK_BYTES, Framing
from rmqtool.formats.message import HEAD_OFFSETS
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import BlankRecord, ChainWalk
from rmqtool.scan.records import Record
from tests.builders import memory_segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.store.segments import Segment
    from tests.builders import MemorySegment

LED = Framing(lead=48, end_magic=-1, end_magic_at=0)

_ENTRY = struct.Struct(">iiqqqiiii")  # magic, size, index, term, position, channel, checksums, body length
_PLACE = slice(HEAD_OFFSETS[0]["physicalOffset"], HEAD_OFFSETS[0]["physicalOffset"] + 8)


def entry(place: int, index: int, raw: bytes, *, own: bool = True) -> bytes:
    """Return a record in its frame, which begins at ``place``; it names its own place if it is ``own``."""
    record = bytearray(raw)
    if own:
        record[_PLACE] = (place + LED.lead).to_bytes(8, "big")
    return _ENTRY.pack(1, LED.lead + len(raw), index, 0, place, 0, 0, 0, len(raw)) + record


def framed_segment(data: bytes, start: int = 0) -> MemorySegment:
    return replace(memory_segment(data, start), framing=LED)


def framed_log(segments: Sequence[Segment]) -> list[MemorySegment]:
    """Return the files of a plain log, damage included, with each record in a frame of its own."""
    edge, start, index = FoundEdge(segments), segments[0].start, 0
    done: list[MemorySegment] = []
    for number, segment in enumerate(segments):
        data = b""
        for piece in _pieces(number, edge):
            if isinstance(piece, Record):
                own = piece.head.physical_offset == piece.physical_offset
                data += entry(start + len(data), index, piece.raw, own=own)
                index += 1
            elif isinstance(piece, BlankRecord):
                rest = segment.read_at(
                    piece.physical_offset - segment.start + END_MARK_BYTES, segment.size_bytes, []
                )
                data += LED.end_mark(piece.total_size) + rest
            else:
                data += piece
        done.append(framed_segment(data, start))
        start += len(data)
    return done


def _pieces(number: int, edge: FoundEdge) -> Iterator[Record | BlankRecord | bytes]:
    """Yield records, the end mark that ends the file, and the bytes between them."""
    segment = edge.segments[number]
    at = segment.start
    for event in ChainWalk(number, edge).run(0, None):
        if isinstance(event, Record | BlankRecord):
            if event.physical_offset > at:
                yield segment.read_at(at - segment.start, event.physical_offset - at, [])
            yield event
            at = event.frame_stop if isinstance(event, Record) else segment.stop
    yield segment.read_at(at - segment.start, segment.stop - at, [])
