"""Which topic names may become directories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rmqtool.store import component_problem, names, safe_component
from rmqtool.store.names import directory_around

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "name",
    ["TopicTest", "%RETRY%g", "%LMQ%a", "主题_支付", "...", ".a", "a b", "a\nb", "\x1b[31m", "x" * 255],
)
def test_names_that_may(name: str) -> None:
    assert safe_component(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "'.'"),
        ("..", "'..'"),
        ("a/b", "'/'"),
        ("/etc", "'/'"),
        ("a\0b", "NUL"),
        ("x" * 256, "256 bytes"),
        ("支" * 86, "258 bytes"),
    ],
)
def test_names_that_may_not(name: str, reason: str) -> None:
    assert reason in str(component_problem(name))
    assert not safe_component(name)


@given(st.text())
def test_a_safe_name_stays_inside_its_directory(name: str) -> None:
    assume(safe_component(name))
    assert os.path.dirname(os.path.normpath(f"/store/{name}")) == "/store"  # noqa: PTH120 - text only, no Path rules


def test_a_directory_is_known_by_what_of_it_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mounts of a directory below, and below one that is mounted itself; the last mount at a point counts."""
    table = tmp_path / "mountinfo"
    monkeypatch.setattr(names, "_MOUNTS", table)
    store, queue, other = tmp_path / "a store", tmp_path / "queue", tmp_path / "other"
    for place in (store, queue, other):
        place.mkdir()
    spaced = str(store).replace(" ", "\\040")
    table.write_text(
        f"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:1 {spaced}/consumequeue/T/0 {queue} rw - ext4 /dev/a rw\n"
        f"3 1 8:1 {spaced} {other} rw - ext4 /dev/a rw\n4 1 8:2 {spaced} {other} rw - ext4 /dev/b rw\n"
        "odd line\n"
    )
    assert directory_around(queue / "new" / "file", [store]) == store
    assert directory_around(queue / "new", [store / "index"]) is None
    assert directory_around(other / "new", [store]) is None
    assert directory_around(store / "new", [queue]) is None
    table.unlink()
    assert directory_around(queue / "new", [store]) is None


def test_a_directory_around_is_found_through_links(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "index").mkdir(parents=True)
    (tmp_path / "link").symlink_to(store)
    assert directory_around(tmp_path / "link" / "new" / "file", [store]) == store
    assert directory_around(store / ".." / "other", [store]) is None
    assert directory_around(tmp_path, [store]) is None
