"""Executors that see the store otherwise: they are to blame, and never the store."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.builders import read_result
from tests.engine.cluster import REPOSITORY, SETTINGS, Cluster, require_views, required_java
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

_PATIENCE_S = 900


class Views(NamedTuple):
    """A cluster of three workers, two of which see three directories otherwise.

    Attributes:
        master: its URL.
        seen: a store that all see.
        hidden: a store that one alone sees.
        other: a store that two see other bytes of, under the same names, sizes and times.
        dark: a store that no worker sees.
        shared: a directory for output and scratch.
        none: a directory for scratch that one worker alone sees.
    """

    master: str
    seen: Path
    hidden: Path
    other: Path
    dark: Path
    shared: Path
    none: Path


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Views]:
    require_views()
    java = required_java()
    folder = tmp_path_factory.mktemp("views")
    seen, hidden, other, unseen = (
        shutil.copytree(fixture("plain-5.5.1"), folder / name) for name in ("s", "h", "o", "d")
    )
    copy = altered(other, folder / "copy")
    (shared := folder / "shared").mkdir()
    (none := folder / "none").mkdir()
    cluster = Cluster(java, folder)
    dark = f"mount -t tmpfs none {unseen}"
    changes = [f"mount -t tmpfs none {hidden}", f"mount -t tmpfs none {none}"]
    changes += [f"mount --bind {copy} {other}", dark]
    try:
        cluster.start_master()
        for name in ("odd", "second"):
            cluster.add_worker(name, view=" && ".join(changes))
        cluster.add_worker("even", view=dark)
        yield Views(cluster.master, seen, hidden, other, unseen, shared, none)
    finally:
        cluster.stop()


def altered(store: Path, copy: Path) -> Path:
    """Copy a store; the last record of each file of the log has another body, and all times are as before."""
    shutil.copytree(store, copy)
    for segment in (copy / "commitlog").iterdir():
        times = segment.stat()
        data = bytearray(segment.read_bytes())
        data[len(data.rstrip(b"\0")) // 2] ^= 1
        segment.write_bytes(data)
        os.utime(segment, ns=(times.st_atime_ns, times.st_mtime_ns))
    return copy


def run(views: Views, *words: object) -> subprocess.CompletedProcess[str]:
    words = (*words, "--engine", "spark", "--master", views.master)
    settings = [word for pair in SETTINGS.items() for word in ("--spark-conf", "=".join(pair))]
    return subprocess.run(
        [sys.executable, "-m", "rmqtool", *map(str, words), *settings],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("name", ["hidden"])
def test_verify_is_done_by_those_who_see_the_store(views: Views, name: str) -> None:
    """Several splits and queues, so that each worker gets some."""
    store = getattr(views, name)
    done = run(views, "verify", store, "--scratch", views.shared, "--format", "json")
    here = [sys.executable, "-m", "rmqtool", "verify", str(store), "--engine", "local", "--format", "json"]
    expected = subprocess.run(here, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == expected.returncode, done.stderr
    assert without_times(done.stdout) == without_times(expected.stdout)
    assert list(views.shared.iterdir()) == []


def without_times(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    for name in ("seconds", "run"):
        document.pop(name, None)
    return document


@pytest.mark.parametrize("command", ["verify"])
def test_a_store_that_no_executor_sees_is_not_damaged(views: Views, command: str) -> None:
    where = ("--scratch", views.shared) if command == "verify" else ("--out", views.shared / "out")
    done = run(views, command, views.dark, *where)
    assert (done.returncode, done.stdout) == (3, "")
    *_, sentence = done.stderr.splitlines()
    assert sentence.startswith(f"error: executor {socket.gethostname()} does not see {views.dark}/commitlog/")
    assert "every executor must see it" in sentence
    assert list(views.shared.iterdir()) == []


def test_small_stores_need_no_executor_that_sees_them(views: Views) -> None:
    """The machine of the command verifies them, whatever executors see."""
    stores = views.seen, views.hidden, views.other, views.dark
    done = run(views, "verify", *stores, "--format", "json")
    assert done.returncode == 0, done.stderr
    words = [sys.executable, "-m", "rmqtool", "verify", *map(str, stores), "--format", "json"]
    here = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    found, expected = (json.loads(one.stdout)["stores"] for one in (done, here))
    assert [documents(one) for one in found] == [documents(one) for one in expected]


def documents(store: dict[str, Any]) -> dict[str, Any]:
    return without_times(json.dumps(store["document"]))


@pytest.mark.parametrize("name", ["other"])
def test_rebuild_gives_the_same_bytes(views: Views, name: str, tmp_path: Path) -> None:
    out = views.shared / name
    store = getattr(views, name)
    done = run(views, "rebuild", store, "--out", out)
    assert done.returncode == 0, done.stderr
    words = ["rebuild", str(store), "--engine", "local", "--out", str(tmp_path / "out")]
    subprocess.run([sys.executable, "-m", "rmqtool", *words], cwd=REPOSITORY, capture_output=True, check=True)
    assert read_result(out) == read_result(tmp_path / "out")
    shutil.rmtree(out)
    assert list(views.shared.iterdir()) == []


def test_scratch_that_some_do_not_see_is_left_to_others(views: Views) -> None:
    done = run(views, "verify", views.seen, "--scratch", views.none)
    assert done.returncode == 0, done.stderr
    assert list(views.none.iterdir()) == []
