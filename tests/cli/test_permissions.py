"""What may not be read is no damage: status 3, whose it is, what to run; only that is left out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import STORES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.runs import Run

NOBODY = 65534
FIRST_LOG_FILE = "commitlog/00000000000000000000"


@pytest.fixture
def store() -> Iterator[Path]:
    """Give a copy that a stranger can reach: pytest's own directories are for their owner only."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.copytree(STORES / "plain-5.3.3", Path(folder) / "store"))


@contextmanager
def stranger() -> Iterator[None]:
    """Have no rights but those of everybody; whoever is not root has none to begin with."""
    if os.geteuid():
        yield
        return
    for module in ("grp", "pwd", "encodings.utf_16_be"):  # root's own Python may be out of a stranger's reach
        import_module(module)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def verify(run: Callable[..., Run], store: Path) -> Callable[..., Run]:
    """Verify as a stranger; what is compiled is loaded before, as its cache is the owner's, too."""
    assert run("verify", store, "--predict-recovery").status == 0

    def as_stranger(*words: object) -> Run:
        with stranger():
            return run("verify", *words)

    return as_stranger


def codes(done: Run) -> set[str]:
    """Return the codes of findings that are more than a note."""
    return {one["code"] for one in done.document["findings"] if one["severity"] != "info"}


@pytest.mark.parametrize("topic", ["%DLQ%billing", "Payments"])
def test_a_topic_that_may_not_be_read_makes_no_strays_of_the_others(
    verify: Callable[..., Run], store: Path, topic: str
) -> None:
    """File sizes are inferred from all queues that may be read; nobody is advised to move these out."""
    (store / "consumequeue" / topic).chmod(0)
    found = verify(store, "--format", "json")
    assert "CQ-STRAY" not in codes(found)
    assert "IO-DENIED" in codes(found)
    assert found.status == 3


def test_a_log_that_may_not_be_read_is_not_damaged(store: Path, verify: Callable[..., Run]) -> None:
    for path in (store / "commitlog").iterdir():
        path.chmod(0)
    done = verify(store, "--format", "json")
    assert (done.status, done.document["result"]) == (3, "unreadable")
    assert codes(done) == {"IO-DENIED"}
    assert done.document["counts"]["IO-DENIED"] == len(list((store / "commitlog").iterdir()))
    assert "parts of the log could not be read: nothing was compared with it" in done.document["notLookedAt"]
    text = verify(store)
    assert text.out.startswith("No verdict, some files could not be read")
    owner = (store / FIRST_LOG_FILE).owner()
    assert f"sudo -u {owner} rmqtool verify {store}\n" in text.out
    assert f"belongs to {owner}:" in text.out


def test_the_rest_of_the_log_is_looked_at(store: Path, verify: Callable[..., Run]) -> None:
    (store / FIRST_LOG_FILE).chmod(0)
    done = verify(store, "--format", "json")
    assert (done.status, codes(done)) == (3, {"IO-DENIED"})
    assert done.document["examined"]["commitlogFiles"] == len(list((store / "commitlog").iterdir())) - 1
    (store / "commitlog" / "00000000000000008192").write_bytes(bytes(8192))
    worse = verify(store, "--format", "json")
    assert (worse.status, worse.document["result"]) == (5, "log-damage")


@pytest.mark.parametrize("place", ["consumequeue/Orders", "consumequeue/Orders/0"])
def test_a_directory_that_may_not_be_listed_makes_no_other_queue_missing(
    store: Path, verify: Callable[..., Run], place: str
) -> None:
    queues = sum(1 for path in (store / "consumequeue").glob("*/*"))
    hidden = 1 if place.endswith("0") else len(list((store / place).iterdir()))
    (store / place).chmod(0)
    done = verify(store, "--format", "json")
    assert (done.status, codes(done)) == (3, {"IO-DENIED"})
    assert {one["file"] for one in done.document["findings"] if one["code"] == "IO-DENIED"} == {place}
    assert done.document["examined"]["consumeQueues"] == queues - hidden


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "place",
    [
        "consumequeue",
        "consumequeue/Orders/0/00000000000000000000",
        "index",
        "index/*",
        "checkpoint",
        "lock",
        "config",
        "config/topics.json",
    ],
)
def test_only_what_may_not_be_read_is_left_out(store: Path, verify: Callable[..., Run], place: str) -> None:
    (store / "lock").touch()
    path = sorted(store.glob(place))[0]
    path.chmod(0)
    done = verify(store, "--format", "json")
    path.chmod(0o755)
    assert (done.status, codes(done)) == (3, {"IO-DENIED"})
    assert done.document["examined"]["records"] == 163


@pytest.mark.parametrize("place", [".", "commitlog"])
def test_without_a_log_to_be_listed_there_is_one_sentence(
    store: Path, verify: Callable[..., Run], place: str
) -> None:
    (store / place).chmod(0)
    done = verify(store)
    (store / place).chmod(0o755)
    assert (done.status, done.out, len(done.err.splitlines())) == (3, "", 1)
    assert f"sudo -u {store.owner()} rmqtool" in done.err


OLDER = '{"offsetTable":{"TopicTest@readers":{0:1}}}'
NEWER = '{"offsetTable":{"TopicTest@readers":{0:5}}}'


PLACES = ["config", "config/consumerOffset.json", "config/topics.json"]


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_chosen_or_advised_for_settings_that_may_not_be_read(
    store: Path, run: Callable[..., Run], place: str
) -> None:
    """Not even the older .bak of a file, which the broker, as its owner, may never need."""
    (store / "config" / "consumerOffset.json").write_text(NEWER)
    (store / "config" / "consumerOffset.json.bak").write_text(OLDER)
    (store / "config" / "topics.json.bak").write_text("{}")
    out = store.with_name("out")
    out.mkdir(mode=0o777)
    out.chmod(0o777)
    lines: tuple[tuple[str | Path, ...], ...] = (
        ("verify",),
        ("verify", "--predict-recovery"),
        ("repair", "--plan"),
        ("repair", "--plan", "--config", f"{Path(place).name}=bak"),
        ("offsets",),
        ("salvage", "--out", out / "salvaged"),
        ("info",),
    )
    for one in lines:  # so that all modules are loaded
        run(one[0], store, *one[1:])
    shutil.rmtree(out / "salvaged")
    (store / place).chmod(0)
    with stranger():
        found = {words: run(words[0], store, *words[1:]) for words in lines}
    (store / place).chmod(0o755)
    owner = f"sudo -u {store.owner()} rmqtool"
    for words, done in found.items():
        text = done.out + done.err
        assert owner in text or "=bak" in str(words[-1]) or (words, place) == (("offsets",), PLACES[2]), words
        for wrong in ("nothing is left", "restore it", "the best", "resumes at 1", "forget", "it starts"):
            assert wrong not in text, (words, text)
    (salvaged,) = (done.out for words, done in found.items() if words[0] == "salvage")
    assert f"{place} is not copied: cannot be opened" in salvaged
    assert not (out / "salvaged" / "config" / "consumerOffset.json.bak").exists()
    assert (out / "salvaged" / place).exists() is False


@pytest.mark.parametrize("place", ["config", "config/topics.json"])
def test_no_queues_are_rebuilt_whose_kind_may_not_be_read(
    store: Path, run: Callable[..., Run], place: str
) -> None:
    (store / place).chmod(0)
    with stranger():
        done = run("rebuild", store, "--dry-run")
    (store / place).chmod(0o755)
    assert done.status == 3
    assert f"sudo -u {store.owner()} rmqtool" in done.err
    assert "it says which topics have batch queues" in done.err


def test_a_timers_checkpoint_that_may_not_be_read(store: Path, verify: Callable[..., Run]) -> None:
    (store / "config" / "timercheck").write_bytes(bytes(40))
    (store / "config" / "timercheck").chmod(0)
    done = verify(store, "--format", "json")
    assert (done.status, codes(done)) == (3, {"IO-DENIED"})


def test_a_prediction_that_needs_it_is_skipped(store: Path, verify: Callable[..., Run]) -> None:
    (store / FIRST_LOG_FILE).chmod(0)
    done = verify(store, "--predict-recovery", "--format", "json")
    assert (done.status, codes(done)) == (3, {"IO-DENIED", "NS-SKIPPED"})
    assert "predictions" not in done.document


@pytest.mark.few(7)
@pytest.mark.parametrize(
    ("place", "missing"),
    [
        ("commitlog", "log"),
        (FIRST_LOG_FILE, "log"),
        ("consumequeue", "queues"),
        ("consumequeue/Orders", "Orders"),
        ("consumequeue/Orders/0", "Orders"),
        ("consumequeue/Orders/0/00000000000000000200", "Orders"),
        ("index", "index"),
        ("index/*", "index"),
        ("checkpoint", "checkpoint"),
        ("abort", "abort"),
        ("lock", ""),
        ("config", ""),
        ("config/topics.json", ""),
    ],
)
def test_info_shows_the_rest(store: Path, run: Callable[..., Run], place: str, missing: str) -> None:
    """Status 3, whose it is and what to run; only what may not be read is left out."""
    (store / "lock").touch()
    (store / "abort").write_text("12")
    whole = run("info", store, "--format", "json").document
    path = sorted(store.glob(place))[0]
    path.chmod(0)
    with stranger():
        done = run("info", store, "--format", "json")
        text = run("info", store)
    path.chmod(0o755)
    found = done.document
    assert (done.status, found["exitStatus"]) == (3, 3)
    denied = [one for one in found["findings"] if one["code"] == "IO-DENIED"]
    assert denied
    assert all("sudo -u" in one["message"] for one in denied)
    names = [one["file"] for one in denied if one["file"]]
    assert len(names) == len(set(names))
    told = {one["topic"]: one for one in found["queues"]}
    assert bool(found["commitlog"]) == (missing != "log")
    assert bool(told) == (missing != "queues")
    if missing not in {"queues", "Orders"}:
        assert len(found["queues"]) == len(whole["queues"])
    assert (missing == "index") == (len(found["index"]) < len(whole["index"]))
    assert bool(found["checkpoint"]) == (missing != "checkpoint")
    assert text.out.startswith("Some files could not be read")
    assert f"Next: sudo -u {store.owner()} rmqtool info {store}\n" in text.out


def test_what_may_not_be_read_is_not_called_in_order(store: Path) -> None:
    """Of the store's owner, but without the right to read everything, which root has."""
    limits = "-dac_override,-dac_read_search"
    root_only = ["setpriv", f"--bounding-set={limits}", f"--inh-caps={limits}"] if os.geteuid() == 0 else []
    if root_only and shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    (topic := store / "consumequeue" / "Payments").chmod(0)
    words = [*root_only, sys.executable, "-m", "rmqtool", "repair", str(store), "--plan"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=STORES.parents[1])
    topic.chmod(0o755)
    assert done.returncode == 3
    assert done.stdout.startswith(f"{store}: nothing to repair; not all of it may be read")
