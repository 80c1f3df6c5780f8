"""Names that Java makes of a moment: index files are called after the wall clock of their creation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import tzinfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE_YEARS = 400
_CYCLE_MS = 146_097 * 86_400_000  # the Gregorian calendar repeats after this


def index_file_name(timestamp_ms: int, zone: tzinfo) -> str:
    """Return ``yyyyMMddHHmmssSSS`` of a moment in a zone.

    Java: ``UtilAll#timeMillisToHumanString`` (4.9.8, 5.3.3).
    Any 64-bit number gives a name of digits, as it does in Java: the year takes more than four digits after
    9999 (such a name no longer sorts by time). Before 1582 Java counts in the Julian calendar, which is not
    followed.
    """
    cycles = timestamp_ms // _CYCLE_MS
    moment = (_EPOCH + timedelta(milliseconds=timestamp_ms - cycles * _CYCLE_MS)).astimezone(zone)
    year = moment.year + cycles * _CYCLE_YEARS
    if year < 1:
        year = 1 - year  # Calendar.YEAR counts within its era; there is no year 0
    return f"{year:04d}{moment:%m%d%H%M%S}{moment.microsecond // 1000:03d}"
