"""Which file of the log a start begins with, by release and by what it goes by; one row a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from tests.recovery.logs import FILE_BYTES, TinyLog
from tests.recovery.states import CLEAN, FILES, TIME, UNCLEAN, Row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def _by_release(first: Mapping[str, int]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for name in RELEASES:
        found.append((name, first.get(name, found[-1][1] if found else -1)))
    return found


def _cases(rows: tuple[Row, ...]) -> list[object]:
    return [
        pytest.param(row, name, number, id=f"{row.name}, {name}")
        for row in rows
        for name, number in _by_release(row.first)
    ]


@pytest.mark.few(8)
@pytest.mark.parametrize(("row", "name", "number"), _cases(CLEAN))
def test_clean_start(row: Row, name: str, number: int, tmp_path: Path) -> None:
    """Without ``abort``."""
    log = TinyLog(tmp_path, FILES)
    row.prepare(log)
    recovery = predict_recovery(log.open(**row.given), RELEASES[name]).recovery
    assert recovery is not None
    assert (recovery.kind, recovery.physical_offset) == ("normal", number * FILE_BYTES)


@pytest.mark.few(8)
@pytest.mark.parametrize(("row", "name", "number"), _cases(UNCLEAN))
def test_unclean_start(row: Row, name: str, number: int, tmp_path: Path) -> None:
    """With ``abort``."""
    log = TinyLog(tmp_path, FILES).crash()
    row.prepare(log)
    recovery = predict_recovery(log.open(**row.given), RELEASES[name]).recovery
    assert recovery is not None
    assert (recovery.kind, recovery.physical_offset) == ("abnormal", number * FILE_BYTES)


def test_the_reason_names_the_window(tmp_path: Path) -> None:
    """Who reads it learns which setting decided."""
    log = TinyLog(tmp_path, FILES)
    recovery = predict_recovery(log.open(), RELEASES["5.5.1"]).recovery
    assert recovery is not None
    assert "newest 10 files (commitLogRecoverMaxNum)" in recovery.reason


def test_the_reason_names_the_limit(tmp_path: Path) -> None:
    """The offset of the checkpoint is told, and that it is the checkpoint's."""
    log = TinyLog(tmp_path, FILES).queue().crash()
    log.checkpoint(physic=TIME(27), logics=TIME(27), logics_offset=log.offsets[17])
    recovery = predict_recovery(log.open(), RELEASES["5.5.1"]).recovery
    assert recovery is not None
    assert f"lies at or before {log.offsets[17]} (logicsPhysicalOffset" in recovery.reason
