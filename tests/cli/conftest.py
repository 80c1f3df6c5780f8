"""Stores to run commands on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

STORES = Path(__file__).parents[2] / "fixtures" / "stores"
STORE_NAMES = sorted(path.name for path in STORES.iterdir() if path.is_dir())


@pytest.fixture(params=STORE_NAMES)
def any_store(request: pytest.FixtureRequest) -> Path:
    """Every store that a real broker made."""
    return STORES / str(request.param)


@pytest.fixture
def plain() -> Path:
    """An ordinary store of 4.9.8."""
    return STORES / "plain-4.9.8"


@pytest.fixture
def plain_copy(tmp_path: Path, plain: Path) -> Path:
    """A copy of it that may be damaged."""
    return Path(shutil.copytree(plain, tmp_path / "store"))
