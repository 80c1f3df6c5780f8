"""Times as users give them, on the command line and to the library, and as they are told."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from datetime import tzinfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MQADMIN = re.compile(r"^([0-9-]{10})#([0-9]{2}:[0-9]{2}:[0-9]{2}):([0-9]{3})$")
_ISO_START = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T #]|$)")


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


def utc_text(timestamp_ms: int) -> str:
    """Return epoch milliseconds as ISO 8601 in UTC; a number that is no date here stays a number."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat("T", "milliseconds").replace("+00:00", "Z")


def parse_time(text: str, zone: tzinfo | None) -> int:
    """Return a time in epoch milliseconds.

    Args:
        text: Epoch ms, ISO 8601, mqadmin's ``yyyy-MM-dd#HH:mm:ss:SSS``, or ``now``.
        zone: Of times that name none; None is this machine's.

    Raises:
        UsageError: It is none of these.
    """
    if text == "now":
        return int(time.time() * 1000)
    if re.fullmatch(r"-?[0-9]{1,19}", text):
        return int(text)
    moment = _moment(_MQADMIN.sub(r"\1T\2.\3", text), zone)
    if moment is None:
        forms = "epoch ms, 2022-04-15T13:20:00, 2022-04-15#13:20:00:000, or now"
        raise UsageError(f"{text!r} is no time; give {forms}")
    return _since_epoch(moment)


def _moment(text: str, zone: tzinfo | None) -> datetime | None:
    if not _ISO_START.match(text):  # Python also reads long rows of digits as a time
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


def parse_optional_time(text: str | None, zone: tzinfo | None) -> int | None:
    """Return a time in epoch milliseconds, or None if none was given."""
    return None if text is None else parse_time(text, zone)


def time_text(timestamp_ms: int, zone: tzinfo | None = UTC) -> str:
    """Return a time as ``yyyy-MM-dd HH:mm:ss.SSS+hh:mm``; a number that is no date here stays a number.

    UTC is ``Z``; `parse_time` reads what this writes.

    Args:
        timestamp_ms: Since the epoch.
        zone: Zone to print in; None is this machine's. Without one it is UTC.
    """
    try:
        moment = (_EPOCH + timedelta(milliseconds=timestamp_ms)).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(" ", "milliseconds").replace("+00:00", "Z")
