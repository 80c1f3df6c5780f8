"""Moments and sizes for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import tzinfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEPS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def time_text(timestamp_ms: int, zone: tzinfo | None) -> str:
    """Return a time as ``yyyy-MM-dd HH:mm:ss.SSS+hh:mm``; a number that is no date here stays a number.

    UTC is ``Z``; `rmqtool.times` reads what this writes.

    Args:
        timestamp_ms: Since the epoch.
        zone: Zone to print in; None is this machine's.
    """
    try:
        moment = (_EPOCH + timedelta(milliseconds=timestamp_ms)).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(" ", "milliseconds").replace("+00:00", "Z")


def size_text(size_bytes: float) -> str:
    """Return a number of bytes with a unit, three digits or so."""
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    value = float(size_bytes)
    for step in _STEPS:
        value /= 1024
        if value < 1024 or step == _STEPS[-1]:
            return f"{value:.1f} {step}"
    raise AssertionError("the last step returns")
