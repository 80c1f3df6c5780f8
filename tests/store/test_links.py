"""Links of a store that lead out of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqtool.cli import main
from rmqtool.store import open_store
from rmqtool.store.root import links_out
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST_FILE = f"commitlog/{0:020d}"


def move_out(root: Path, elsewhere: Path, labels: Iterable[str]) -> None:
    """Put a link in the place of each, to where it is moved."""
    elsewhere.mkdir()
    for number, label in enumerate(labels):
        target = elsewhere / str(number)
        (root / label).rename(target)
        (root / label).symlink_to(target)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of a store."""
    return Path(shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store"))


@pytest.mark.parametrize("label", ["consumequeue", "index", "checkpoint", FIRST_FILE, "consumequeue/Orders"])
def test_each_part_that_lies_elsewhere_is_named(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], label: str
) -> None:
    move_out(root, tmp_path / "disk", [label])
    found = [(one, str(target)) for one, target in links_out(open_store(root))]
    assert found == [(label, str(tmp_path / "disk" / "0"))]
    asked = ("query", str(root), "-t", "TopicTest", "-k", "order-1")
    for words in (asked, ("dump", str(root), "-t", "Orders"), ("info", str(root))):
        assert main(list(words)) == 0
        told = f"{label} is a link that leads out of the store, to {tmp_path / 'disk' / '0'}; it is followed"
        assert told in capsys.readouterr().err


def test_a_queue_that_lies_elsewhere_is_named_and_guarded(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Links inside a topic's directory; nothing is written to where they lead."""
    move_out(root, tmp_path / "disk", ["consumequeue/Orders/0"])
    found = [(one, str(target)) for one, target in links_out(open_store(root), in_topics=True)]
    assert found == [("consumequeue/Orders/0", str(tmp_path / "disk" / "0"))]
    for words in (("verify", "--level", "0"), ("info",), ("rebuild", "--dry-run", "--engine", "local")):
        assert main([*words, str(root)]) == 0
        assert "consumequeue/Orders/0 is a link that leads out of the store" in capsys.readouterr().err
    out = tmp_path / "disk" / "0" / "report"
    assert main(["info", str(root), "-o", str(out)]) == 4
    assert main(["rebuild", str(root), "--engine", "local", "--out", str(out)]) == 4
    assert not out.exists()


def test_a_file_of_a_queue_that_lies_elsewhere_is_named(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label = f"consumequeue/Orders/0/{0:020d}"
    move_out(root, tmp_path / "disk", [label])
    assert main(["verify", "--level", "0", str(root)]) == 0
    assert f"{label} is a link that leads out of the store" in capsys.readouterr().err
    assert main(["info", str(root), "-o", str(tmp_path / "disk" / "report")]) == 4


def test_links_inside_and_none_are_no_matter(root: Path) -> None:
    assert list(links_out(open_store(root))) == []
    move_out(root, root / "other", ["index"])
    assert list(links_out(open_store(root))) == []


def test_many_links_are_counted(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = [str(path.relative_to(root)) for path in sorted((root / "commitlog").iterdir())]
    move_out(root, tmp_path / "disk", labels)
    assert main(["query", str(root), "--offset", "0"]) == 0
    told = capsys.readouterr().err
    assert told.count("is a link that leads out of the store") == 5
    assert f"{len(labels) - 5} more links lead out of the store" in told
