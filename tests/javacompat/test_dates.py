from __future__ import annotations

from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.javacompat import index_file_name

SHANGHAI = timezone(timedelta(hours=8))


@pytest.mark.parametrize(
    ("timestamp_ms", "name"),
    [
        (1650000000123, "20220415132000123"),
        (0, "19700101080000000"),
        (-1, "19700101075959999"),
        (253402300799999, "100000101075959999"),
        (2**63 - 1, "2922789940817151255807"),
    ],
)
def test_name_is_that_of_java_in_shanghai(timestamp_ms: int, name: str) -> None:
    """These were printed by a JDK in Asia/Shanghai."""
    assert index_file_name(timestamp_ms, SHANGHAI) == name


def test_zone_changes_with_the_season() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert index_file_name(1650000000123, berlin) == "20220415072000123"
    assert index_file_name(1640000000123, berlin) == "20211220123320123"


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_timestamp_gives_a_number(timestamp_ms: int) -> None:
    name = index_file_name(timestamp_ms, UTC)
    assert name.isdecimal()
    assert len(name) >= 17
