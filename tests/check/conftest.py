"""Stores to check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.check import expected, queue_match
from rmqtool.derived import index_files, queue_files
from tests.check.store_edits import DemandCache, EditedStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def demand_cache() -> Iterator[DemandCache]:
    """Demands of fixtures' logs, scanned once a session."""
    cache = DemandCache()
    yield cache
    cache.close()


@pytest.fixture
def plain(tmp_path: Path, demand_cache: DemandCache) -> EditedStore:
    """A copy of a store whose log begins at 0, with twelve index files of 39 items, the last not full."""
    return EditedStore.copy("plain-5.3.3", tmp_path, demand_cache)


@pytest.fixture(params=[False, True], ids=["whole", "pieces"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files and expected rows whole, then in pieces of a few rows: no border may show."""
    if request.param:
        monkeypatch.setattr(expected, "WINDOW_ROWS", 3)
        monkeypatch.setattr(queue_files, "_FIRST_CHUNK_UNITS", 1)
        monkeypatch.setattr(queue_files, "_LARGEST_CHUNK_UNITS", 4)
        monkeypatch.setattr(index_files, "_CHUNK_ITEMS", 5)
        monkeypatch.setattr(index_files, "_CHUNK_SLOTS", 7)
        monkeypatch.setattr(queue_match, "_CHUNK_ROWS", 3)
        monkeypatch.setattr(queue_match, "_MOST_PENDING", 0)
