"""What a store has, for those who compare it on two machines."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.check.store_files import plain_tree
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")


def found(root: Path) -> list[str] | None:
    with rmqtool.open(root) as store:
        paths = plain_tree(store.files)
        return None if paths is None else sorted(map(str, paths))


def test_files_and_directories_are_named_but_not_the_lock(root: Path) -> None:
    (root / "lock").touch()
    (root / "consumequeue" / "Empty").mkdir()
    expected = [root, *(path for path in root.rglob("*") if path.name != "lock")]
    assert found(root) == sorted(map(str, expected))


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index", "checkpoint"])
def test_of_a_part_more_counts_than_it_has(root: Path, part: str) -> None:
    assert found(root / part) is None


@pytest.mark.parametrize("odd", ["link", "pipe", "no file"])
def test_what_two_machines_may_see_otherwise_is_not_compared(root: Path, odd: str) -> None:
    if odd == "link":
        (root / "commitlog" / "x").symlink_to("nowhere")
    elif odd == "pipe":
        os.mkfifo(root / "commitlog" / "x")
    else:
        for path in root.rglob("*"):
            if path.is_file():
                path.unlink()
    assert found(root) is None
