"""``decode-id``: what a message id says by itself, with every reading that it allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rmqtool.javacompat.ids import decode_offset_id, decode_unique_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

_LARGEST_PORT = 0xFFFF
_LARGEST_OFFSET = 1 << 53
"""Eight PiB of log: an offset beyond it is part of a unique id."""
_MONTH_MS = 31 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read an id.

    Attributes:
        id: The id as given.
        reading: ``offset-id`` or ``unique-id``.
        plausible: Whether the numbers are such as a broker or client writes.
        host: The broker's address, or the client's.
        port: Offset id: the broker's port.
        physical_offset: Offset id: place in the log, bytes.
        process_id: Unique id: low 16 bits of the client's process id.
        loader_hash: Unique id: hash of the client's class loader.
        delta_ms: Unique id: since the start of the month in the client's zone.
        counter: Unique id: low 16 bits of the client's counter.
        timestamp_ms: Unique id: when it was made, if the month is known.
        doubt: Why the reading is not plausible; None if it is.
    """

    type: ClassVar = "id"
    id: str
    reading: str
    plausible: bool
    host: str
    port: int | None = None
    physical_offset: int | None = None
    process_id: int | None = None
    loader_hash: int | None = None
    delta_ms: int | None = None
    counter: int | None = None
    timestamp_ms: int | None = None
    doubt: str | None = None


def decode_id(text: str, near_ms: int | None, zone: tzinfo) -> list[Reading]:
    """Return the readings of an id, plausible ones first; none if it is no id.

    Args:
        text: 32 or 56 hexadecimal digits, in either case.
        near_ms: A time near the id's own; a unique id does not hold the month.
        zone: The client's zone, in which its month started.
    """
    return sorted(_readings(text, near_ms, zone), key=lambda reading: not reading.plausible)


def _readings(text: str, near_ms: int | None, zone: tzinfo) -> Iterator[Reading]:
    offset_id = decode_offset_id(text)
    unique_id = decode_unique_id(text, near_ms, zone)
    if offset_id is None or unique_id is None:
        return
    doubt = _offset_doubt(offset_id.port, offset_id.physical_offset)
    yield Reading(
        text,
        "offset-id",
        doubt is None,
        offset_id.host,
        port=offset_id.port,
        physical_offset=offset_id.physical_offset,
        doubt=doubt,
    )
    beyond = unique_id.delta_ms >= _MONTH_MS
    yield Reading(
        text,
        "unique-id",
        not beyond,
        unique_id.host,
        process_id=unique_id.process_id,
        loader_hash=unique_id.loader_hash,
        delta_ms=unique_id.delta_ms,
        counter=unique_id.counter,
        timestamp_ms=None if beyond else unique_id.timestamp_ms,
        doubt="later than the end of any month" if beyond else None,
    )


def _offset_doubt(port: int, physical_offset: int) -> str | None:
    if not 0 < port <= _LARGEST_PORT:
        return "no port has that number"
    if not 0 <= physical_offset < _LARGEST_OFFSET:
        return "no log is that long"
    return None
