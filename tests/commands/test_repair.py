"""A repair in place: what it does, what it leaves alone, and that every byte comes back."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.commands.rebuild import run as rebuild_module
from rmqtool.commands.repair import plan as repair_plan
from rmqtool.commands.repair import run as repair_module
from rmqtool.errors import EnvironmentFailureError, RefusedError, RmqtoolError, UsageError
from rmqtool.formats.checkpoint import CHECKPOINTS
from rmqtool.reput.pipeline import run_reput
from rmqtool.store.broker_json import parse_broker_json
from rmqtool.store.disk import Disk
from rmqtool.store.journal import JOURNAL, finish, sweep
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqtool import VerifyReport
    from rmqtool.commands.repair import RepairReport
    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.reput.pipeline import ReputPlan, ReputResult
    from rmqtool.store.journal import Journal

Picture = dict[str, tuple[bool, int, int, bytes | None]]


def picture(root: Path) -> Picture:
    """Return names, modes, times and bytes of a store."""
    disk = Disk(root)
    found: Picture = {}
    for path in [root, *root.rglob("*")]:
        name = "" if path == root else str(path.relative_to(root))
        node = disk.node(name)
        assert node is not None
        found[name] = node.is_directory, node.mode, node.modified_ns, None
        if path.is_file():
            found[name] = (*found[name][:3], path.read_bytes())
    return found


def repair(root: Path, **options: Any) -> RepairReport:  # noqa: ANN401 - those of `Store.repair`
    return rmqtool.open(root).repair(**options)


def spoil_queue(root: Path) -> None:
    path = min((root / "consumequeue/Orders/0").iterdir())
    data = bytearray(path.read_bytes())
    data[40:60] = bytes(20)
    path.write_bytes(data)


def spoil_index(root: Path) -> None:
    path = min((root / "index").iterdir())
    path.write_bytes(b"\xff" * 40 + path.read_bytes()[40:])


def spoil_settings(root: Path) -> None:
    path = root / "config" / "consumerOffset.json"
    text = path.read_text("utf-8")
    path.with_name(path.name + ".bak").write_text(text.replace("21", "20"), "utf-8")
    path.write_bytes(bytes(len(text)))


def spoil_small(root: Path) -> None:
    (root / "abort").write_text("4711")
    (root / "checkpoint").write_bytes(b"cut")
    (root / "commitlog" / ".nfs0001").write_text("stray")


def lose_queues(root: Path) -> None:
    for topic in ("Orders", "TopicTest"):  # others show the size of the files
        shutil.rmtree(root / "consumequeue" / topic)


def spoil_all(root: Path) -> None:
    for one in (spoil_queue, spoil_index, spoil_settings, spoil_small):
        one(root)


SPOILS: dict[str, Callable[[Path], None]] = {
    "queue": spoil_queue,
    "index": spoil_index,
    "settings": spoil_settings,
    "small": spoil_small,
    "queues": lose_queues,
    "all": spoil_all,
}


_QUICK = ("settings", "all")
EACH_SPOIL = [
    pytest.param(spoil, id=name, marks=() if name in _QUICK else pytest.mark.mutation)
    for name, spoil in SPOILS.items()
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")


@pytest.mark.few(1)
@pytest.mark.parametrize("spoil", EACH_SPOIL)
def test_mended_and_taken_back_to_the_byte(spoil: Callable[[Path], None], root: Path) -> None:
    sound = picture(root)
    spoil(root)
    before = picture(root)
    assert repair(root, plan=True).outcome == "planned"
    assert picture(root) == before  # a plan writes nothing
    done = repair(root)
    assert (done.outcome, done.left, done.exit_status()) == ("done", (), 0)
    assert done.journal == f"{JOURNAL}0001"
    log = {name for name in sound if name.startswith("commitlog/")}
    assert {name: picture(root)[name] for name in log} == {name: sound[name] for name in log}
    again = repair(root)
    assert (again.outcome, again.steps) == ("nothing-to-do", ())
    undone = repair(root, undo=True)
    assert (undone.outcome, undone.exit_status()) == ("undone", 0)
    assert picture(root) == before


def test_only_what_is_asked_for(root: Path) -> None:
    spoil_all(root)
    done = repair(root, only=["config", "strays"])
    assert {one.part for one in done.steps} == {"config", "strays"}
    assert (root / "abort").exists()


@pytest.mark.full
def test_the_user_chooses_where_entries_would_be_lost(root: Path) -> None:
    path = root / "config" / "consumerOffset.json"
    path.write_bytes(path.read_bytes()[:60])
    before = picture(root)
    found = repair(root)
    assert (found.outcome, [one.path for one in found.left]) == (
        "nothing-to-do",
        ["config/consumerOffset.json"],
    )
    assert found.exit_status() == 1
    assert picture(root) == before
    with pytest.raises(UsageError, match=r"zero: choose from prefix"):
        repair(root, config={"consumerOffset.json": "zero"})
    with pytest.raises(UsageError, match="sound"):
        repair(root, config={"topics.json": "bak"})
    done = repair(root, config={"consumerOffset.json": "prefix"})
    assert done.outcome == "done"
    assert json.loads(path.read_text()) == {"offsetTable": {"Orders@billing": {"0": 9}}}
    assert done.journal is not None
    assert path.stat().st_mode == (root / done.journal / "aside/config" / path.name).stat().st_mode


@pytest.mark.parametrize("chosen", ["groups", "empty"])
def test_a_choice_where_no_copy_holds_anything(root: Path, chosen: str) -> None:
    for suffix in ("", ".bak"):
        (root / "config" / f"subscriptionGroup.json{suffix}").write_text("<nil>")
    plan = repair(root, plan=True)
    (left,) = plan.left
    assert left.why == "choose its content: --config subscriptionGroup.json=NAME, of groups, empty"
    done = repair(root, config={"subscriptionGroup.json": chosen})
    assert (done.outcome, done.left) == ("done", ())
    assert rmqtool.open(root).verify().exit_status() == 0
    table = json.loads((root / "config" / "subscriptionGroup.json").read_text())["subscriptionGroupTable"]
    assert [*table] == (["billing", "readers"] if chosen == "groups" else [])


def test_old_bytes_after_a_whole_text_are_dropped(root: Path) -> None:
    path = root / "config" / "consumerOffset.json"
    whole = path.read_text()
    path.write_text(whole + "3:4\n\t\t}\n\t}\n}")
    done = repair(root)
    assert [step.why for step in done.steps] == [
        "whole: config/consumerOffset.json without the bytes after it, left of a longer version"
    ]
    assert parse_broker_json(path.read_text()) == parse_broker_json(whole)


def test_a_copy_is_taken_as_it_is(root: Path) -> None:
    spoil_settings(root)
    backup = (root / "config" / "consumerOffset.json.bak").read_bytes()
    repair(root, config={"consumerOffset.json": "bak"})
    assert (root / "config" / "consumerOffset.json").read_bytes() == backup


def test_nothing_is_swapped_that_would_show_less(root: Path) -> None:
    """The log lost records that the queues still lead to."""
    segment = sorted((root / "commitlog").iterdir())[2]
    data = bytearray(segment.read_bytes())
    data[:8] = b"\xff" * 8
    segment.write_bytes(data)
    spoil_queue(root)
    (root / "abort").write_text("1")
    before = picture(root)
    found = repair(root)
    assert (found.outcome, found.exit_status()) == ("nothing-to-do", 5)
    assert {one.part for one in found.left} == {"consumequeue", "index", "abort"}
    assert any(one.why.startswith("a start after it ") and "Better: " in one.why for one in found.left)
    assert picture(root) == before


def test_what_a_start_would_make_good_is_mended_before_abort_is_set_aside(root: Path) -> None:
    """A lag after a kill is no error while ``abort`` is there; without it nobody would make it good."""
    (root / "abort").write_text("1")
    last = root / "consumequeue/Orders/0/00000000000000000200"
    last.unlink()
    kept = repair(root, only=["abort"])
    assert (kept.outcome, [one.path for one in kept.left]) == ("nothing-to-do", ["abort"])
    done = repair(root)
    assert [one.path for one in done.steps] == ["consumequeue", "index", "abort", "checkpoint"]
    assert (done.exit_status(), "CQ-MISSING-MSG" in (done.after or {})) == (0, False)
    assert last.exists()


def test_no_queues_of_a_size_that_nothing_shows_are_put_in(root: Path) -> None:
    """A broker of another size does not start on them."""
    shutil.rmtree(root / "consumequeue")
    before = picture(root)
    refused = repair(root)
    assert refused.outcome == "nothing-to-do"
    assert all("no file shows mappedFileSizeConsumeQueue" in one.why for one in refused.left)
    assert {one.path for one in refused.left} == {"consumequeue", "index"}
    assert picture(root) == before
    done = rmqtool.open(root, broker_conf=root / "broker.conf").repair()
    assert (done.outcome, done.exit_status()) == ("done", 0)


def test_the_checkpoint_says_where_the_log_ends(tmp_path: Path) -> None:
    root = shutil.copytree(fixture("plain-5.5.1"), tmp_path / "store")
    last = list(rmqtool.open(root / "commitlog"))[-1]
    (root / "checkpoint").unlink()
    (root / "abort").write_text("1")
    assert repair(root).outcome == "done"
    data = (root / "checkpoint").read_bytes()
    found = CHECKPOINTS.decode(data)
    assert found is not None
    assert (len(data), found.physic_msg_timestamp_ms) == (4096, last.store_timestamp_ms)
    assert found.index_msg_timestamp_ms == found.logics_msg_timestamp_ms == last.store_timestamp_ms
    assert found.logics_physical_offset == last.physical_offset


def test_a_store_that_is_no_better_is_taken_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was wrong with what was made: verify has the last word."""
    spoil_index(root)
    before = picture(root)

    def finish_badly(disk: Disk, journal: Journal) -> None:
        finish(disk, journal)
        shutil.rmtree(root / "index")
        (root / "index").mkdir()
        spoil_queue(root)

    monkeypatch.setattr(repair_module, "finish", finish_badly)
    found = repair(root)
    assert (found.outcome, found.exit_status()) == ("rolled-back", 1)
    after = picture(root)
    assert {name for name in after if not name.startswith("consumequeue/Orders/0")} == {
        name for name in before if not name.startswith("consumequeue/Orders/0")
    }
    assert after["index"] == before["index"]


def test_an_interrupted_repair_is_finished_or_taken_back(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spoil_all(root)
    before = picture(root)
    rename = Disk.rename
    done: list[str] = []

    def failing(disk: Disk, source: str, target: str) -> None:
        if source == "index":
            raise OSError(28, "No space left on device", target)
        done.append(source)
        rename(disk, source, target)

    monkeypatch.setattr(Disk, "rename", failing)
    with pytest.raises(EnvironmentFailureError, match="--undo"):
        repair(root)
    assert "consumequeue" in done
    monkeypatch.undo()
    half = picture(root)
    for options in ({"plan": True}, {"agreed": lambda _: False}):
        shown = repair(root, **options)
        assert (shown.outcome, shown.journal, shown.exit_status()) == ("interrupted", f"{JOURNAL}0001", 1)
        assert [(one.action, one.path) for one in shown.steps[:2]] == [
            ("set-aside", "index"),
            ("put-in", "index"),
        ]
        assert picture(root) == half
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    assert repair(root, undo=True).outcome == "undone"
    assert picture(root) == before
    shutil.rmtree(root)
    copy.rename(root)
    finished = repair(root)
    assert (finished.outcome, finished.exit_status()) == ("finished", 0)


def test_a_rebuild_that_fails_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil_queue(root)
    before = picture(root)
    calls: list[bool] = []

    def failing(plan: ReputPlan, engine: Engine, progress: Progress, *, emit: bool) -> ReputResult:
        calls.append(emit)
        if emit:
            raise EnvironmentFailureError("disk full")
        return run_reput(plan, engine, progress, emit=emit)

    monkeypatch.setattr(rebuild_module, "run_reput", failing)
    with pytest.raises(EnvironmentFailureError, match="disk full"):
        repair(root)
    assert calls == [False, True]
    assert picture(root) == before


def test_a_log_that_changed_since_is_not_undone(root: Path) -> None:
    spoil_queue(root)
    repair(root)
    segment = max((root / "commitlog").iterdir())
    os.utime(segment)
    with pytest.raises(RefusedError, match="has changed since"):
        repair(root, undo=True)


def test_there_is_nothing_to_undo(root: Path) -> None:
    with pytest.raises(RefusedError, match="no repair to undo"):
        repair(root, undo=True)


def test_a_broker_at_work_is_left_alone(root: Path) -> None:
    spoil_queue(root)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl,sys; f=open(sys.argv[1],'r+'); fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,1);"
            "print('held',flush=True); sys.stdin.read()",
            str(root / "lock"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        for options in ({}, {"undo": True}, {"plan": True}):
            with pytest.raises(RefusedError, match=f"process {holder.pid}"):
                repair(root, **options)
    finally:
        holder.communicate()


def test_the_lock_is_held_until_the_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although verify looks at the store meanwhile: closing any descriptor of the file would drop it."""
    spoil_queue(root)
    probe = (
        "import fcntl,sys; f=open(sys.argv[1],'r+')\n"
        "try: fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,1)\n"
        "except OSError: print('held')"
    )
    seen: list[str] = []
    is_worse = repair_plan.is_worse

    def asked(before: VerifyReport, after: VerifyReport) -> bool:
        command = [sys.executable, "-c", probe, str(root / "lock")]
        seen.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
        return is_worse(before, after)

    monkeypatch.setattr(repair_module, "is_worse", asked)
    assert repair(root).outcome == "done"
    assert seen == ["held"]
    with (root / "lock").open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)


def test_a_store_without_a_lock_file_gets_one(root: Path) -> None:
    (root / "lock").unlink()
    spoil_queue(root)
    before = picture(root)
    assert repair(root).outcome == "done"
    assert (root / "lock").read_bytes() == b"lock"
    repair(root, undo=True)
    assert picture(root) == before


def test_directories_that_are_links_are_not_exchanged(root: Path, tmp_path: Path) -> None:
    (root / "consumequeue").rename(tmp_path / "elsewhere")
    (root / "consumequeue").symlink_to(tmp_path / "elsewhere")
    spoil_queue(root)
    found = repair(root)
    assert {one.path for one in found.left} >= {"consumequeue"}
    assert (root / "consumequeue").is_symlink()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"plan": True, "undo": True}, "exclude each other"),
        ({"only": "everything"}, "give one of config"),
        ({"config": {"nonsense.json": "bak"}}, "give one of"),
    ],
)
def test_what_makes_no_sense(options: dict[str, Any], match: str, root: Path) -> None:
    with pytest.raises(UsageError, match=match):
        repair(root, **options)
    with pytest.raises(UsageError, match="store root"):
        rmqtool.open(root / "consumequeue").repair()


MOVED = f"{JOURNAL}0001/aside/config/consumerOffset.json"


@pytest.mark.soak
def test_killed_at_random_moments(root: Path, tmp_path: Path) -> None:
    """Real processes, killed: the next run finishes or takes back, and the store is whole."""
    spoil_all(root)
    before = picture(root)
    done = tmp_path / "done"
    shutil.copytree(root, done)
    repair(done)
    after = _without_times(picture(done))
    chance, reached = random.Random(5), set[str]()
    for number in range(24):
        process = _begun(root)
        # Machines differ, so half are killed once a file has moved, a quarter once the journal is
        # there, and the others after a while.
        awaited = ("*", f"{JOURNAL}*", MOVED, MOVED)[number % 4]
        while process.poll() is None and not list(root.glob(awaited)):
            time.sleep(0.0005)
        time.sleep(chance.uniform(0, 0.1) if number else 0)
        process.kill()
        process.communicate()
        state = "decided" if list(root.glob(f"{JOURNAL}*")) else "before"
        moved = (root / MOVED).exists()
        reached.add("moved" if moved else state)
        if state == "decided" and number % 2:
            outcome = repair(root).outcome
            assert outcome in {"finished", "nothing-to-do"}
            assert _without_times(picture(root)) == after
        if state == "decided":
            repair(root, undo=True)
            assert picture(root) == before
        else:
            sweep(Disk(root))
            assert picture(root) == before
    assert reached >= {"before", "moved"}


def _begun(root: Path) -> subprocess.Popen[bytes]:
    """Begin a repair in a process of its own; it is at work once this returns."""
    code = "import sys, rmqtool; print('go', flush=True); rmqtool.open(sys.argv[1]).repair()"
    process = subprocess.Popen([sys.executable, "-c", code, str(root)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _without_times(found: Picture) -> dict[str, tuple[int, bytes | None]]:
    return {
        name: (mode, data)
        for name, (_, mode, _, data) in found.items()
        if not name.startswith((JOURNAL, f".{JOURNAL}"))
    }


def test_topics_are_restored_from_queues_that_are_made_in_the_same_run(tmp_path: Path) -> None:
    """With some queues gone, their topics were left out; with all, a second run was needed."""
    store = shutil.copytree(fixture("plain-5.5.1"), tmp_path / "store")
    shutil.rmtree(store / "consumequeue")
    (config := store / "config/topics.json").unlink()
    sizes = {"mappedFileSizeConsumeQueue": 600}
    report = rmqtool.open(store, properties=sizes).repair(config={"topics.json": "queues"})
    assert report.outcome == "done"
    assert set(json.loads(config.read_text())["topicConfigTable"]) == {
        *("Orders", "Payments", "TopicTest", "%DLQ%billing", "%RETRY%billing")
    }
    assert (repair(store).outcome, repair(store).left) == ("nothing-to-do", ())


def test_a_size_that_nothing_tells_is_not_guessed(tmp_path: Path) -> None:
    store = shutil.copytree(fixture("plain-5.5.1"), tmp_path / "store")
    shutil.rmtree(store / "consumequeue")
    before = picture(store)
    report = repair(store)
    assert report.outcome == "nothing-to-do"
    assert all("no file shows mappedFileSizeConsumeQueue" in one.why for one in report.left)
    assert {one.path for one in report.left} == {"consumequeue", "index"}
    assert {k: v[3] for k, v in picture(store).items()} == {k: v[3] for k, v in before.items()}


def test_topics_restored_from_queues_keep_batch_queues(tmp_path: Path) -> None:
    """Without queue.type a broker refuses to start on the queues that the same repair installs."""
    root = shutil.copytree(fixture("batchcq-5.5.1"), tmp_path / "store")
    shutil.rmtree(root / "batchconsumequeue")
    (root / "config" / "topics.json").unlink()
    report = rmqtool.open(root).repair(config={"topics.json": "queues"})
    assert report.outcome == "done"
    restored = json.loads((root / "config" / "topics.json").read_text())["topicConfigTable"]
    assert restored["Streams"]["attributes"] == {"queue.type": "BatchCQ"}
    assert "attributes" not in restored["Ordinary"]
    assert rmqtool.open(root).predict_recovery().starts


def test_a_store_without_config(tmp_path: Path) -> None:
    """It is made anew when asked for; undone, it is gone, unless a broker has put its own files there."""
    root = shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")
    topics = json.loads((root / "config" / "topics.json").read_text())["topicConfigTable"]
    shutil.rmtree(root / "config")
    before = picture(root)
    assert rmqtool.open(root).repair(plan=True).outcome == "nothing-to-do"
    done = rmqtool.open(root).repair(only=["config"], config={"topics.json": "queues"})
    assert (done.outcome, [step.path for step in done.steps]) == ("done", ["config/topics.json"])
    made = json.loads((root / "config" / "topics.json").read_text())["topicConfigTable"]
    assert {name for name in topics if (root / "consumequeue" / name).exists()} == made.keys()
    (root / "config" / "subscriptionGroup.json").write_text("{}")
    with pytest.raises(RefusedError, match="as if a broker had run since"):
        rmqtool.open(root).repair(undo=True)
    (root / "config" / "subscriptionGroup.json").unlink()
    assert rmqtool.open(root).repair(undo=True).outcome == "undone"
    assert picture(root) == before


@pytest.mark.parametrize("kind", ["file", "link"])
def test_something_else_is_called_config(tmp_path: Path, kind: str) -> None:
    root = shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")
    shutil.rmtree(root / "config")
    if kind == "file":
        (root / "config").write_text("{}")
    else:
        (root / "config").symlink_to(tmp_path / "elsewhere")
    before = picture(root)
    with suppress(RmqtoolError):
        report = rmqtool.open(root).repair(only=["config"], config={"topics.json": "queues"})
        assert report.outcome == "nothing-to-do"
    assert picture(root) == before
    assert not (tmp_path / "elsewhere").exists()
