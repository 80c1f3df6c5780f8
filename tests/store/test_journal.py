"""The journal of repairs: killed, out of power or out of space anywhere, a store is before or after.

Every point between two calls to the disk is a point where the process dies, and one where the power fails;
after either the next run finishes, or undoes.
"""

from __future__ import annotations

import copy
import errno
import json
import os
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.errors import RefusedError
from rmqtool.store.disk import Disk
from rmqtool.store.journal import (
    JOURNAL,
    Draft,
    Journal,
    Move,
    done_moves,
    finish,
    journals,
    read_journal,
    sweep,
    undo,
)
from tests.store.model_disk import Entry, Kill, ModelDisk, Picture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_QUICK_SEEDS = 1
_ALL_SEEDS = 6


def _file(text: str, modified_ns: int, mode: int = 0o640) -> Entry:
    return Entry(mode, modified_ns, text.encode())


def _directory(modified_ns: int) -> Entry:
    return Entry(0o750, modified_ns, None)


BEFORE: Picture = {
    "": _directory(1),
    "abort": _file("4711", 2),
    "checkpoint": _file("cut", 3),
    "commitlog": _directory(4),
    "commitlog/00000000000000000000": _file("records", 5),
    "commitlog/.nfs0001": _file("stray", 6),
    "config": _directory(7),
    "config/consumerOffset.json": _file("\0\0\0", 8),
    "config/consumerOffset.json.bak": _file("{}", 9),
    "config/topics.json": _file('{"topicConfigTable":', 10, 0o600),
    "consumequeue": _directory(11),
    "consumequeue/Old": _directory(18),
    "consumequeue/Old/0": _directory(19),
    "consumequeue/T": _directory(12),
    "consumequeue/T/1": _directory(20),
    "consumequeue/T/1/00000000000000000000": _file("old units", 21),
    "consumequeue/T/0": _directory(13),
    "consumequeue/T/0/00000000000000000000": _file("units", 14),
    "index": _directory(15),
    "index/20260101000000000": _file("items", 16),
    "lock": _file("lock", 17, 0o644),
}


def _settings(draft: Draft) -> None:
    for name in ("consumerOffset.json", "topics.json"):
        draft.write(f"config/{name}", b'{"mended":1}', 0o600)
        draft.take_out(f"config/{name}", "damaged")
        draft.put_in(f"config/{name}", "mended")


def _small(draft: Draft) -> None:
    draft.take_out("abort", "queues are complete")
    draft.write("checkpoint", b"checkpoint" * 30)
    draft.take_out("checkpoint", "cut")
    draft.put_in("checkpoint", "made anew")
    draft.take_out("commitlog/.nfs0001", "no segment")


def _trees(draft: Draft) -> None:
    for name in ("consumequeue", "index", "batchconsumequeue"):
        draft.write(f"{name}/T/0/00000000000000000000", name.encode() * 20)
    draft.keep("consumequeue/Old", "expired")
    draft.keep("consumequeue/T/1", "expired")
    for name in ("consumequeue", "index"):
        draft.take_out(name, "damaged")
        draft.put_in(name, "rebuilt")
    draft.put_back("consumequeue/Old", "expired")
    draft.put_back("consumequeue/T/1", "expired")
    draft.put_in("batchconsumequeue", "rebuilt")


def _everything(draft: Draft) -> None:
    _trees(draft)
    _small(draft)
    _settings(draft)


PLANS: dict[str, Callable[[Draft], None]] = {
    "settings": _settings,
    "small": _small,
    "trees": _trees,
    "everything": _everything,
}
EACH_PLAN = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


def repair(disk: Disk, plan: Callable[[Draft], None]) -> None:
    """Do what `rmqtool repair` does with a disk: go on with what is decided, or decide and do it."""
    sweep(disk)
    names = journals(disk)
    if names:
        journal = read_journal(disk, names[-1])
    else:
        draft = Draft(disk)
        plan(draft)
        journal = draft.decide({"why": "test"})
    finish(disk, journal)


def take_back(disk: Disk) -> None:
    """Do what `rmqtool repair --undo` does."""
    sweep(disk)
    for name in journals(disk)[-1:]:
        undo(disk, read_journal(disk, name))


def contents(picture: Picture) -> dict[str, tuple[int, bytes | None]]:
    """Return names, modes and bytes of a store, without the journal's own and without times."""
    return {
        path: (entry.mode, entry.data)
        for path, entry in picture.items()
        if not path.startswith((JOURNAL, f".{JOURNAL}"))
    }


def after(plan: Callable[[Draft], None]) -> dict[str, tuple[int, bytes | None]]:
    disk = ModelDisk(BEFORE)
    repair(disk, plan)
    return contents(disk.picture())


def calls_of(start: Picture, deed: Callable[[ModelDisk], None]) -> int:
    """Return how many calls to the disk a deed takes."""
    disk = ModelDisk(start)
    deed(disk)
    return disk.calls


@dataclass(frozen=True)
class Point:
    """Where a deed was stopped."""

    disk: ModelDisk
    is_last_window: bool


def stopped(start: Picture, deed: Callable[[ModelDisk], None], failure: BaseException) -> Iterator[Point]:
    """Yield the disk at every call where a deed can be stopped."""
    total = calls_of(start, deed)
    for number in range(total):
        disk = ModelDisk(start)
        disk.fails_at, disk.failure = number, failure
        with pytest.raises(type(failure)):
            deed(disk)
        disk.fails_at = None
        yield Point(disk, number >= total - 2)


def pictures(point: Point, seeds: int) -> Iterator[Picture]:
    """Yield what the next run finds: after a kill what was there, after a power cut what is left of it."""
    yield point.disk.picture()
    for seed in range(seeds):
        yield copy.deepcopy(point.disk).power_cut(random.Random(seed))


def assert_before(picture: Picture, *, root_time: bool = True) -> None:
    """Assert that every byte, name, mode and time is as it was; the root's own time where it can be."""
    found = dict(picture)
    if not root_time:
        found[""] = found[""]._replace(modified_ns=BEFORE[""].modified_ns)
    assert found == BEFORE


def assert_recoverable(picture: Picture, plan: Callable[[Draft], None], *, root_time: bool = True) -> None:
    """Assert that the next run can finish, and that it can undo."""
    disk = ModelDisk(picture)
    repair(disk, plan)
    assert contents(disk.picture()) == after(plan)
    disk = ModelDisk(picture)
    take_back(disk)
    assert_before(disk.picture(), root_time=root_time)
    disk = ModelDisk(picture)
    repair(disk, plan)
    take_back(disk)
    assert_before(disk.picture(), root_time=root_time)


def _campaign(plan: Callable[[Draft], None], seeds: int) -> int:
    """Stop a repair and an undo at every call; return how many states were recovered from."""
    count = 0
    for point in stopped(BEFORE, lambda disk: repair(disk, plan), Kill()):
        for picture in pictures(point, seeds):
            assert_recoverable(picture, plan, root_time=_knows_root_time(picture))
            count += 1
    done = ModelDisk(BEFORE)
    repair(done, plan)
    for point in stopped(done.picture(), take_back, Kill()):
        for picture in pictures(point, seeds):
            assert_recoverable(picture, plan, root_time=_knows_root_time(picture))
            count += 1
    return count


def _knows_root_time(picture: Picture) -> bool:
    """Tell whether anything on the disk still tells the root's time: see the journal's docstring."""
    ours = any(path.startswith((JOURNAL, f".{JOURNAL}")) for path in picture)
    return ours or picture[""].modified_ns == BEFORE[""].modified_ns


@pytest.mark.parametrize("plan", [_settings, _small])
def test_killed_or_without_power_anywhere(plan: Callable[[Draft], None]) -> None:
    assert _campaign(plan, _QUICK_SEEDS) > 100


@pytest.mark.mutation
@EACH_PLAN
def test_many_power_cuts_anywhere(plan: Callable[[Draft], None]) -> None:
    assert _campaign(plan, _ALL_SEEDS) > 300


@EACH_PLAN
def test_the_root_s_time_is_lost_at_one_point_only(plan: Callable[[Draft], None]) -> None:
    """Of all kills: between the removal of the last directory and the call that restores the time."""
    done = ModelDisk(BEFORE)
    repair(done, plan)
    found = [
        *stopped(BEFORE, lambda disk: repair(disk, plan), Kill()),
        *stopped(done.picture(), take_back, Kill()),
    ]
    lost = [point for point in found if not _knows_root_time(point.disk.picture())]
    assert len(lost) == 1
    assert lost[0].is_last_window


@pytest.mark.parametrize("plan", [_settings, _small])
def test_a_full_disk_or_a_bad_one_anywhere(plan: Callable[[Draft], None]) -> None:
    """The error is raised, and the store can be finished or undone as after a kill."""
    for code in (errno.ENOSPC, errno.EIO):
        for point in stopped(BEFORE, lambda disk: repair(disk, plan), OSError(code, "injected")):
            assert_recoverable(point.disk.picture(), plan, root_time=_knows_root_time(point.disk.picture()))


@pytest.mark.mutation
def test_a_second_power_cut_while_the_first_is_mended() -> None:
    chance = random.Random(7)
    for first in stopped(BEFORE, lambda disk: repair(disk, _small), Kill()):
        picture = first.disk.power_cut(chance)
        for deed in (lambda disk: repair(disk, _small), take_back):
            for second in stopped(picture, deed, Kill()):
                again = second.disk.power_cut(chance)
                assert_recoverable(again, _small, root_time=_knows_root_time(again))


@pytest.mark.parametrize("path", ["consumequeue", "rmqtool-repair-0001/aside/abort"])
def test_what_somebody_else_made_or_took_is_not_touched(path: str) -> None:
    """As by a broker that was started amid a repair, which makes its queues anew."""
    for point in stopped(BEFORE, lambda disk: repair(disk, _everything), Kill()):
        picture = point.disk.picture()
        if not journals(point.disk) or done_moves(point.disk, _only(point.disk)) < 1:
            continue
        changed = dict(picture)
        if path in changed:
            changed = {name: entry for name, entry in changed.items() if not name.startswith(path)}
        else:
            changed[path] = _directory(99)
        for deed in (lambda disk: repair(disk, _everything), take_back):
            disk = ModelDisk(changed)
            with pytest.raises(RefusedError, match="somebody else"):
                deed(disk)
            assert disk.picture() == changed


def _only(disk: ModelDisk) -> Journal:
    (name,) = journals(disk)
    return read_journal(disk, name)


@EACH_PLAN
def test_a_real_disk_does_the_same(plan: Callable[[Draft], None], tmp_path: Path) -> None:
    root = tmp_path / "store"
    _lay_out(root)
    disk = Disk(root)
    assert _picture_of(root) == BEFORE
    repair(disk, plan)
    assert contents(_picture_of(root)) == after(plan)
    take_back(disk)
    assert _picture_of(root) == BEFORE


def test_journals_are_numbered_and_undone_one_after_the_other(tmp_path: Path) -> None:
    root = tmp_path / "store"
    _lay_out(root)
    disk = Disk(root)
    for plan in (_small, _settings):
        draft = Draft(disk)
        plan(draft)
        finish(disk, draft.decide({}))
    assert journals(disk) == [f"{JOURNAL}0001", f"{JOURNAL}0002"]
    take_back(disk)
    take_back(disk)
    assert _picture_of(root) == BEFORE


NAME = f"{JOURNAL}0001"
SMALL = (Move("abort", f"{NAME}/aside/abort"), Move(f"{NAME}/staged/checkpoint", "checkpoint"))


def test_a_journal_is_read_as_it_was_written_also_one_without_digests() -> None:
    journal = Journal(NAME, SMALL, {"": 5}, {"why": "\u20ac"})
    assert Journal.parse(NAME, journal.text()) == journal
    lines = [json.loads(line) for line in journal.text().splitlines()]
    lines[0]["journal"] = 1
    for line in lines:
        del line["sha256"]
    assert Journal.parse(NAME, "\n".join(map(json.dumps, lines))) == journal


def test_a_journal_of_which_a_line_was_changed_dropped_or_added_is_refused() -> None:
    lines = Journal(NAME, SMALL, {"": 5}, {}).text().splitlines()
    other = Journal(NAME, (*SMALL[::-1],), {"": 6}, {}).text().splitlines()
    for changed in (
        [lines[0].replace('"": 5', '"": 6'), *lines[1:]],
        [lines[0], lines[1].replace("abort", "index"), lines[2]],
        [lines[0], lines[1], other[2]],
        [other[0], *lines[1:]],
        [lines[0], lines[2], lines[1]],
        lines[:2],
        [*lines, lines[2]],
    ):
        with pytest.raises(RefusedError, match=rf"{NAME}/journal.ndjson: is .* out of the store"):
            Journal.parse(NAME, "\n".join(changed))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (f"{NAME}/staged/x", "../out"),
        (f"{NAME}/staged/../out", "../out"),
        (f"{NAME}/staged//etc/out", "/etc/out"),
        ("/etc/passwd", f"{NAME}/aside//etc/passwd"),
        ("config/../../x", f"{NAME}/aside/config/../../x"),
        ("config/./x", f"{NAME}/aside/config/./x"),
        ("a\0b", f"{NAME}/aside/a\0b"),
        ("\ud800", f"{NAME}/aside/\ud800"),
        ("", f"{NAME}/aside/"),
        ("abort", "checkpoint"),
        ("abort", f"{JOURNAL}0002/aside/abort"),
        (f"{JOURNAL}0002/journal.ndjson", f"{NAME}/aside/{JOURNAL}0002/journal.ndjson"),
        (f"{NAME}/staged/x", f"{NAME}/staged/x"),
        (1, [2]),
    ],
)
def test_a_journal_that_leads_out_of_the_store_is_refused(source: Any, target: Any) -> None:  # noqa: ANN401
    for move in (Move(source, target), Move(target, source)):
        with pytest.raises(RefusedError, match=r"is not a journal .* out of the store"):
            Journal.parse(NAME, Journal(NAME, (move,), {"": 0}, {}).text())


@pytest.mark.parametrize(
    "times",
    [{}, {"": -1}, {"": 1 << 63}, {"": 1.5}, {"": 0, "/etc": 1}, {"": 0, "..": 1}, {"": 0, "config": 1}],
)
def test_a_journal_that_sets_other_times_is_refused(times: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="is not a journal"):
        Journal.parse(NAME, Journal(NAME, SMALL, times, {}).text())


def test_what_has_the_name_of_a_draft_and_is_none_is_not_swept_away(tmp_path: Path) -> None:
    for name in ("new-5", "gone-5", "new-99999999999999999999", "gone-9999999999999999999"):
        (tmp_path / f".{JOURNAL}{name}" / "of somebody else").mkdir(parents=True)
    (tmp_path / "outside" / "staged").mkdir(parents=True)
    (tmp_path / f".{JOURNAL}gone-6").symlink_to(tmp_path / "outside")
    before = sorted(tmp_path.rglob("*"))
    sweep(Disk(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before


def test_no_call_to_a_disk_leaves_the_root(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("x")
    root.mkdir()
    (root / "link").symlink_to(outside)
    (root / "file").symlink_to(outside / "x")
    disk = Disk(root)
    before = _stamps(outside)
    for path in ("link/x", "../outside/x", f"{outside}/x", "./file", "link/", "a\0b"):
        for call in (
            disk.node,
            disk.names,
            disk.remove,
            disk.sync,
            disk.make_directory,
            disk.make_private,
            lambda one: disk.read(one, 9),
            lambda one: disk.write_new(one, b"y", 0o600),
            lambda one: disk.set_modified(one, 5),
            lambda one: disk.rename(one, "new"),
            lambda one: disk.rename("file", one),
        ):
            with pytest.raises(OSError, match=r"nothing is changed|no path below|Not a directory"):
                call(path)
    with pytest.raises(OSError, match="symbolic"):
        disk.read("file", 9)
    disk.set_modified("file", 5)  # of the link itself
    assert (root / "file").lstat().st_mtime_ns == 5
    root.rename(tmp_path / "moved")
    root.mkdir()
    with pytest.raises(OSError, match="exchanged"):
        disk.make_directory("new")
    assert (_stamps(outside), [*root.iterdir()]) == (before, [])


def _stamps(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        path.name: (path.stat().st_mtime_ns, b"" if path.is_dir() else path.read_bytes())
        for path in (folder, *folder.iterdir())
    }


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"journal":2,"moves":0,"times":{}}', '{"journal":1', "\0"])
def test_what_is_no_journal_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="journal"):
        Journal.parse("rmqtool-repair-0001", text)


@pytest.mark.parametrize("version", [[], {}, 3, "2", None])
def test_a_whole_journal_of_another_version_is_refused(version: object) -> None:
    with pytest.raises(RefusedError, match="journal"):
        Journal.parse(NAME, Journal(NAME, SMALL, {"": 5}, {"journal": version}).text())


def _lay_out(root: Path) -> None:
    root.mkdir()
    for path, entry in BEFORE.items():
        if path and entry.data is None:
            (root / path).mkdir()
        elif path:
            (root / path).write_bytes(entry.data or b"")
    for path, entry in sorted(BEFORE.items(), reverse=True):
        (root / path).chmod(entry.mode)
        os.utime(root / path, ns=(5, entry.modified_ns))


def _picture_of(root: Path) -> Picture:
    disk = Disk(root)
    found = {"": root, **{str(path.relative_to(root)): path for path in root.rglob("*")}}
    picture = {}
    for name, path in found.items():
        node = disk.node(name)
        assert node is not None
        picture[name] = Entry(node.mode, node.modified_ns, None if node.is_directory else path.read_bytes())
    return picture
