"""A running broker is noticed, and its lock is left alone."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from rmqtool.errors import EnvironmentFailureError
from rmqtool.io import location_of
from rmqtool.store.lock import LockHolder, lock_holder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Locks as Java's FileChannel#tryLock(0, 1, false) does, then waits to be told to end.
_BROKER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, int(sys.argv[3]), int(sys.argv[2]))
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def _broker_holding(lock: Path, start: int = 0, length: int = 1) -> Iterator[int]:
    command = [sys.executable, "-c", _BROKER, str(lock), str(start), str(length)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"locked\n"
        yield broker.pid
        broker.communicate()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "lock").write_bytes(b"lock")
    return tmp_path


def test_the_holder_is_named_and_keeps_its_lock(root: Path) -> None:
    with _broker_holding(root / "lock") as pid:
        for _ in range(2):
            holder = lock_holder(location_of(root))
            assert holder is not None
            assert holder.pid == pid
            assert f"process {pid} (" in str(holder)
        with (root / "lock").open("r+b") as other, pytest.raises(BlockingIOError):
            fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    assert lock_holder(location_of(root)) is None


def test_a_lock_on_other_bytes_is_not_a_broker_s(root: Path) -> None:
    with _broker_holding(root / "lock", start=1, length=3):
        assert lock_holder(location_of(root)) is None


def test_flock_is_no_broker(root: Path) -> None:
    with (root / "lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert lock_holder(location_of(root)) is None


def test_probing_writes_nothing(root: Path) -> None:
    (root / "lock").chmod(0o444)
    before = (root / "lock").stat()
    assert lock_holder(location_of(root)) is None
    after = (root / "lock").stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)


def test_no_lock_file_or_none_that_could_be_locked(tmp_path: Path) -> None:
    assert lock_holder(location_of(tmp_path)) is None
    os.mkfifo(tmp_path / "lock")
    assert lock_holder(location_of(tmp_path)) is None


def test_a_file_system_that_cannot_tell_is_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("rmqtool.io.local.fcntl.fcntl", refuse)
    with pytest.raises(EnvironmentFailureError, match="No locks available"):
        lock_holder(location_of(root))


def test_a_holder_elsewhere_has_no_name() -> None:
    assert "another machine" in str(LockHolder(None))
