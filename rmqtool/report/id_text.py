"""Text of the readings of message ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from rmqtool.commands.decode_id import Reading


_CANDIDATES = 3
"""Months that text shows; ids under examination are rarely old."""


def reading_lines(readings: Sequence[Reading], zone: tzinfo | None) -> Iterator[str]:
    """Yield lines for the plausible readings of one id, for all of them when none is."""
    shown = [reading for reading in readings if reading.plausible] or list(readings)
    for reading in shown:
        doubt = f" (doubtful: {reading.doubt})" if reading.doubt else ""
        other = " (or the other reading)" if len(shown) > 1 and not doubt else ""
        yield f"{reading.id} {reading.reading}{other}{doubt}\n"
        for name, value in _facts(reading, zone):
            yield f"  {name:<15} {value}\n"


def _facts(reading: Reading, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    if reading.reading == "offset-id":
        host = f"[{reading.host}]" if ":" in str(reading.host) else reading.host
        yield "broker", f"{host}:{reading.port}"
        yield "physical offset", str(reading.physical_offset)
        return
    yield "client", str(reading.host or reading.mac)
    yield "process id", f"{reading.process_id} (low 16 bits)"
    if reading.loader_hash is not None:
        yield "class loader", f"{reading.loader_hash:08x}"
    yield "counter", f"{reading.counter} (low {16 if reading.mac is None else 32} bits)"
    candidates = [time_text(one, zone) for one in reading.candidates_ms or ()]
    if reading.timestamp_ms is not None:
        yield "made", time_text(reading.timestamp_ms, zone)
        for text in candidates:
            yield "or", f"{text}, if the client counts from 2021 in UTC, as documented"
    elif reading.doubt is None and reading.delta_ms is not None:
        yield "made", f"{_in_month(reading.delta_ms)} of a month (--near TIME decides)"
        for text in candidates[:_CANDIDATES]:
            yield "perhaps", text


def _in_month(delta_ms: int) -> str:
    seconds, milliseconds = divmod(delta_ms, 1000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"day {days + 1}, {hour:02d}:{minute:02d}:{second:02d}.{milliseconds:03d},"
