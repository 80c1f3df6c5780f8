"""Where compiled kernels are kept: in a folder that only this user can write, for exactly these sources."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import tempfile
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from rmqtool.caches import is_private, user_cache
from rmqtool.kernels import jit
from rmqtool.kernels.jit import cache_folder, kernel
from rmqtool.progress import COMPILATION

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for name in ("RMQTOOL_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(jit, "_ENTRIES", [])
    return temporary


def test_the_first_place_that_is_named_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder().parent == tmp_path / "home" / ".cache" / "rmqtool"
    for name in ("XDG_CACHE_HOME", "RMQTOOL_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
        assert cache_folder().parent == tmp_path / name / "rmqtool"
    assert cache_folder().stat().st_mode & 0o777 == 0o700


def test_a_user_without_a_home_has_a_cache_too(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number that its password file does not have."""

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert cache_folder().is_relative_to(temporary)
    assert cache_folder() == cache_folder()


def test_a_folder_that_others_can_write_is_not_used(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the cache is executed."""
    monkeypatch.setenv("RMQTOOL_CACHE_DIR", str(tmp_path / "cache"))
    cache_folder().chmod(0o777)
    assert cache_folder().is_relative_to(temporary)


def read_only_cache(folder: Path) -> Path:
    """Make the cache of an image: filled, and not to be written."""
    cache = cache_folder()
    assert cache.is_relative_to(folder)
    (cache / "scan_0").mkdir()
    (cache / "scan_0" / "walk.nbi").write_bytes(b"compiled")
    cache.chmod(0o555)
    return cache


def test_a_folder_that_cannot_be_written_is_begun_from(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQTOOL_CACHE_DIR", str(tmp_path / "cache"))
    cache = read_only_cache(tmp_path / "cache")
    monkeypatch.setattr(jit, "is_private", lambda one: one != cache and is_private(one))  # root may write
    found = cache_folder()
    assert found.is_relative_to(temporary)
    assert (found / "scan_0" / "walk.nbi").read_bytes() == b"compiled"
    assert found.stat().st_mode & 0o777 == 0o700
    (found / "scan_0" / "walk.nbi").unlink()
    assert cache_folder() == found
    assert not (found / "scan_0" / "walk.nbi").exists()
    assert [path.name for path in found.parent.iterdir()] == [cache.name]


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_no_code_is_taken_from_a_folder_that_others_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setenv("RMQTOOL_CACHE_DIR", str(tmp_path / "cache"))
    read_only_cache(tmp_path / "cache").chmod(mode)
    assert list(cache_folder().iterdir()) == []


def test_the_folder_for_all_users_is_no_planted_link(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even into a directory that is this user's own: whoever made the link can lead it elsewhere later."""
    monkeypatch.setenv("RMQTOOL_CACHE_DIR", "/proc/none")
    own = cache_folder()
    assert own.is_relative_to(temporary / f"rmqtool-{os.geteuid()}")
    own.parent.rename(tmp_path / "elsewhere")
    own.parent.symlink_to(tmp_path / "elsewhere")
    assert cache_folder().parent == temporary
    own.parent.unlink()
    own.parent.mkdir(0o700)
    own.symlink_to(tmp_path / "elsewhere" / own.name)
    assert cache_folder().parent == temporary
    assert not is_private(own)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_root_executes_nothing_that_somebody_else_can_exchange(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQTOOL_CACHE_DIR", str(tmp_path / "theirs" / "cache"))
    assert cache_folder().is_relative_to(tmp_path / "theirs")
    os.chown(tmp_path / "theirs", 65534, 65534)
    assert cache_folder().is_relative_to(temporary / "rmqtool-0")
    os.chown(temporary / "rmqtool-0", 65534, 65534)
    assert cache_folder().parent == temporary
    os.chown(temporary / "rmqtool-0", 0, 0)
    temporary.chmod(0o777)
    assert cache_folder().parent == temporary
    temporary.chmod(0o1777)
    assert cache_folder().is_relative_to(temporary / "rmqtool-0")


def test_one_process_at_a_time_compiles_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = jit._take_turn(tmp_path / "kernel.turn")
    assert turn is not None
    monkeypatch.setattr(jit, "_PATIENCE_S", 0.1)
    assert jit._take_turn(tmp_path / "kernel.turn") is None
    os.close(turn)
    again = jit._take_turn(tmp_path / "kernel.turn")
    assert again is not None
    os.close(again)


def test_where_no_file_can_be_made_nobody_waits(tmp_path: Path) -> None:
    assert jit._take_turn(tmp_path / "nowhere" / "kernel.turn") is None


def plus_one(number: int) -> int:
    return number + 1


def called(function: Callable[[int], int]) -> Callable[[int], int]:
    """Return a kernel that Python may call."""
    return jit.entry(lambda: (1,))(kernel(function))


def nothing_of(number: int) -> int:
    return number.nothing  # type: ignore[attr-defined,no-any-return]


def test_a_kernel_of_kernels_has_no_dispatcher_before_it_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To make all would be a part of each start, and a call from Python would end the process."""
    monkeypatch.setattr(jit, "_FOLDER", tmp_path / "kept")
    inner = kernel(plus_one)

    @called
    def plus_two(number: int) -> int:
        return inner(inner(number))

    with pytest.raises(TypeError, match="not callable"):
        inner(1)
    assert "dispatcher" not in vars(inner)
    assert plus_two(1) == 3
    assert "dispatcher" in vars(inner)


@pytest.mark.full
def test_what_another_process_has_made_meanwhile_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    monkeypatch.setattr(jit, "_FOLDER", kept)
    ours, others = called(plus_one), called(plus_one)
    take_turn = jit._take_turn

    def wait(turn: Path) -> int | None:
        monkeypatch.setattr(jit, "_take_turn", take_turn)
        assert others(1) == 2
        return take_turn(turn)

    monkeypatch.setattr(jit, "_take_turn", wait)
    before = COMPILATION.under_way
    assert ours(1) == 2
    assert [len(one.stats.cache_hits) for one in (ours, others)] == [1, 0]  # type: ignore[attr-defined]
    assert COMPILATION.under_way == before
    assert {one.suffix for one in kept.rglob("*.*")} == {".nbi", ".nbc"}


def test_an_interrupt_waits_for_numba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside it would leave a lock taken that other threads wait for."""
    monkeypatch.setattr(jit, "_FOLDER", tmp_path)
    interrupted, before = called(plus_one), signal.getsignal(signal.SIGINT)
    take_turn = jit._take_turn

    def interrupt(turn: Path) -> int | None:
        signal.raise_signal(signal.SIGINT)
        return take_turn(turn)

    monkeypatch.setattr(jit, "_take_turn", interrupt)
    with pytest.raises(KeyboardInterrupt):
        interrupted(1)
    assert len(interrupted.overloads) == 1  # type: ignore[attr-defined]
    assert interrupted(1) == 2
    assert signal.getsignal(signal.SIGINT) is before


class Direction(IntEnum):
    """An enumeration of another program."""

    UP = 1
    DOWN = 2


def test_enumerations_of_other_programs_stay_what_they_are() -> None:
    """A process that reads a store may have kernels of its own."""

    @jit.numba.njit
    def turned(direction: Direction) -> Direction:
        return Direction.DOWN if direction == Direction.UP else Direction.UP

    assert turned(Direction.UP) is Direction.DOWN
    assert turned(Direction.DOWN) is Direction.UP


def test_a_kernel_that_does_not_compile_fails_at_once_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller of it makes numba try again: no process waits for its own turn."""
    monkeypatch.setattr(jit, "_FOLDER", tmp_path / "kept")
    broken = called(nothing_of)
    turns: list[Path] = []
    take_turn = jit._take_turn

    def noted(path: Path) -> int | None:
        turns.append(path)
        return take_turn(path)

    monkeypatch.setattr(jit, "_take_turn", noted)
    before = COMPILATION.under_way
    for _ in range(2):
        with pytest.raises(TypingError):
            broken(1)
    assert len(turns) == 1
    assert COMPILATION.under_way == before + 1
    broken._cache._end()  # type: ignore[attr-defined]


def test_a_kernel_from_the_disk_can_be_called_by_one_that_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "_FOLDER", tmp_path / "kept")
    assert called(plus_one)(1) == 2
    loaded = called(plus_one)
    assert loaded(1) == 2
    (overload,) = loaded.overloads.values()  # type: ignore[attr-defined]
    assert (loaded.stats.cache_hits[overload.signature.args], overload.library._shared_module) == (1, None)  # type: ignore[attr-defined]

    @called
    def plus_two(number: int) -> int:
        return loaded(loaded(number))

    assert plus_two(1) == 3


def test_without_private_names_numba_keeps_kernels_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert jit._HAS_PRIVATE_NAMES
    monkeypatch.setattr(jit, "_FOLDER", tmp_path / "kept")
    monkeypatch.setattr(jit, "_HAS_PRIVATE_NAMES", False)
    assert called(plus_one)(1) == 2
    loaded = called(plus_one)
    assert loaded(1) == 2
    assert [len(loaded.stats.cache_hits)] == [1]  # type: ignore[attr-defined]
    assert str(tmp_path) not in jit.numba.config.CACHE_DIR
    assert {one.suffix for one in (tmp_path / "kept").rglob("*.*")} >= {".nbi", ".nbc"}


def test_a_pack_that_is_not_unpacked_here_is_not_made_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever plans for executors may have their environment, and stand in the evidence."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RMQTOOL_CACHE_DIR", "./pack/cache")
    assert user_cache() is None
    (tmp_path / "pack").mkdir()
    assert user_cache() == Path("pack/cache")
    monkeypatch.setenv("RMQTOOL_CACHE_DIR", "cache")
    assert user_cache() == Path("cache")


def test_another_process_compiles_from_the_last_kernel_on_for_a_command_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs nothing of the working directory, which may be the evidence."""
    started: list[subprocess.Popen[bytes]] = []

    def popen(words: list[str], **streams: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 - as Popen's
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        words = [*words[:4], "rmqtool.kernels.bytes"]
        started.append(process(words, cwd=evidence, env=environment, **streams))
        return started[-1]

    (evidence := tmp_path / "evidence").mkdir()
    for name in ("rmqtool", "numpy", "importlib"):
        (evidence / f"{name}.py").write_text(f"open({str(tmp_path / name)!r}, 'w')")
    process = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(COMPILATION, "listener", None)
    jit._have_help.cache_clear()
    jit._have_help()
    assert not started
    jit._have_help.cache_clear()
    monkeypatch.setattr(COMPILATION, "listener", lambda *_: None)
    jit._have_help()
    jit._have_help()
    (helper,) = started
    assert helper.wait() == 0
    assert {path.name for path in tmp_path.iterdir()} == {"tmp", "evidence", "cache"}
    kernels = {path.name.partition("-")[0] for path in (tmp_path / "cache").rglob("*.nbi")}
    assert {name.partition(".")[0] for name in kernels} == {"bytes"}


class _Pair(NamedTuple):
    values: np.ndarray[Any, Any]
    size: int


_FIXED = np.arange(4)
_FIXED.setflags(write=False)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(4),
        _FIXED,
        np.arange(4)[::2],
        np.zeros((2, 3), order="F"),
        np.zeros(2, [("at", "<i8"), ("size", "<i4")]),
        np.zeros(2, np.dtype([("at", "<i8"), ("size", "<i4")], align=True)),
        (np.zeros(0, np.bool_), 1, (np.zeros(1, np.uint8),)),
        _Pair(np.zeros(1), 2),
        7,
        2.5,
        np.uint32(1),
    ],
)
def test_types_of_arguments_are_those_of_numba(value: object) -> None:
    assert jit._type_of(jit.numba.typeof, value) == jit.numba.typeof(value)
