"""A location below which no link is followed, whatever somebody renames meanwhile."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import pytest

from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.io import FileKind, Location, location_of

if TYPE_CHECKING:
    from pathlib import Path

IS_LINK = "is a link, or is reached by one"


@pytest.fixture
def root(tmp_path: Path) -> Location:
    """A store that is itself reached by a link, with links in it."""
    (tmp_path / "store" / "own").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"secret")
    (tmp_path / "store" / "own" / "file").write_bytes(b"own")
    (tmp_path / "store" / "directory").symlink_to(tmp_path / "outside")
    (tmp_path / "store" / "inside").symlink_to("own/file")
    (tmp_path / "store" / "dangling").symlink_to("nothing")
    (tmp_path / "link").symlink_to("store")
    return location_of(tmp_path / "link").without_links()


def test_links_are_named_and_not_followed(root: Location) -> None:
    kinds = {entry.name: entry.status.kind for entry in root.entries()}
    links = dict.fromkeys(("dangling", "directory", "inside"), FileKind.LINK)
    assert kinds == {**links, "own": FileKind.DIRECTORY}
    assert (root / "directory/file").kind() is FileKind.LINK
    assert (root / "directory").entries() == []
    assert (root / "own/file").kind() is FileKind.FILE
    assert (root / "nothing").kind() is None
    assert ((root / "own").is_open(), (root / "directory").is_open()) == (True, False)


def test_only_own_files_are_opened(root: Location) -> None:
    own = pickle.loads(pickle.dumps(root / "own/file"))
    assert own.read_head(9) == b"own"
    for name in ("inside", "directory/file", "dangling"):
        with pytest.raises(DeniedError, match=IS_LINK):
            (root / name).read_head(9)
    with pytest.raises(EnvironmentFailureError, match="is a directory, not a regular file"):
        (root / "own").read_head(9)


@pytest.mark.parametrize("swapped", ["own", "own/file"])
def test_what_becomes_a_link_after_a_look_is_not_opened(
    root: Location, tmp_path: Path, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store" / swapped
    real, target = os.open, tmp_path / ("outside/file" if path.is_file() else "outside")

    def late(name: str, flags: int, *, dir_fd: int | None = None) -> int:
        if name == path.name and not path.is_symlink():
            path.rename(tmp_path / "before")
            path.symlink_to(target)
        return real(name, flags, dir_fd=dir_fd)

    monkeypatch.setattr("rmqtool.io.local.os.open", late)
    assert (root / "own/file").kind() is FileKind.FILE
    with pytest.raises(DeniedError, match=IS_LINK):
        (root / "own/file").read_head(9)
