"""Names of index files that are made from a log: the broker's own come from its clock at the time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rmqtool.javacompat import index_file_name

if TYPE_CHECKING:
    from datetime import tzinfo

_DIGITS = "%Y%m%d%H%M%S%f"
_LENGTH = 17


class IndexNames:
    """Strictly ascending names ``yyyyMMddHHmmssSSS``.

    A name is the time given, in the zone given; on ties, and where a clock was set back (or summer time
    ended), one millisecond after the name before: names are all that orders the files.

    Args:
        zone: of the broker.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._last = ""

    def next(self, timestamp_ms: int) -> str:
        """Return the name of a file that a message stored at ``timestamp_ms`` made the broker create."""
        name = index_file_name(timestamp_ms, self._zone)
        if len(name) != _LENGTH:  # a year after 9999: no such name sorts
            name = self._last or "0" * _LENGTH
        if name <= self._last:
            name = _following(self._last)
        self._last = name
        return name


def _following(name: str) -> str:
    """Return the name one millisecond after, or simply the next number where a name is no time."""
    try:
        moment = datetime.strptime(name + "000", _DIGITS) + timedelta(milliseconds=1)  # noqa: DTZ007 - no zone
    except (ValueError, OverflowError):
        return f"{int(name) + 1:0{_LENGTH}d}"
    return f"{moment.year:04d}{moment:%m%d%H%M%S%f}"[:_LENGTH]
