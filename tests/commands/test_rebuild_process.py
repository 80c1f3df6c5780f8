"""A rebuild among other processes: one that is killed, and a broker that holds the store's lock."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from rmqtool.errors import EnvironmentFailureError, RefusedError
from tests.broker.compare import compare_derived
from tests.broker.stores import FixtureStore, fixture_store
from tests.commands.rebuilding import fingerprint, rebuild_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD_THE_LOCK = """
import fcntl, sys
lock = open(sys.argv[1], "r+b")
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store() -> FixtureStore:
    return fixture_store("segments-4.9.8")


@contextmanager
def start(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Start Python, wait for its first line, and kill it in the end."""
    with subprocess.Popen(
        [sys.executable, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() in {"emitting", "held"}
            yield process
        finally:
            process.kill()


def interrupt(store: FixtureStore, out: Path, how: signal.Signals) -> int:
    """Start a rebuild, end it while it writes, and return its exit status."""
    with start("-m", "tests.commands.interrupted", store.root, out) as process:
        assert any(out.parent.glob(f".{out.name}.rmqtool-*/result/consumequeue"))
        assert not out.exists()
        process.send_signal(how)
        return process.wait(timeout=300)


class TestInterrupted:
    """A result is there whole or not at all."""

    @pytest.mark.full
    def test_killed(self, store: FixtureStore, tmp_path: Path) -> None:
        """What a kill leaves is hidden, and the next run for the same output removes it."""
        before = fingerprint(store.root)
        assert interrupt(store, tmp_path / "out", signal.SIGKILL) == -signal.SIGKILL
        assert not (tmp_path / "out").exists()
        (left,) = tmp_path.iterdir()
        assert left.name.startswith(".out.rmqtool-")
        rebuild_store(store.root, store.conf, tmp_path / "other")
        assert left.exists()
        rebuild_store(store.root, store.conf, tmp_path / "out")
        assert {path.name for path in tmp_path.iterdir()} == {"out", "other"}
        assert compare_derived(store.expected, tmp_path / "out") == []
        assert fingerprint(store.root) == before

    @pytest.mark.full
    def test_a_rebuild_at_work_is_not_disturbed(self, store: FixtureStore, tmp_path: Path) -> None:
        with start("-m", "tests.commands.interrupted", store.root, tmp_path / "out") as process:
            (area,) = tmp_path.iterdir()
            with pytest.raises(RefusedError, match=f"process {process.pid}"):
                rebuild_store(store.root, store.conf, tmp_path / "out")
            assert process.poll() is None
            assert list(tmp_path.iterdir()) == [area]
            assert any((area / "result" / "consumequeue").iterdir())


class TestLock:
    """A store in use is left alone, unless the user knows."""

    @pytest.fixture
    def root(self, store: FixtureStore, tmp_path: Path) -> Iterator[Path]:
        root = store.copy_to(tmp_path / "store")
        with start("-c", HOLD_THE_LOCK, root / "lock") as holder:
            yield root
            assert holder.poll() is None

    @pytest.mark.parametrize("dry_run", [False, True])
    def test_refused(self, dry_run: bool, store: FixtureStore, root: Path, tmp_path: Path) -> None:
        with pytest.raises(RefusedError, match=r"process \d+ .*holds the store's lock; .*--live"):
            rebuild_store(root, store.conf, tmp_path / "out", dry_run=dry_run)
        assert [path.name for path in tmp_path.iterdir()] == ["store"]

    def test_live(self, store: FixtureStore, root: Path, tmp_path: Path) -> None:
        """The lock stays with its holder."""
        for name in ("one", "two"):
            rebuild_store(root, store.conf, tmp_path / name, live=True)
            assert compare_derived(store.expected, tmp_path / name) == []
        with pytest.raises(RefusedError, match="holds the store's lock"):
            rebuild_store(root, store.conf, tmp_path / "three")

    def test_live_asks_no_lock_that_may_not_be_read(
        self, store: FixtureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A copy can keep the broker's file and not its owner."""

        def denied(_root: Path) -> None:
            raise EnvironmentFailureError("lock: cannot be opened: Permission denied")

        monkeypatch.setattr("rmqtool.commands.rebuild.run.lock_holder", denied)
        with pytest.raises(EnvironmentFailureError, match="lock"):
            rebuild_store(store.root, store.conf, tmp_path / "out")
        rebuild_store(store.root, store.conf, tmp_path / "out", live=True)
        assert compare_derived(store.expected, tmp_path / "out") == []

    def test_a_lock_nobody_holds(self, store: FixtureStore, tmp_path: Path) -> None:
        root = store.copy_to(tmp_path / "store")
        assert (root / "lock").exists()
        rebuild_store(root, store.conf, tmp_path / "out")
        assert compare_derived(store.expected, tmp_path / "out") == []


def test_ctrl_c_leaves_nothing(store: FixtureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that run are waited for, so that nobody writes behind the clean-up."""
    monkeypatch.setattr("rmqtool.reput.pipeline.emit_queues", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        rebuild_store(store.root, store.conf, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def _interrupted(bundle: object) -> None:
    raise KeyboardInterrupt(bundle)
