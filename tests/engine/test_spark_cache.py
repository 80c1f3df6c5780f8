"""What Java keeps of a start of Spark: taken if it fits, and no harm if it does not."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rmqtool.engine.spark_java import Java, StartCache, find_java
from rmqtool.engine.spark_settings import class_path
from rmqtool.errors import EnvironmentFailureError
from tests.engine.cluster import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

_MAP = """
from rmqtool.engine import EngineOptions
from rmqtool.engine.choice import open_engine
with open_engine(EngineOptions("spark", jobs=2)) as engine:
    print(engine.map(len, ["", "ab"]))
"""
_TRAIN = "from rmqtool.engine.spark import train_start; train_start()"


def java_of(folder: Path, version: str) -> Java:
    folder.mkdir(exist_ok=True)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return Java(folder, "test")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RMQTOOL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rmqtool" / "java"


def made_by(cache: StartCache) -> Path:
    """Return the file that a Java has made."""
    path, flag = cache.training()
    assert flag.endswith(f"={path}")
    path.write_bytes(b"classes, linked")
    return cache.keep(path)


@pytest.mark.parametrize(("version", "flag"), [("25.0.2", "AOTCache"), ("17.0.1", "SharedArchiveFile")])
def test_a_cache_is_used_where_there_is_one(folder: Path, tmp_path: Path, version: str, flag: str) -> None:
    (jar := tmp_path / "one.jar").write_bytes(b"classes")
    java = java_of(tmp_path / "java", version)
    cache = StartCache(java, [str(jar)])
    assert cache.flags == []
    kept = made_by(cache)
    assert [*folder.iterdir()] == [kept]
    assert f"-XX:{flag}={kept}" in cache.flags
    assert StartCache(java, [str(jar), "/another.jar"]).flags == []
    folder.chmod(0o777)
    assert cache.flags == [], "others can write it"
    with pytest.raises(EnvironmentFailureError, match="others can write it, or you cannot: name another"):
        cache.training()
    folder.chmod(0o700)
    kept.write_bytes(b"classes")
    assert cache.flags == [], "it was cut off"


@pytest.mark.parametrize("change", ["jar", "java"])
def test_what_has_changed_has_another_cache(folder: Path, tmp_path: Path, change: str) -> None:
    (jar := tmp_path / "one.jar").write_bytes(b"classes")
    java = java_of(tmp_path / "java", "25.0.2")
    made_by(StartCache(java, [str(jar)]))
    if change == "jar":
        jar.write_bytes(b"other classes")
    else:
        java_of(tmp_path / "java", "25.0.3")
    changed = StartCache(java, [str(jar)])
    assert changed.flags == []
    kept = made_by(changed)
    assert [*folder.iterdir()] == [kept], "the older one is gone"


def python(text: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=REPOSITORY,
        env=os.environ | {"RMQTOOL_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.spark
@pytest.mark.soak
def test_java_keeps_what_it_takes_later(folder: Path, tmp_path: Path) -> None:
    """And nobody hears of a cache that it cannot take."""
    run = partial(python, folder=tmp_path / "cache")
    run(_TRAIN)
    (path,) = folder.iterdir()
    assert StartCache(find_java(os.environ, launcher=False), class_path({})).path == path
    assert run(_MAP) == "[0, 2]\n"
    path.unlink()
    path.write_bytes(b"nothing of the kind")
    path.rename(path.with_name(f"{path.name.rpartition('-')[0]}-19"))
    assert run(_MAP) == "[0, 2]\n"
