"""A timer's checkpoint that was lost."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rmqtool.doctor.diagnose import diagnose_timer
from rmqtool.store import open_store
from tests.damage.running import verified
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("data", "state"),
    [(bytes(4096), "zero-filled"), (b"", "empty"), (b"\1" * 20, "cut"), (b"\1" * 56, None)],
)
def test_what_is_left_of_it(data: bytes, state: str | None, tmp_path: Path) -> None:
    root = shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")
    assert diagnose_timer(open_store(root)) is None
    (root / "config" / "timercheck").write_bytes(data)
    assert diagnose_timer(open_store(root)) is None  # nobody used it
    queue = root / "consumequeue" / "rmq_sys_wheel_timer" / "0"
    shutil.copytree(root / "consumequeue" / "Orders" / "0", queue)
    found = diagnose_timer(open_store(root))
    assert (found and found.state) == state
    assert found is None or found.again_at_most > 0
    codes = [one.code.code for one in verified(root).findings]
    assert codes.count("CF-TIMER") == (state is not None)
