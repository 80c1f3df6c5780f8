"""Folders for temporary files, removed by their process, or by the next one after a kill.

A file in each is locked as long as its process lives. It holds the machine's name, too, as not every shared
file system shows the locks of other machines.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
from pathlib import Path

_MARKER = "marker"
_LONGEST = 4096


class TemporaryFolder:
    """Make a folder, and remove those of this user's killed processes beside it.

    Names of no other kind of folder may begin with ``prefix``; without ``parent``, it is made where temporary
    files belong. Raises `OSError` if that fails.
    """

    def __init__(self, prefix: str, parent: Path | str | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()
        made = self.path / f".{_MARKER}"
        self._marker = _locked(made, os.O_CREAT)
        # without the machine's name, it must not look like that of a killed process
        if self._marker is not None and _wrote_host(self._marker):
            made.rename(self.path / _MARKER)  # so that it never appears unlocked
        for other in self.path.parent.glob(f"{prefix}*"):
            if other != self.path and (marker := _locked(other / _MARKER)) is not None:
                if os.read(marker, _LONGEST) == _host():
                    shutil.rmtree(other, ignore_errors=True)
                os.close(marker)

    def remove(self) -> None:
        """Remove the folder with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._marker is not None:
            os.close(self._marker)
            self._marker = None


def _host() -> bytes:
    return os.fsencode(socket.gethostname())


def _wrote_host(marker: int) -> bool:
    with contextlib.suppress(OSError):
        return os.write(marker, _host()) == len(_host())
    return False


def _locked(path: Path, more: int = 0) -> int | None:
    with contextlib.suppress(OSError), contextlib.ExitStack() as undone:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | more, 0o600)
        undone.callback(os.close, file)
        if os.fstat(file).st_uid != os.geteuid() or path.parent.lstat().st_uid != os.geteuid():
            return None
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        undone.pop_all()
        return file
    return None
