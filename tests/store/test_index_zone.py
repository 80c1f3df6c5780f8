"""The zone of index file names: inferred from names against contents, or named by the user."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqtool.errors import UsageError
from rmqtool.io import location_of
from rmqtool.javacompat import index_file_name
from rmqtool.store.geometry import infer_index_zone, local_zone, zone_of_name
from rmqtool.store.segments import StoreFile
from tests.store.index_builder import build_index

if TYPE_CHECKING:
    from pathlib import Path

BEGIN_MS = 1_650_000_000_123


def _index(directory: Path, name: str, begin_ms: int = BEGIN_MS, count: int = 1) -> StoreFile:
    path = directory / name
    path.write_bytes(build_index(5, 20, [(1, 0)] * count, begin_ms))
    return StoreFile(location_of(path), name, path.stat().st_size)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(quarters=st.integers(-48, 56), delay_ms=st.integers(-19_000, 19_000))
def test_every_zone_is_recognised_in_spite_of_a_small_delay(
    tmp_path: Path, quarters: int, delay_ms: int
) -> None:
    offset = timedelta(minutes=15 * quarters)
    name = index_file_name(BEGIN_MS + delay_ms, zone_of_name(_text(offset)))
    found = infer_index_zone([_index(tmp_path, name)])
    assert found is not None
    assert found.utcoffset(None) == offset


def _text(offset: timedelta) -> str:
    minutes = abs(offset) // timedelta(minutes=1)
    return f"{'-' if offset < timedelta(0) else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


@pytest.mark.parametrize(
    "name",
    ["20220415052500000", "20220420052000123", "99999999999999999", "20221315132000123", "20220415132000"],
)
def test_names_that_fit_no_zone_say_nothing(tmp_path: Path, name: str) -> None:
    """A rebuilt index is named after the time of the rebuild."""
    assert infer_index_zone([_index(tmp_path, name)]) is None


def test_files_without_items_say_nothing(tmp_path: Path) -> None:
    empty = _index(tmp_path, "20220415132000123", count=0)
    (tmp_path / "20220415132000124").write_bytes(b"short")
    assert infer_index_zone([empty, StoreFile(location_of(tmp_path / "20220415132000124"), "", 5)]) is None


def test_files_that_disagree_say_nothing_but_for_summer_time(tmp_path: Path) -> None:
    hour = 3_600_000
    winter = _index(tmp_path, index_file_name(BEGIN_MS, zone_of_name("+01:00")))
    summer = _index(tmp_path, index_file_name(BEGIN_MS + hour, zone_of_name("+02:00")), BEGIN_MS + hour)
    far = _index(tmp_path, index_file_name(BEGIN_MS, zone_of_name("+08:00")))
    found = infer_index_zone([winter, summer])
    assert found is not None
    assert found.utcoffset(None) == timedelta(hours=2)
    assert infer_index_zone([winter, far]) is None


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("UTC", 0),
        ("+08:00", 8),
        ("-0530", -5.5),
        ("UTC+8", 8),
        ("GMT-3", -3),
        ("Asia/Shanghai", 8),
        (" Asia/Kolkata ", 5.5),
    ],
)
def test_zones_by_name(text: str, hours: float) -> None:
    moment = datetime(2022, 4, 15, tzinfo=UTC).astimezone(zone_of_name(text))
    assert moment.utcoffset() == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "Mars/Base", "../etc/passwd", "/etc/localtime", "+99:00", "a\0b"])
def test_no_such_zone(text: str) -> None:
    with pytest.raises(UsageError, match="no time zone"):
        zone_of_name(text)


def test_this_machine_s_zone_changes_its_offset_with_the_season(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        for stamp in (1_641_000_000_000, 1_657_000_000_000, 1_667_091_599_999, 1_667_091_600_000):
            assert index_file_name(stamp, local_zone()) == index_file_name(stamp, ZoneInfo("Europe/Berlin"))
        assert datetime(2022, 7, 1, tzinfo=local_zone()).utcoffset() == timedelta(hours=2)
        assert datetime(2022, 7, 1, tzinfo=local_zone()).tzname() == "CEST"
    finally:
        monkeypatch.undo()
        time.tzset()
