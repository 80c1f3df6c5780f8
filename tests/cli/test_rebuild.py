"""The door of ``rebuild``: options, formats, statuses; what is built is judged elsewhere."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import STORES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

LOCAL = ("--engine", "local", "--jobs", 1)


def test_a_rebuild_leaves_the_result_a_summary_and_a_hint(
    run: Callable[..., Run], plain: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    found = run("rebuild", plain, *LOCAL, "--out", out, "--compare")
    assert found.status == 0
    assert sorted(path.name for path in out.iterdir()) == ["consumequeue", "index", "rebuild.json"]
    assert "163 in 10 queues" in found.out
    assert "the present files are the same" in found.out
    assert "To install: stop the broker" in found.err
    assert json.loads((out / "rebuild.json").read_text())["records"] == 163


def test_the_lines_that_install_it_can_be_pasted(
    run: Callable[..., Run], plain: Path, tmp_path: Path
) -> None:
    """Whatever the names are, and each step only where the one before was done."""
    store = shutil.copytree(plain, tmp_path / "it's a store")
    (store / "abort").touch()
    found = run("rebuild", store, *LOCAL, "--out", tmp_path / "a result")
    check, install = (line.strip() for line in found.err.splitlines() if line.startswith("  "))
    assert shlex.split(check) == ["rmqtool", "verify", str(store)]
    before = sorted(one.name for one in store.iterdir())
    subprocess.run(["sh", "-c", install], check=True)
    away = tmp_path / "it's a store.before"
    assert sorted(one.name for one in away.iterdir()) == ["abort", "consumequeue", "index"]
    assert sorted([one.name for one in store.iterdir()] + ["abort"]) == before
    assert run("verify", store).status == 0
    again = subprocess.run(["sh", "-c", install], check=False, capture_output=True)
    assert again.returncode != 0
    assert sorted([one.name for one in store.iterdir()] + ["abort"]) == before


def test_the_json_document(run: Callable[..., Run], plain: Path) -> None:
    found = run("rebuild", plain, *LOCAL, "--dry-run", "--format", "json", "-q")
    document = found.document
    assert found.err == ""
    assert document["schema"] == "rmqtool.rebuild/2"
    assert (document["units"], document["indexEntries"], document["queues"]) == (163, 466, 10)
    assert (document["out"], document["partial"], document["exitStatus"]) == (None, False, 0)


def test_the_index_alone(run: Callable[..., Run], plain: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("rebuild-index", plain, *LOCAL, "--out", out).status == 0
    assert sorted(path.name for path in out.iterdir()) == ["index", "rebuild.json"]


def test_a_part_of_the_messages_is_partial(run: Callable[..., Run], plain: Path, tmp_path: Path) -> None:
    found = run("rebuild", plain, *LOCAL, "--out", tmp_path / "out", "--topic", "Orders", "--format", "json")
    assert (found.document["partial"], found.document["units"]) == (True, 32)
    assert "warning:" in found.err


def test_a_damaged_log_is_status_5(run: Callable[..., Run], plain_copy: Path) -> None:
    with (plain_copy / "commitlog" / f"{8192:020d}").open("r+b") as file:
        file.seek(4)
        file.write(b"\0\0\0\0")
    found = run("rebuild", plain_copy, *LOCAL, "--dry-run")
    assert found.status == 5
    assert "skipped" in found.out
    assert run("rebuild", plain_copy, *LOCAL, "--dry-run", "--fail-on", "never").status == 0


def test_differences_are_status_1(run: Callable[..., Run], plain_copy: Path) -> None:
    (plain_copy / "consumequeue" / "Orders" / "0" / f"{0:020d}").write_bytes(bytes(200))
    found = run("rebuild", plain_copy, *LOCAL, "--compare")
    assert found.status == 1
    assert "differs" in found.out


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ((), 2),
        (("--dry-run", "--master", "local[1]"), 2),
        (("--dry-run", "--until-timestamp", "soon"), 2),
        (("--dry-run", "--until-offset", "-1"), 2),
        (("--dry-run", "--timezone", "Nowhere"), 2),
    ],
)
def test_wrong_options(run: Callable[..., Run], plain: Path, words: tuple[str, ...], status: int) -> None:
    assert run("rebuild", plain, *LOCAL, *words).status == status


def test_wrong_spark_settings(run: Callable[..., Run], plain: Path) -> None:
    assert run("rebuild", plain, "--dry-run", "--spark-conf", "no-value").status == 2


def test_an_output_that_is_there_or_in_the_evidence_is_refused(
    run: Callable[..., Run], plain_copy: Path, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    assert run("rebuild", plain_copy, *LOCAL, "--out", tmp_path / "full").status == 4
    assert run("rebuild", plain_copy, *LOCAL, "--out", plain_copy / "new").status == 4
    assert not (plain_copy / "new").exists()


def test_what_is_no_store(run: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = run("rebuild", tmp_path / "empty", *LOCAL, "--dry-run")
    assert (found.status, found.out) == (3, "")


@pytest.mark.parametrize("command", ["rebuild", "rebuild-index"])
def test_what_is_not_looked_at_is_said(run: Callable[..., Run], command: str) -> None:
    """What half and op messages say of each other is verify's; without transactions it is nothing."""
    options = ("--dry-run", "--engine", "local", "--format", "json")
    transactions, plain = STORES / "transaction-5.3.3", STORES / "plain-5.3.3"
    (said,) = run(command, transactions, *options).document["notLookedAt"]
    assert "CL-HALF, CL-OP, CL-PREPARED" in said
    assert run(command, plain, *options).document["notLookedAt"] == []
    assert f"not examined   {said}" in run(command, transactions, *options[:3]).out
