"""Journals that somebody else put into a store, and roots that others can write: nothing outside changes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.commands.rebuild import run as rebuild_module
from rmqtool.commands.repair import run as repair_module
from rmqtool.commands.repair.run import log_facts
from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.reput.pipeline import run_reput
from rmqtool.store.disk import Disk
from rmqtool.store.journal import JOURNAL, Journal, Move, read_journal
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

NAME = f"{JOURNAL}0001"
LAST = "commitlog/00000000000000049152"
Picture = dict[str, tuple[int, int, int, int, bytes | None]]

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store beside a directory that is none of it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("x")
    return shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")


def picture(folder: Path) -> Picture:
    found: Picture = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[str(path)] = (status.st_mode, status.st_uid, status.st_mtime_ns, status.st_nlink, data)
    return found


def plant(root: Path, *moves: tuple[str, str], times: dict[str, Any] | None = None, **facts: object) -> Path:
    """Write a journal, with digests that are right, that was interrupted before its first move."""
    place = root / NAME
    for name in ("staged", "aside", "kept"):
        (place / name).mkdir(parents=True, exist_ok=True)
    (place / "staged" / "x").write_text("x")
    known = {"findings": {}, "log": log_facts(rmqtool.open(root).files), **facts}
    steps = tuple(Move(source, target, "planted") for source, target in moves)
    (place / "journal.ndjson").write_text(Journal(NAME, steps, times or {"": 5}, known).text())
    return place


def begin(root: Path) -> None:
    """Say that this user began the repair whose journal lies there."""
    disk = Disk(root)
    repair_module._prove(disk, read_journal(disk, NAME))


def assert_refused(root: Path, match: str = "out of the store") -> None:
    before = picture(root.parent)
    calls: tuple[dict[str, Any], ...] = ({}, {"plan": True}, {"undo": True})
    for options in calls:
        with pytest.raises(RefusedError, match=match):
            rmqtool.open(root).repair(**options)
    assert picture(root.parent) == before


@pytest.mark.parametrize(
    "move",
    [
        (f"{NAME}/staged/x", "../out"),
        (f"{NAME}/staged/x", "{outside}/y"),
        (f"{NAME}/staged/x", "{outside}/x"),
        ("{outside}/x", f"{NAME}/aside/x"),
        (f"{NAME}/staged/x", "x"),
        (LAST, f"{NAME}/aside/{LAST}"),
        (f"{NAME}/staged/{LAST}", LAST),
        (f"{NAME}/staged/commitlog/x", "commitlog/x"),
        ("commitlog", f"{NAME}/aside/commitlog"),
        ("consumequeue", f"{NAME}/kept/consumequeue"),
        ("config", f"{NAME}/aside/config"),
        ("config/broker.conf", f"{NAME}/aside/config/broker.conf"),
        ("recipe.toml", f"{NAME}/aside/recipe.toml"),
        ("lock", f"{NAME}/aside/lock"),
        ("index/20260101000000000", f"{NAME}/aside/index/20260101000000000"),
    ],
    ids=" to ".join,
)
def test_a_journal_moves_what_a_repair_moves_and_nothing_else(move: tuple[str, str], root: Path) -> None:
    source, target = (one.format(outside=root.parent / "outside") for one in move)
    plant(root, (source, target))
    assert_refused(root)


@pytest.mark.parametrize("facts", [{"log": None}, {"findings": 5}, {"findings": {"X": "many"}}])
def test_a_journal_without_what_a_repair_notes_is_refused(facts: dict[str, Any], root: Path) -> None:
    plant(root, ("abort", f"{NAME}/aside/abort"), **facts)
    assert_refused(root)


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "theirs"])
def test_only_files_of_its_own_are_put_in(kind: str, root: Path) -> None:
    place = plant(
        root, ("checkpoint", f"{NAME}/aside/checkpoint"), (f"{NAME}/staged/checkpoint", "checkpoint")
    )
    begin(root)
    staged = place / "staged" / "checkpoint"
    if kind == "link":
        staged.symlink_to(root.parent / "outside" / "x")
    elif kind == "hard link":
        staged.hardlink_to(root.parent / "outside" / "x")
    elif kind == "pipe":
        os.mkfifo(staged)
    else:
        (place / "staged").rename(root.parent / "outside" / "staged")
        (place / "staged").symlink_to(root.parent / "outside" / "staged")
    assert_refused(root)


@pytest.mark.parametrize("kind", ["link", "file", "pipe", "link inside", "nothing"])
def test_what_is_no_directory_with_a_journal_is_refused(kind: str, root: Path) -> None:
    place = root / NAME
    if kind == "link":
        place.symlink_to(root.parent / "outside")
    elif kind == "file":
        place.write_text("x")
    else:
        plant(root, ("abort", f"{NAME}/aside/abort"))
        (place / "journal.ndjson").unlink()
        if kind == "pipe":
            os.mkfifo(place / "journal.ndjson")
        elif kind == "link inside":
            (place / "journal.ndjson").symlink_to(root.parent / "outside" / "x")
    assert_refused(root)


def test_a_directory_that_became_a_link_is_not_gone_through(root: Path) -> None:
    place = plant(
        root,
        ("config/topics.json", f"{NAME}/aside/config/topics.json"),
        (f"{NAME}/staged/config/topics.json", "config/topics.json"),
    )
    (place / "aside" / "config").mkdir()
    (place / "staged" / "config").mkdir()
    (place / "staged" / "config" / "topics.json").write_text("{}")
    begin(root)
    (root / "config").rename(root.parent / "outside" / "config")
    (root / "config").symlink_to(root.parent / "outside" / "config")
    assert_refused(root, "nothing is changed in it")


@as_root
def test_a_journal_of_a_third_party_is_refused(root: Path) -> None:
    place = plant(root, ("checkpoint", f"{NAME}/aside/checkpoint"))
    for path in (place, place / "journal.ndjson", place / "aside"):
        os.chown(path, 4711, 4711)
        assert_refused(root, "neither to the store's owner nor to you")
        os.chown(path, 0, 0)
    os.chown(root, 4711, 4711)
    os.chown(place, 4711, 4711)
    assert rmqtool.open(root).repair(plan=True).outcome == "interrupted"


@as_root
def test_a_staged_file_of_a_third_party_is_not_put_in(root: Path) -> None:
    place = plant(root, (f"{NAME}/staged/lock", "lock"))
    (root / "lock").unlink()
    (place / "staged" / "lock").write_bytes(b"lock")
    assert rmqtool.open(root).repair(plan=True).outcome == "interrupted"
    os.chown(place / "staged" / "lock", 4711, 4711)
    begin(root)
    assert_refused(root, "a third party's")


@pytest.mark.parametrize("digests", [True, False], ids=["with digests", "version 1"])
def test_a_planted_journal_of_lawful_moves_is_shown_and_not_carried_out(
    run: Callable[..., Run], root: Path, digests: bool
) -> None:
    """A writer of the store can make all of it but the proof that lies outside."""
    place = plant(root, ("checkpoint", f"{NAME}/aside/checkpoint"))
    if not digests:
        lines = [json.loads(line) for line in (place / "journal.ndjson").read_text().splitlines()]
        lines = [{key: value for key, value in line.items() if key != "sha256"} for line in lines]
        lines[0]["journal"] = 1
        (place / "journal.ndjson").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    before = picture(root.parent)
    shown = run("repair", root, "--plan")
    assert (shown.status, re.search(r"set aside +checkpoint: planted", shown.out) is not None) == (1, True)
    assert "nothing shows that you began this repair here" in " ".join(shown.out.split())
    for refused in [run("repair", root, option) for option in ("--yes", "--undo")]:
        assert (refused.status, refused.out) == (4, "")
        assert "nothing shows that you began this repair here" in refused.err
    assert picture(root.parent) == before

    (words,) = re.findall("(mkdir -p -m 700 .* && touch [^;]*);", run("repair", root, "--yes").err)
    subprocess.run(["sh", "-c", words], check=True)
    alone = run("repair", root)
    assert (alone.status, NAME in alone.err, "--plan" in alone.err) == (4, True, True)
    assert "--yes" in alone.err
    assert "1 CP-MISSING" in run("repair", root, "--yes").out
    assert (root / NAME / "aside" / "checkpoint").exists()
    assert run("repair", root, "--undo").status == 0
    assert {path.name for path in root.iterdir()} == {path.name for path in fixture("plain-5.3.3").iterdir()}


def test_a_planted_undo_removes_nothing(root: Path) -> None:
    """It would move the present checkpoint away, and remove it with the journal."""
    place = plant(
        root, ("checkpoint", f"{NAME}/aside/checkpoint"), (f"{NAME}/staged/checkpoint", "checkpoint")
    )
    (place / "aside" / "checkpoint").write_bytes(bytes(4096))
    before = picture(root.parent)
    with pytest.raises(RefusedError, match="nothing shows that you began this repair here"):
        rmqtool.open(root).repair(undo=True)
    assert picture(root.parent) == before


@pytest.mark.parametrize("change", ["text", "place", "link", "theirs", "open folder"])
def test_a_proof_is_of_one_journal_in_one_place_and_of_this_user(change: str, root: Path) -> None:
    place = plant(root, ("checkpoint", f"{NAME}/aside/checkpoint"))
    begin(root)
    assert rmqtool.open(root).repair(plan=True).left == ()
    disk = Disk(root)
    proof = repair_module._proof_of(disk, read_journal(disk, NAME))
    if change == "text":
        plant(root, ("checkpoint", f"{NAME}/aside/checkpoint"), ("abort", f"{NAME}/aside/abort"))
        (root / "abort").write_text("1")
    elif change == "place":
        root = root.rename(root.parent / "moved")
    elif change == "link":
        proof.unlink()
        proof.symlink_to(place / "journal.ndjson")
    elif change == "theirs" and os.geteuid() == 0:
        os.chown(proof, 4711, 4711)
    else:
        proof.parent.chmod(0o777)
    try:
        with pytest.raises(RefusedError, match="nothing shows that you began this repair here"):
            rmqtool.open(root).repair()
    finally:
        proof.parent.chmod(0o700)


def test_nothing_is_begun_that_nobody_could_finish(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "abort").write_text("1")
    before = picture(root)
    monkeypatch.setenv("XDG_STATE_HOME", str(root / "recipe.toml"))  # no folder can be made there
    with pytest.raises(EnvironmentFailureError, match="set XDG_STATE_HOME to a folder of your own; nothing"):
        rmqtool.open(root).repair()
    assert picture(root) == before


def test_what_came_into_a_journal_since_is_not_removed_with_it(root: Path) -> None:
    (root / "abort").write_text("1")
    assert rmqtool.open(root).repair().outcome == "done"
    (root / NAME / "aside" / "notes").write_text("of the operator")
    with pytest.raises(RefusedError, match=f"{NAME}/aside/notes: .* --undo again"):
        rmqtool.open(root).repair(undo=True)
    assert (root / NAME / "aside" / "notes").exists()
    (root / NAME / "aside" / "notes").unlink()
    assert rmqtool.open(root).repair(undo=True).outcome == "undone"
    assert (root / "abort").read_text() == "1"


def test_a_store_that_crashed_after_a_repair_can_be_repaired_again(root: Path) -> None:
    for number in (1, 2):
        (root / "abort").write_text("1")
        done = rmqtool.open(root).repair()
        assert (done.outcome, done.journal) == ("done", f"{JOURNAL}000{number}")


def _lose_queues(root: Path) -> None:
    (root / "abort").write_text("1")
    shutil.rmtree(root / "consumequeue" / "Orders")


@as_root
def test_root_repairs_the_store_of_another_user(root: Path) -> None:
    """What was made belongs to that user, and nothing of it can be reached by names while it is made."""
    _lose_queues(root)
    for path in (root, *root.rglob("*")):
        os.chown(path, 4711, 4712)
    assert rmqtool.open(root).repair().outcome == "done"
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in (root, *root.rglob("*"))} == {(4711, 4712)}
    assert (root / NAME).stat().st_mode & 0o777 == root.stat().st_mode & 0o755
    assert rmqtool.open(root).repair(undo=True).outcome == "undone"


@as_root
@pytest.mark.few(1)
@pytest.mark.parametrize("what", ["", "/staged", "/rebuilt"])
def test_root_writes_nowhere_else_when_a_draft_is_exchanged(
    what: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a link to a directory of root's own, amid the rebuild; inside of a draft only root can rename."""
    outside = root.parent / "outside"
    _lose_queues(root)
    os.chown(root, 4711, 4712)
    before = picture(outside)

    def exchanging(*given: Any, **options: Any) -> Any:  # noqa: ANN401 - as `run_reput`
        if options["emit"]:
            (draft,) = root.glob(f".{JOURNAL}new-*")
            assert draft.stat().st_mode & 0o777 == 0o700
            assert draft.stat().st_uid == 0
            place = root / f"{draft.name}{what}"
            if place.exists():
                place.rename(root / "moved")
            place.symlink_to(outside)
        return run_reput(*given, **options)

    monkeypatch.setattr(rebuild_module, "run_reput", exchanging)
    with pytest.raises((EnvironmentFailureError, RefusedError)):
        rmqtool.open(root).repair()
    assert picture(outside) == before
    assert not list(root.glob(f"{JOURNAL}*"))


@as_root
def test_root_takes_no_directory_that_the_owner_puts_in_the_place_of_its_draft(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the making of the draft and its first use."""
    _lose_queues(root)
    os.chown(root, 4711, 4712)
    real = os.mkdir

    def exchanging(path: str | Path, *given: Any, **options: Any) -> None:  # noqa: ANN401 - as `os.mkdir`
        real(path, *given, **options)
        if str(path).startswith(f".{JOURNAL}new-"):
            (root / path).rename(root / "moved")
            real(root / path, 0o700)
            os.chown(root / path, 4711, 4712)

    monkeypatch.setattr(os, "mkdir", exchanging)
    with pytest.raises(EnvironmentFailureError, match="somebody has exchanged it"):
        rmqtool.open(root).repair()
    assert not list((root / "moved").iterdir())
    assert not [path for path in root.rglob("*") if path.name in {"staged", "rebuilt"}]


@pytest.mark.parametrize("choices", [{}, {"topics.json": "bak"}])
def test_settings_behind_a_link_are_not_copied_into_the_store(choices: dict[str, str], root: Path) -> None:
    """Its owner could read there what only the one who repairs may."""
    secret = root.parent / "outside" / "x"
    secret.write_text('{"topicConfigTable": {"Secret": {"topicName": "Secret", "perm": 6}}}')
    (root / "config" / "topics.json").write_text("{")
    (root / "config" / "topics.json.bak").symlink_to(secret)
    report = rmqtool.open(root).repair(config=choices)
    assert [one.path for one in report.left] == ["config/topics.json"]
    assert "topics.json.bak is a link" in report.left[0].why
    assert (root / "config" / "topics.json").read_text() == "{"


@as_root
def test_root_gives_nothing_away_but_its_own_draft(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a directory of root's own lies in the store, and gets the draft's name."""
    _lose_queues(root)
    os.chown(root, 4711, 4712)
    secret = root / "backup"
    secret.mkdir(0o700)
    (secret / "key").write_text("secret")

    def exchanging(*given: Any, **options: Any) -> Any:  # noqa: ANN401 - as `run_reput`
        found = run_reput(*given, **options)
        if options["emit"]:
            (draft,) = root.glob(f".{JOURNAL}new-*")
            draft.rename(root / "moved")
            secret.rename(draft)
        return found

    monkeypatch.setattr(rebuild_module, "run_reput", exchanging)
    with pytest.raises((EnvironmentFailureError, RefusedError)):
        rmqtool.open(root).repair()
    (kept,) = root.rglob("key")
    assert (kept.read_text(), kept.stat().st_uid, kept.parent.stat().st_uid) == ("secret", 0, 0)
