"""Old bytes behind a tail that was written anew are left out, unless they are asked for."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.broker.log_damage import LogCopy
from tests.salvage.campaign import made_places, records_of
from tests.salvage.damages import Scene, rewrite_tail
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.full
def test_what_a_broker_had_cut_off_comes_back_on_demand_alone(tmp_path: Path) -> None:
    root = shutil.copytree(fixture("plain-5.5.1"), tmp_path / "damaged")
    scene = Scene(root, LogCopy(root), random.Random(3))
    rewrite_tail(scene)
    store = rmqtool.open(root)
    without, with_them = tmp_path / "without", tmp_path / "with"
    report = store.salvage(without)
    store.salvage(with_them, include_stale=True)
    kept, more = (
        {place: raw for place, raw in records_of(out / "commitlog").items() if place not in made_places(out)}
        for out in (without, with_them)
    )
    assert kept == scene.truth
    assert report.left_out["stale"] > 0
    assert kept.items() < more.items() <= scene.truth.items() | scene.stale.items()
