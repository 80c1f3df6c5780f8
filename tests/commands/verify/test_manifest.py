"""Manifests: those of sha256sum, complete, and nothing outside of the store is ever read."""

from __future__ import annotations

import os
import shutil
import subprocess
from errno import EACCES
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqtool.check.digests import ManifestLine, parse_line
from rmqtool.commands.verify.manifest import check_manifest, load_manifest, make_manifest
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import Finding, FindingLog
from rmqtool.report.console import Console, ProgressMode
from rmqtool.store import Store, open_store
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator

QUIET = Console(ProgressMode.NEVER)
LOG_FILE = "commitlog/00000000000000000000"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store"))


@pytest.fixture
def manifest(root: Path, tmp_path: Path) -> Path:
    path = tmp_path / "manifest"
    path.write_bytes(write(open_store(root)))
    return path


def write(store: Store) -> bytes:
    findings = FindingLog()
    lines = make_manifest(store, 2, QUIET, findings)
    assert len(findings) == 0
    return b"".join(line.to_bytes() for line in lines)


def check(path: Path, manifest: Path) -> list[tuple[str, str | None]]:
    found = check_manifest(open_store(path), manifest, load_manifest(manifest), 2, QUIET)
    return [(finding.code.code, finding.file) for finding in found]


def sha256sum(root: Path, manifest: Path) -> int:
    command = ["sha256sum", "--check", "--strict", "--quiet", str(manifest)]
    return subprocess.run(command, cwd=root, capture_output=True, check=False).returncode


def test_manifest_lists_every_file_but_lock_and_sha256sum_agrees(root: Path, manifest: Path) -> None:
    listed = [os.fsdecode(line.name) for line in load_manifest(manifest)]
    there = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    assert sorted(listed) == sorted(set(there) - {"lock"})
    assert listed == sorted(listed)
    assert sha256sum(root, manifest) == 0
    assert check(root, manifest) == []


def test_what_sha256sum_wrote_is_understood(root: Path, tmp_path: Path) -> None:
    command = "find . -type f ! -name lock -print0 | xargs -0 sha256sum --binary"
    made = subprocess.run(["sh", "-c", command], cwd=root, capture_output=True, check=True)
    (tmp_path / "theirs").write_bytes(b"# comment\r\n\n" + made.stdout)
    assert check(root, tmp_path / "theirs") == []


def test_store_that_keeps_its_own_manifest(root: Path) -> None:
    """The fixtures do: their SHA256SUMS lies in the store and does not list itself."""
    extra = check(root, root / "SHA256SUMS")
    assert {code for code, _ in extra} <= {"MF-EXTRA"}
    assert "SHA256SUMS" not in {file for _, file in extra}


def test_every_difference_is_named(root: Path, manifest: Path) -> None:
    log = root / LOG_FILE
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    (root / "checkpoint").unlink()
    (root / "index" / "new").write_bytes(b"")
    assert check(root, manifest) == [
        ("MF-MISSING", "checkpoint"),
        ("MF-MISMATCH", LOG_FILE),
        ("MF-EXTRA", "index/new"),
    ]
    assert sha256sum(root, manifest) != 0


def test_part_of_a_store_is_checked_against_its_lines_only(root: Path, manifest: Path) -> None:
    (root / "checkpoint").unlink()
    (root / "index" / "new").write_bytes(b"")
    assert check(root / "commitlog", manifest) == []
    assert check(root / LOG_FILE, manifest) == []
    assert check(root / "index", manifest) == [("MF-EXTRA", "index/new")]


def test_part_of_a_store_is_written_with_paths_of_the_store(root: Path, manifest: Path) -> None:
    lines = set(write(open_store(root / "index")).splitlines())
    assert lines == {line for line in manifest.read_bytes().splitlines() if b"  index/" in line}


def test_names_are_bytes_with_the_escapes_of_sha256sum(root: Path, tmp_path: Path) -> None:
    for name in (b"a\nb", b"back\\slash", b"\xff\xfe", b" lead", b"return\r"):
        with open(os.path.join(os.fsencode(root), b"index", name), "wb") as file:  # noqa: PTH118, PTH123
            file.write(name)
    (tmp_path / "manifest").write_bytes(write(open_store(root)))
    assert sha256sum(root, tmp_path / "manifest") == 0
    assert check(root, tmp_path / "manifest") == []


@pytest.mark.parametrize("name", [b"../outside", b"/etc/hostname", b"commitlog/../../outside"])
def test_lines_that_lead_out_of_the_store_are_not_followed(root: Path, tmp_path: Path, name: bytes) -> None:
    (tmp_path / "outside").write_bytes(b"secret")
    path = tmp_path / "manifest"
    path.write_bytes(write(open_store(root)) + ManifestLine(name, "0" * 64).to_bytes())
    assert check(root, path) == [("MF-MISSING", os.fsdecode(name))]


def test_links_are_followed_once_and_what_is_no_file_is_left_out(root: Path, tmp_path: Path) -> None:
    shutil.move(root / "index", tmp_path / "disk")
    (root / "index").symlink_to(tmp_path / "disk")
    (root / "circle").symlink_to(root)
    (root / "nowhere").symlink_to(root / "gone")
    os.mkfifo(root / "fifo")
    lines = write(open_store(root)).splitlines()
    names = [line[66:].decode() for line in lines]
    assert sum(name.startswith("index/") for name in names) == len(list((tmp_path / "disk").iterdir()))
    assert not {"fifo", "nowhere"} & set(names)
    assert not any(name.startswith("circle") for name in names)


@pytest.fixture
def deep(root: Path) -> Iterator[Path]:
    """A directory deeper than Python's stack, which shutil.rmtree could not take away again."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    yield root
    subprocess.run(["rm", "-rf", root / "d"], check=True)


@pytest.mark.full
def test_deep_tree(deep: Path) -> None:
    assert write(open_store(deep))


def test_file_that_cannot_be_opened_is_a_finding(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rmqtool.io import local

    opened = local._open_without_trace

    def refuse(path: str) -> int:
        if Path(path).name == "checkpoint":
            raise PermissionError(EACCES, "Permission denied", path)
        return opened(path)

    monkeypatch.setattr(local, "_open_without_trace", refuse)
    findings = FindingLog()
    lines = make_manifest(open_store(root), 1, QUIET, findings)
    assert [(finding.code.code, finding.file) for finding in findings] == [("IO-DENIED", "checkpoint")]
    assert b"checkpoint" not in {line.name for line in lines}


@pytest.mark.parametrize("text", [b"no digest", b"0" * 63 + b"  short", b"0" * 64 + b"  ", b"0" * 64])
def test_line_of_another_kind_is_a_usage_error(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "manifest").write_bytes(b"\n" + text + b"\n")
    with pytest.raises(UsageError, match="line 2"):
        load_manifest(tmp_path / "manifest")


def test_manifest_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailureError, match="cannot be read"):
        load_manifest(tmp_path / "manifest")


@pytest.mark.parametrize("name", [b"plain", b"a\\nb", b"a\nb\\\r", b"\xff", b" *x"])
def test_lines_survive_the_way_there_and_back(name: bytes) -> None:
    line = ManifestLine(name, "ab" * 32)
    data = line.to_bytes()
    assert data.count(b"\n") == 1
    assert parse_line(data[:-1]) == line


def test_mismatch_tells_both_digests(root: Path, manifest: Path) -> None:
    (root / "checkpoint").write_bytes(b"")
    (found,) = check_manifest(open_store(root), manifest, load_manifest(manifest), 1, QUIET)
    assert isinstance(found, Finding)
    assert found.observed == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert found.expected != found.observed
