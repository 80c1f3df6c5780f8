"""Times as users write them, on the command line and to the library, and as they are printed."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, tzinfo
from datetime import time as time_of_day

from rmqtool.errors import UsageError

EARLIEST_MS, LATEST_MS = -(1 << 63), (1 << 63) - 1
"""Bounds of a time that a record can store."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# compiled by `re` at their first use: most commands are given no time
_MQADMIN = r"^([0-9-]{10})#([0-9]{2}:[0-9]{2}:[0-9]{2}):([0-9]{3})$"
_ISO_START = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T #]|$)"
_EPOCH_MS = r"-?[0-9]{1,19}"
_USUAL_DIGITS = 12  # of epoch ms since 1973
_SINCE_NOW = r"(?:now)?(?P<sign>[+-])(?P<spans>(?:[0-9]{1,9}(?:ms|[smhdw]))+)"
_SPAN = r"([0-9]+)(ms|[smhdw])"
_SPAN_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_CLOCK = r"(?:(?P<day>today|yesterday)(?: |$))?(?P<clock>[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{3})?)?)?"
_ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2}(?::?[0-9]{2})?)$"

TIME_FORMS = (
    "epoch ms, 2022-04-15, 2022-04-15T13:20:00, with or without a zone as in 2022-04-15T13:20:00+08:00,"
    " 2022-04-15#13:20:00:000, 13:20 of today, today, yesterday, yesterday 13:20, now, -2h, now-1h30m"
    " (ms, s, m, h, d, w)"
)
"""The forms that `parse_time` reads."""


def epoch_ms(moment: int | str | datetime, zone: tzinfo | None) -> int:
    """Return a time in epoch milliseconds.

    Args:
        moment: Epoch ms, a ``datetime``, or a text as of `parse_time`.
        zone: Of times that name none; None is this machine's.

    Raises:
        UsageError: It is none of these.
    """
    if isinstance(moment, datetime):
        return _since_epoch(_placed(moment, zone))
    if isinstance(moment, str):
        return parse_time(moment, zone)
    return moment


def parse_time(text: str, zone: tzinfo | None, now_ms: int | None = None) -> int:
    """Return a time in epoch milliseconds.

    Args:
        text: One of `TIME_FORMS`. A day alone is its first moment; a clock alone is of today, even if that is
            still to come.
        zone: Of times that name none, and of days; None is this machine's.
        now_ms: The present; None: that of the clock.

    Raises:
        UsageError: It is none of these.
    """
    now_ms = present_ms() if now_ms is None else now_ms
    if text == "now":
        return now_ms
    if re.fullmatch(_EPOCH_MS, text):
        return int(text)
    since = re.fullmatch(_SINCE_NOW, text)
    if since is not None:
        span_ms = sum(int(count) * _SPAN_MS[unit] for count, unit in re.findall(_SPAN, since["spans"]))
        return now_ms + (-span_ms if since["sign"] == "-" else span_ms)
    moment = _of_day(text, zone, now_ms) or _moment(re.sub(_MQADMIN, r"\1T\2.\3", text), zone)
    if moment is None:
        raise UsageError(f"{text!r} is not a time; pass {TIME_FORMS}")
    return _since_epoch(moment)


def present_ms() -> int:
    """Return the present time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def is_explicit(text: str) -> bool:
    """Whether a time means one moment, whenever and wherever it is read.

    A short number does not: epoch seconds, or a number without its unit, would mean 1970.
    """
    if re.fullmatch(_EPOCH_MS, text):
        return len(text) >= _USUAL_DIGITS
    return bool(re.match(_ISO_START, text) and re.search(_ZONE, text[10:]))


def _of_day(text: str, zone: tzinfo | None, now_ms: int) -> datetime | None:
    """Return the moment of ``today``, ``yesterday``, a clock, or both; None for anything else."""
    match = re.fullmatch(_CLOCK, text)
    if match is None or not text or text.endswith(" "):
        return None
    day = (_EPOCH + timedelta(milliseconds=now_ms)).astimezone(zone).date()
    if match["day"] == "yesterday":
        day -= timedelta(days=1)
    try:
        hour, *rest = (match["clock"] or "00:00").split(":")
        clock = time_of_day.fromisoformat(":".join([hour.zfill(2), *rest]))
    except ValueError:
        return None
    return _placed(datetime.combine(day, clock), zone)


def _moment(text: str, zone: tzinfo | None) -> datetime | None:
    if not re.match(_ISO_START, text):  # Python also reads long rows of digits as a time
        return None
    try:
        return _placed(datetime.fromisoformat(text), zone)
    except (ValueError, OverflowError):
        return None


def _placed(moment: datetime, zone: tzinfo | None) -> datetime:
    if moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=zone) if zone is not None else moment.astimezone()


def _since_epoch(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def time_text(timestamp_ms: int, zone: tzinfo | None = UTC) -> str:
    """Return a time as ``yyyy-MM-dd HH:mm:ss.SSS+hh:mm``; a number out of range stays a number.

    `parse_time` reads what this writes. ``zone`` None is this machine's; UTC is printed as ``Z``.
    """
    try:
        moment = (_EPOCH + timedelta(milliseconds=timestamp_ms)).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(" ", "milliseconds").replace("+00:00", "Z")


def second_text(timestamp_ms: int) -> str:
    """Return a time that is known to a second, as the index has it."""
    return time_text(timestamp_ms // 1000 * 1000).replace(".000", "")


def utc_text(timestamp_ms: int) -> str:
    """Return epoch milliseconds as ISO 8601 in UTC; a number out of range stays a number."""
    return time_text(timestamp_ms).replace(" ", "T")
