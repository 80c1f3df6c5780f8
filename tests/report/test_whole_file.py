"""A report file is complete or not there; nothing is replaced, nothing is written into the evidence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.report.whole_file import check_new_file, write_whole


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def test_file_appears_with_its_bytes_and_nothing_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "report", b"bytes")
    assert (tmp_path / "report").read_bytes() == b"bytes"
    assert names(tmp_path) == ["report"]


def test_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("mine")
    with pytest.raises(RefusedError, match="exists"):
        check_new_file(path, [])
    with pytest.raises(RefusedError, match="exists"):
        write_whole(path, b"bytes")
    assert path.read_text() == "mine"
    assert names(tmp_path) == ["report"]


def test_link_that_leads_nowhere_is_something_that_exists(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match="exists"):
        check_new_file(path, [])


def test_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(EnvironmentFailureError, match="No space left"):
        write_whole(tmp_path / "report", b"bytes")
    assert names(tmp_path) == []


def test_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    write_whole(tmp_path / "report", b"bytes")
    assert (tmp_path / "report").read_bytes() == b"bytes"
    assert names(tmp_path) == ["report"]


def test_evidence_is_only_read(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="only read"):
        check_new_file(tmp_path / "store" / "report", [tmp_path / "store"])


def test_directory_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailureError, match="no directory"):
        check_new_file(tmp_path / "nowhere" / "report", [])


def test_device_is_written_to_directly() -> None:
    check_new_file(Path("/dev/null"), [])
    write_whole(Path("/dev/null"), b"bytes")
    assert Path("/dev/null").is_char_device()
