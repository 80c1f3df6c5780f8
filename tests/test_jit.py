"""Where compiled kernels are kept: in a folder that only this user can write, for exactly these sources."""

from __future__ import annotations

import pwd
import tempfile
from typing import TYPE_CHECKING

import pytest

from rmqtool.jit import cache_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for name in ("RMQTOOL_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
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
