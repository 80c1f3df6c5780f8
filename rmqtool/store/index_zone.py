"""The time zone in which a broker named its index files, inferred from names and contents."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING

from rmqtool.errors import DeniedError, UsageError
from rmqtool.formats.index import HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.store.segments import StoreFile

_QUARTER_HOUR_MS = 900_000
_TOLERANCE_MS = 20_000
"""A file is created when its first message is dispatched, moments after the message's store time."""
_WESTMOST, _EASTMOST = -12 * 4, 14 * 4  # quarter hours
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIXED_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def infer_index_zone(files: Iterable[StoreFile]) -> timezone | None:
    """Return the offset on which the files agree, or None.

    A name is the wall clock at creation. Its distance from the header's begin time is the zone's offset, a
    whole number of quarter hours, and a small delay. Files of a rebuilt index were made long after their
    messages, so their distances fit no zone and do not count. Where files disagree by summer time, the newest
    counts.
    """
    offsets = [offset for offset in map(_offset_of, files) if offset is not None]
    if not offsets or max(offsets) - min(offsets) > timedelta(hours=1):
        return None
    return timezone(offsets[-1])


def zone_of_name(text: str) -> tzinfo:
    """Return the zone of an IANA name, ``UTC``, or an offset such as ``+08:00``; may raise `UsageError`."""
    match = _FIXED_OFFSET.fullmatch(text.strip())
    if match is not None:
        sign = -1 if match[1] == "-" else 1
        offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if offset < timedelta(hours=19):
            return timezone(sign * offset)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # large, and rarely needed

    try:
        return ZoneInfo(text.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError) as failure:
        hint = "give a name such as Asia/Shanghai or an offset such as +08:00"
        raise UsageError(f"no time zone is called {text!r}; {hint}") from failure


def local_zone() -> tzinfo:
    """Return this machine's zone with all its changes of offset, not only today's."""
    return _LocalZone()


class _LocalZone(tzinfo):
    """The C library's zone: ``localtime`` of any moment."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return self._of(moment).utcoffset() or timedelta(0)

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return self._of(moment).tzname()

    def fromutc(self, moment: datetime) -> datetime:
        local = moment.replace(tzinfo=UTC).astimezone()
        return local.replace(tzinfo=self)

    def _of(self, moment: datetime | None) -> datetime:
        naive = datetime.now(UTC).replace(tzinfo=None) if moment is None else moment.replace(tzinfo=None)
        return naive.astimezone()


def _offset_of(file: StoreFile) -> timedelta | None:
    try:
        header = HEADERS.decode(file.read_at(0, HEADERS.size, []))
    except DeniedError:
        return None
    named_ms = _wall_clock_ms(file.path.name)
    if header is None or named_ms is None or header.begin_timestamp_ms <= 0 or header.index_count <= 1:
        return None
    quarters, rest = divmod(named_ms - header.begin_timestamp_ms + _TOLERANCE_MS, _QUARTER_HOUR_MS)
    if rest > 2 * _TOLERANCE_MS or not _WESTMOST <= quarters <= _EASTMOST:
        return None
    return timedelta(minutes=15 * quarters)


def _wall_clock_ms(name: str) -> int | None:
    """Read ``yyyyMMddHHmmssSSS`` as milliseconds, as if it were UTC; None if it is not a valid time."""
    try:
        moment = datetime.fromisoformat(f"{name[:8]}T{name[8:14]}").replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1) + int(name[14:])
    except ValueError:
        return None
