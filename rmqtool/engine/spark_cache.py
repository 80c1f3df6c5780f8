"""AOT cache of Java for the start of Spark, kept by ``rmqtool warmup --spark``.

A Java of 25 or newer keeps an AOT cache (JEP 483 and 514), an older one an archive of classes (JEP 350). It
takes only what the same Java made of the same class path, and starts without it otherwise. The name of the
file says as much, so that a newer Spark does not even try; and how long it is, as an older Java crashes over
one that was cut off.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.caches import is_private, is_trusted, user_cache
from rmqtool.engine.spark_java import feature_version
from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqtool.engine.spark_java import Java

_OLDEST_WITH_AOT = 25


class StartCache:
    """The cache of one Java for one Spark.

    Args:
        java: the Java.
        class_path: its classes, file by file.
    """

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
        """Return the file, if it is there, whole, and where only those write who may have us execute it."""
        if self._folder is None or not is_trusted(self._folder):
            return None
        found = self._folder.glob(f"{self._places}-{self._contents}-*")
        return next((one for one in found if one.name.endswith(f"-{one.stat().st_size}")), None)

    @property
    def flags(self) -> list[str]:
        """Return what has Java start by the cache; nothing where there is none."""
        path = self.path
        if path is None:
            return []
        if self._has_aot:
            return [f"-XX:AOTCache={path}", "-Xlog:aot=off", "-Xlog:cds=off"]
        return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:cds=off"]

    def training(self) -> tuple[Path, str]:
        """Return the file that Java is to write when it ends, and the flag for it.

        Raises:
            EnvironmentFailureError: There is no folder that only this user can write.
        """
        if self._folder is None:
            raise EnvironmentFailureError("there is no folder for caches: name one in RMQTOOL_CACHE_DIR")
        if not is_private(self._folder):
            raise EnvironmentFailureError(
                f"{self._folder}: others can write it, or you cannot: name another folder in"
                " RMQTOOL_CACHE_DIR"
            )
        path = self._folder / f"{os.getpid()}.part"
        return path, f"-XX:{'AOTCacheOutput' if self._has_aot else 'ArchiveClassesAtExit'}={path}"

    def trained(self, start: Callable[[str], None]) -> Path:
        """Return the file, made now if it is not there.

        Args:
            start: Starts Spark with a flag of Java's, runs something, and ends it in order.

        Raises:
            EnvironmentFailureError: There is no folder for it, or this Java makes no such file.
        """
        if (found := self.path) is not None:
            return found
        partial, flag = self.training()
        try:
            start(flag)
            if not partial.exists():
                raise EnvironmentFailureError(
                    f"{self._program} makes no cache of its start: use another Java"
                )
            return self.keep(partial)
        finally:
            partial.unlink(missing_ok=True)

    def keep(self, path: Path) -> Path:
        """Give the file that Java has written its name, and remove those of this Java and Spark before."""
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
    except OSError:  # of the user's own class path, which may name what is not there
        return b"none"
    return f"{status.st_size} {status.st_mtime_ns};".encode()
