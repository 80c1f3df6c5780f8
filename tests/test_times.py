"""Times as users give them."""

from __future__ import annotations

import time
from datetime import UTC, timedelta, timezone

import pytest

from rmqtool.errors import UsageError
from rmqtool.times import parse_time, time_text

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


@pytest.mark.parametrize("text", ["", "tomorrow", "2022-13-01", "2022-04-15x13:20", "1" * 30, "٣"])
def test_everything_else_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="is no time"):
        parse_time(text, UTC)


@pytest.mark.parametrize(
    "zone", [UTC, timezone(timedelta(hours=8)), timezone(-timedelta(hours=3, minutes=30))]
)
def test_what_is_printed_can_be_pasted(zone: timezone) -> None:
    """A time in text names its zone."""
    assert parse_time(time_text(1_650_000_000_123, zone), None) == 1_650_000_000_123
