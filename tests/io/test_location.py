"""Names of places, and that every kind of source gives the same answers about the same files."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import pytest

from rmqtool.errors import EnvironmentFailureError
from rmqtool.io import FileKind, LocalFiles, Location, location_of
from tests.io.directory import as_objects
from tests.io.memory import in_memory

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.io import DirectoryEntry
    from rmqtool.io.source import Source

FILES = {"a/b/1": b"one", "a/b/2": b"", "a/c": bytes(9000), "x*y": b"wild", "a/.hidden": b"h"}


@pytest.fixture(params=["local", "memory", "objects"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Location:
    """The same files, in the three sources that there are."""
    for name, data in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if request.param == "objects":
        return as_objects(tmp_path, monkeypatch)
    return location_of(tmp_path) if request.param == "local" else in_memory(tmp_path, "/nowhere/at/all")


def test_listing_kinds_and_sizes(root: Location) -> None:
    found = [(name, status.kind, status.size_bytes) for name, status in (root / "a").entries()]
    files = [(name, kind, size) for name, kind, size in found if kind is FileKind.FILE]
    assert files == [(".hidden", FileKind.FILE, 1), ("c", FileKind.FILE, 9000)]
    assert [name for name, kind, _ in found if kind is FileKind.DIRECTORY] == ["b"]
    assert (root / "a/c").entries() == (root / "absent").entries() == []
    for name, status in (root / "a").entries():
        assert (root / "a" / name).status() == status


def test_one_name(root: Location) -> None:
    assert [(root / name).kind() for name in ("a", "a/c", "absent", "a/c/below")] == [
        FileKind.DIRECTORY, FileKind.FILE, None, None,
    ]  # fmt: skip
    assert (root / "a/c").is_regular()
    assert not (root / "a").is_regular()
    assert (root / "a").is_directory()
    assert (root / "a/b/2").is_there()
    assert not (root / "a/b/3").is_there()


def test_reading(root: Location) -> None:
    with (root / "a/b/1").reader() as file:
        assert (file.current_size(), file.read_at(1, 10), file.read_at(3, 1)) == (3, b"ne", b"")
        assert file.next_written(0) == 0
        copy = pickle.loads(pickle.dumps(file))
    assert copy.read_at(0, 3) == b"one"
    assert (root / "a/c").read_head(4) == bytes(4)
    for name in ("absent", "a"):
        with pytest.raises(EnvironmentFailureError, match=name):
            (root / name).read_head(1)


def test_globs(root: Location) -> None:
    def found(pattern: str) -> list[str]:
        return [place.relative_to(root) for place in root.matching(pattern)]

    assert found("a/*") == ["a/.hidden", "a/b", "a/c"]
    assert found("*/*/[12]") == ["a/b/1", "a/b/2"]
    assert found("a/c") == ["a/c"]
    assert found("absent") == found("a/c/*") == found("absent/*") == []


def test_several_globs_list_a_directory_once(root: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of queues is as long as there are topics."""
    listed: list[str] = []
    entries = type(root.source).entries

    def noted(source: Source, path: str) -> list[DirectoryEntry]:
        listed.append(path)
        return entries(source, path)

    monkeypatch.setattr(type(root.source), "entries", noted)
    top = root / "a"
    assert list(top.matching("absent", "x*", "c*", "b/[1]")) == [top / "c", top / "b/1"]
    assert listed == [top.text, (top / "b").text]


def test_places_travel(root: Location) -> None:
    assert pickle.loads(pickle.dumps(root)) == root
    assert len({root / "a", root / "a", root / "b"}) == 2


@pytest.mark.parametrize(("text", "name", "parent"), [("/a/b", "b", "/a"), ("/a", "a", "/"), ("/", "", "/")])
def test_names(text: str, name: str, parent: str) -> None:
    place = location_of(text)
    assert (place.name, str(place.parent), str(place)) == (name, parent, text)
    assert str(place / "c/d") == f"{text.rstrip('/')}/c/d"


def test_relative_names() -> None:
    base = location_of("/a/b")
    assert [location_of(text).is_relative_to(base) for text in ("/a/b", "/a/b/c", "/a/bc", "/a")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert location_of("/a/b/c/d").relative_to(base) == "c/d"
    assert base.relative_to(base) == "."
    assert location_of("/a").relative_to(location_of("/")) == "a"
    with pytest.raises(ValueError, match="below"):
        location_of("/a/bc").relative_to(base)


def test_a_place_is_no_path_of_this_machine() -> None:
    """So that nobody opens one by mistake."""
    with pytest.raises(TypeError):
        os.fspath(location_of("/"))  # type: ignore[call-overload]


def test_links_and_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "to-nowhere").symlink_to("nowhere")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "to-device").symlink_to("/dev/zero")
    (tmp_path / "to-fifo").symlink_to("fifo")
    root = location_of(tmp_path)
    kinds = {name: status.kind for name, status in root.entries()}
    assert kinds == {
        "fifo": FileKind.FIFO,
        "to-nowhere": FileKind.LOST,
        "circle": FileKind.LOST,
        "to-device": FileKind.CHARACTER_DEVICE,
        "to-fifo": FileKind.FIFO,
    }
    assert {name: (root / name).kind() for name in kinds} == kinds
    assert not (root / "to-nowhere").is_there()
    assert (root / "to-nowhere").status() is not None
    assert list(root.matching("to-*")) == [root / "to-device", root / "to-fifo"]
    (tmp_path / "link").symlink_to(tmp_path)
    assert (root / "link" / "fifo").real() == root.real() / "fifo"
    assert (root / "link").status() == root.status()


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "\udcff\ud800"])
def test_a_name_that_no_file_can_have_is_not_there(tmp_path: Path, name: str) -> None:
    place = location_of(tmp_path) / name
    assert place.status() is None
    assert (place / "below").entries() == []
    with pytest.raises(EnvironmentFailureError, match="cannot be opened"):
        place.read_head(1)


def test_what_may_not_be_examined_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> os.stat_result:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("rmqtool.io.local.os.stat", refuse)
    status = LocalFiles().status(str(tmp_path))
    assert status is not None
    assert (status.kind, status.reason) == (FileKind.HIDDEN, "Permission denied")
    assert location_of(tmp_path).is_there()
    assert list(location_of("/").matching("tmp")) == []
