"""Stores to open: copies of those that real brokers made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

STORES = Path(__file__).parents[2] / "fixtures" / "stores"


@pytest.fixture
def plain() -> Path:
    """An ordinary store of 5.3.3."""
    return STORES / "plain-5.3.3"


@pytest.fixture
def damaged(tmp_path: Path, plain: Path) -> Path:
    """A copy of it, in which one byte of a body of TopicTest is another: at physical offset 52045."""
    store = Path(shutil.copytree(plain, tmp_path / "damaged"))
    segment = store / "commitlog" / "00000000000000049152"
    data = bytearray(segment.read_bytes())
    data[3000] ^= 1
    segment.write_bytes(data)
    return store


@pytest.fixture
def torn(tmp_path: Path, plain: Path) -> Path:
    """A copy of it, in which 1000 bytes of the second file of the log are zeros."""
    store = Path(shutil.copytree(plain, tmp_path / "torn"))
    segment = store / "commitlog" / "00000000000000008192"
    data = bytearray(segment.read_bytes())
    data[2000:3000] = bytes(1000)
    segment.write_bytes(data)
    return store
