"""The comparison of two checkouts: the same on both sides is no difference, and a changed package is one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.judges.__main__ import compare
from tests.judges.differences import differences
from tests.judges.jobs import Job
from tests.store.fixture_stores import fixture

REPOSITORY = Path(__file__).resolve().parents[2]
STORE = str(fixture("plain-5.5.1"))
JOBS = [Job("schema", [["schema", "query"]]), Job("query", [["query", STORE, "--key", "NoSuchKey"]], STORE)]


@pytest.mark.full
def test_a_changed_package_is_a_difference(tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(REPOSITORY / "rmqtool", other / "rmqtool")
    errors = other / "rmqtool" / "errors.py"
    errors.write_text(errors.read_text().replace("NEGATIVE = 1", "NEGATIVE = 7"))
    (tmp_path / "work").mkdir()
    found = list(compare((REPOSITORY, other), JOBS, tmp_path / "work"))
    assert found == [("status", "00001 query", "status.0", ["@@ -1 +1 @@", "-1", "+7"])]


def test_paths_and_times_are_no_difference(tmp_path: Path) -> None:
    for side, seconds in (("old", 1), ("new", 2)):
        folder = tmp_path / side / "00000"
        folder.mkdir(parents=True)
        (folder / "out.0").write_text(f'{{"out": "{folder}", "seconds": {seconds}, "x": 1}}\n')
        (folder / "err.0").write_text(f"written in {seconds}.5 s to {folder}\n")
    old, new = tmp_path / "old" / "00000", tmp_path / "new" / "00000"
    assert list(differences(old, new, (), 9)) == []
    (new / "out.0").write_text('{"x": 2}\n')
    (new / "store").write_bytes(b"\x00")
    found = list(differences(old, new, ("out",), 9))
    assert [(kind, name) for kind, name, _ in found] == [("data", "out.0"), ("bytes", "store")]
    assert found[0][2][1:] == ['- "x": 1', '+ "x": 2']
