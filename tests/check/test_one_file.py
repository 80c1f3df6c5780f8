"""One file given alone: its siblings still tell the settings; without them, one thing is said."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rmqtool.actions.verification import verify
from rmqtool.check import VerifyReport, VerifyRequest
from rmqtool.findings import Severity
from rmqtool.store import open_store
from tests.commands.rebuilding import Listener
from tests.damage.running import ONE_THREAD
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """An index file among others of a store, its item 1 overwritten: it proves nothing of itself any more."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root, ignore=shutil.ignore_patterns("broker.conf"))
    path = sorted((root / "index").iterdir())[4]
    data = bytearray(path.read_bytes())
    data[160:180] = b"\xff" * 20
    path.write_bytes(data)
    return path


def _verified(path: Path) -> VerifyReport:
    return verify(VerifyRequest(open_store(path), engine=ONE_THREAD), Listener())


def test_its_siblings_tell_how_it_is_divided(broken: Path) -> None:
    report = _verified(broken)
    assert report.examined.items == 39
    assert "IX-GEOMETRY" not in report.findings.counts
    assert report.findings.counts["IX-WRONG"] == 1


def test_without_siblings_one_thing_is_said(broken: Path, tmp_path: Path) -> None:
    """No nonsense about slots and items of a geometry that is not the file's."""
    alone = tmp_path / "alone" / "index" / broken.name
    alone.parent.mkdir(parents=True)
    shutil.copyfile(broken, alone)
    report = _verified(alone)
    (finding,) = report.findings
    assert (finding.code.code, finding.severity) == ("IX-GEOMETRY", Severity.ERROR)
    assert "maxHashSlotNum" in finding.message
    assert report.exit_status() == 1
