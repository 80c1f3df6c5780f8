"""Times as users give them."""

from __future__ import annotations

import time
from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from rmqtool.errors import UsageError
from rmqtool.times import is_explicit, parse_time, time_text

SHANGHAI = timezone(timedelta(hours=8))


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("0", 0),
        ("-5", -5),
        ("1650000000123", 1650000000123),
        ("2022-04-15T13:20:00.123", 1650000000123),
        ("2022-04-15 13:20:00.123", 1650000000123),
        ("2022-04-15T05:20:00.123Z", 1650000000123),
        ("2022-04-15#13:20:00:123", 1650000000123),
        ("2022-04-15", 1649952000000),
    ],
)
def test_forms(text: str, expected_ms: int) -> None:
    assert parse_time(text, SHANGHAI) == expected_ms


def test_now() -> None:
    assert abs(parse_time("now", UTC) - time.time() * 1000) < 5000


_NO_TIMES = """tomorrow|2022-13-01|2022-04-15x13:20|2022-04-15 9|٣|25:00|10:60|:30|yesterday |today10:00
2h|-2y|now-|now 10:00|--2h""".replace("\n", "|")


@pytest.mark.parametrize("text", ["", "1" * 30, "-1" + "0" * 30 + "h", *_NO_TIMES.split("|")])
def test_everything_else_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        parse_time(text, UTC)


NOW_MS = 1_650_000_000_123  # 2022-04-15T13:20:00.123 in Shanghai, 05:20 in UTC


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2022-04-15 13:20:00.123+08:00"),
        ("-2h", "2022-04-15 11:20:00.123+08:00"),
        ("now-2h", "2022-04-15 11:20:00.123+08:00"),
        ("-1d12h", "2022-04-14 01:20:00.123+08:00"),
        ("-1w", "2022-04-08 13:20:00.123+08:00"),
        ("now-30m", "2022-04-15 12:50:00.123+08:00"),
        ("+5s", "2022-04-15 13:20:05.123+08:00"),
        ("-123ms", "2022-04-15 13:20:00.000+08:00"),
        ("today", "2022-04-15 00:00:00.000+08:00"),
        ("yesterday", "2022-04-14 00:00:00.000+08:00"),
        ("10:00", "2022-04-15 10:00:00.000+08:00"),
        ("9:05", "2022-04-15 09:05:00.000+08:00"),
        ("22:00:30.500", "2022-04-15 22:00:30.500+08:00"),
        ("yesterday 22:00", "2022-04-14 22:00:00.000+08:00"),
    ],
)
def test_from_now(text: str, expected: str) -> None:
    assert time_text(parse_time(text, SHANGHAI, NOW_MS), SHANGHAI) == expected
    assert not is_explicit(text)


def test_days_are_those_of_the_zone() -> None:
    """At 05:20 in UTC it is still the day before in California; a day with 25 hours is one day."""
    california = ZoneInfo("America/Los_Angeles")
    assert time_text(parse_time("today", california, NOW_MS), california) == "2022-04-14 00:00:00.000-07:00"
    after_the_change = parse_time("2022-11-07T08:00Z", None)
    yesterday = parse_time("yesterday", california, after_the_change)
    assert time_text(yesterday, california) == "2022-11-06 00:00:00.000-07:00"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1650000000123", True),
        ("1650000000", False),
        ("2022-04-15T05:20Z", True),
        ("2022-04-15 05:20:00.123+08:00", True),
        ("2022-04-15T05:20", False),
        ("2022-04-15", False),
    ],
)
def test_what_can_be_doubted(text: str, expected: bool) -> None:
    """Epoch seconds would be in 1970, and a time without zone depends on the machine."""
    assert is_explicit(text) is expected


@pytest.mark.parametrize(
    "zone", [UTC, timezone(timedelta(hours=8)), timezone(-timedelta(hours=3, minutes=30))]
)
def test_what_is_printed_can_be_pasted(zone: timezone) -> None:
    """A time in text names its zone."""
    assert parse_time(time_text(1_650_000_000_123, zone), None) == 1_650_000_000_123
