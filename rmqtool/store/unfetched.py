"""Ends of files in object storage that samples showed as zeros, and their wording in reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.io import Location
    from rmqtool.io.zero_tails import ZeroTail

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
