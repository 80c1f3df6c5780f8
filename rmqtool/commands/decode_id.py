"""``decode-id``: content of a message id, with every reading that it allows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, ClassVar

from rmqtool.javacompat import ClientId, decode_client_id, decode_offset_id, decode_unique_id, unique_id_times

if TYPE_CHECKING:
    from collections.abc import Iterator


_MONTHS = 12
_MONTH_MS = 31 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read an id.

    Attributes:
        id: The id as given.
        reading: ``offset-id``, ``unique-id`` or ``client-id``.
        plausible: Whether a broker or client writes such numbers.
        host: The broker's address, or the client's; a client id has none.
        port: Offset id: the broker's port.
        physical_offset: Offset id: place in the log, bytes.
        mac: Client id: the client's hardware address.
        process_id: Low 16 bits of the client's process id.
        loader_hash: Unique id: hash of the client's class loader.
        delta_ms: Unique id: since the start of the month in the client's zone.
        counter: Low 16 bits of the client's counter; of a client id 32.
        timestamp_ms: When it was made, if the month is known; of a client id to the second.
        candidates_ms: Other times at which it may have been made, newest first. Unique id: in one of the last
            twelve months; client id: by a client that counts as documented.
        doubt: Why the reading is not plausible; None if it is.
    """

    type: ClassVar = "id"
    id: str
    reading: str
    plausible: bool
    host: str | None = None
    port: int | None = None
    physical_offset: int | None = None
    mac: str | None = None
    process_id: int | None = None
    loader_hash: int | None = None
    delta_ms: int | None = None
    counter: int | None = None
    timestamp_ms: int | None = None
    candidates_ms: list[int] | None = None
    doubt: str | None = None


def decode_id(text: str, near_ms: int | None, zone: tzinfo, now_ms: int | None = None) -> list[Reading]:
    """Return the readings of an id, plausible ones first; none if it is not an id.

    Args:
        text: 32, 34 or 56 hexadecimal digits, in either case.
        near_ms: A time near the id's own; a unique id does not hold the month.
        zone: The client's zone, in which its month started.
        now_ms: The id is not from later; None leaves out the candidates.
    """
    client_id = decode_client_id(text)
    if client_id is not None:
        return [_client_reading(text, client_id, zone)]
    return sorted(_readings(text, near_ms, zone, now_ms), key=lambda reading: not reading.plausible)


def _client_reading(text: str, client_id: ClientId, zone: tzinfo) -> Reading:
    timestamp_ms, utc_ms = client_id.timestamp_ms(zone), client_id.timestamp_ms(UTC)
    return Reading(
        text,
        "client-id",
        True,
        mac=client_id.mac.hex(":").upper(),
        process_id=client_id.process_id,
        counter=client_id.sequence,
        timestamp_ms=timestamp_ms,
        candidates_ms=None if timestamp_ms == utc_ms else [utc_ms],
    )


def _readings(text: str, near_ms: int | None, zone: tzinfo, now_ms: int | None) -> Iterator[Reading]:
    offset_id = decode_offset_id(text)
    unique_id = decode_unique_id(text, near_ms, zone)
    if offset_id is None or unique_id is None:
        return
    yield Reading(
        text,
        "offset-id",
        offset_id.doubt is None,
        offset_id.host,
        port=offset_id.port,
        physical_offset=offset_id.physical_offset,
        doubt=offset_id.doubt,
    )
    beyond = unique_id.delta_ms >= _MONTH_MS
    candidates = None
    if near_ms is None and now_ms is not None and not beyond:
        candidates = unique_id_times(unique_id.delta_ms, now_ms, zone, _MONTHS)
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
        candidates_ms=candidates,
        doubt="later than the end of any month" if beyond else None,
    )
