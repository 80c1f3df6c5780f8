"""Ranges that no read delivered: bad sectors, and ends of objects taken for zeros by samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings import Finding, Structure, counted
from rmqtool.findings.codes import IO_DENIED, IO_UNREADABLE
from rmqtool.store.names import label_of
from rmqtool.store.segments import Segment, StoreFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.errors import DeniedError
    from rmqtool.io import Location
    from rmqtool.io.location import UnreadableRange
    from rmqtool.io.object_pieces import ZeroTail


def denied_finding(failure: DeniedError, base: Location) -> Finding:
    """Return the finding about a file or directory that this user may not read."""
    return Finding(code=IO_DENIED, file=label_of(base.elsewhere(failure.path), base), message=failure.reason)


def unreadable_findings(
    file: StoreFile, ranges: Iterable[UnreadableRange], structure: Structure
) -> Iterator[Finding]:
    """Yield a finding for each range read as zeros; those about the log carry the physical offset."""
    start = file.start if isinstance(file, Segment) and structure is Structure.COMMITLOG else None
    for bad in ranges:
        yield Finding(
            code=IO_UNREADABLE,
            file=file.label,
            position=bad.position,
            length=bad.length,
            physical_offset=None if start is None else start + bad.position,
            message=f"{file.label}: {bad.length} bytes at position {bad.position} cannot be read",
            structure_override=structure,
        )


_NAMED = 3
_CHUNK_BYTES = 8 << 20


def unfetched(base: Location) -> list[ZeroTail]:
    """Return the unfetched ends of files below a place, by name."""
    return [tail for tail in base.source.tails() if base.elsewhere(tail.path).is_relative_to(base)]


def tails_text(tails: Sequence[ZeroTail], base: Location) -> str:
    """Return the end of a sentence on what was not fetched."""
    size = f"{sum(tail.size_bytes for tail in tails):,} bytes"
    names = [tail.path.removeprefix(f"{base}/") for tail in tails[:_NAMED]]
    if len(tails) == 1:
        return f"tail of {names[0]} not fetched: {size} from {tails[0].start:,} on, zeros by samples"
    more = ", …" if len(tails) > _NAMED else ""
    files = counted(len(tails), "file", spec=",")
    return f"tails of {files} not fetched, {size}, zeros by samples: {', '.join(names)}{more}"


def is_zero(tail: ZeroTail, base: Location) -> bool:
    """Fetch the end of a file, and return whether all of it is zeros."""
    file, stop = base.elsewhere(tail.path).reader(), tail.start + tail.size_bytes
    for start in range(tail.start, stop, _CHUNK_BYTES):
        piece = file.read_at(start, min(_CHUNK_BYTES, stop - start))
        if piece.count(0) != len(piece):
            return False
    return True
