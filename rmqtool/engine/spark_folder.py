"""The private folder of a driver: all that it writes, gone with it, or with the next one after a kill."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "rmqtool-spark-"
_MARKER = "marker"


class DriverFolder:
    """Make the folder, inside the user's ``spark.local.dir`` if that is given.

    A file in it is locked as long as this process lives: that tells the folder of a killed one, which is
    removed.

    Args:
        conf: Spark's settings.

    Attributes:
        path: the folder.

    Raises:
        EnvironmentFailureError: there is no place for it.
    """

    def __init__(self, conf: Mapping[str, str]) -> None:
        parent = conf.get("spark.local.dir", "").split(",")[0] or None
        try:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent)).resolve()
            self._marker = _locked(self.path / f".{_MARKER}", os.O_CREAT)
            (self.path / f".{_MARKER}").rename(self.path / _MARKER)  # so that nobody finds it unlocked
        except OSError as error:
            raise EnvironmentFailureError(f"Spark has no place for temporary files: {error}") from error
        for other in self.path.parent.glob(f"{_PREFIX}*"):
            if other != self.path and (marker := _locked(other / _MARKER)) is not None:
                shutil.rmtree(other, ignore_errors=True)
                os.close(marker)

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._marker is not None:
            os.close(self._marker)
            self._marker = None


def _locked(path: Path, more: int = 0) -> int | None:
    """Open and lock a file of this user's that nobody else has locked; None if there is none."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as undone:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | more, 0o600)
        undone.callback(os.close, file)
        if os.fstat(file).st_uid != os.geteuid():
            return None
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        undone.pop_all()
        return file
    return None
