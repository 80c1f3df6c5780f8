"""Where this user's caches are, and whose may be executed."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def user_cache() -> Path | None:
    """Return where this user's caches are; None for a user without a home, as containers have them.

    Executors are told of a folder in the archive that is unpacked where they work. Other processes that have
    their environment, as those that plan a table's read beside the driver, do not make it where they stand.
    """
    base = os.environ.get("RMQTOOL_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        folder = Path(base).expanduser()
    except RuntimeError:
        return None
    return folder if folder.is_absolute() or folder.parent.is_dir() else None


def is_private(folder: Path) -> bool:
    """Whether only this user can put code into ``folder``, made if need be: what lies in it is executed."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except OSError:
        return False
    writable_by_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == os.geteuid() and not writable_by_others and os.access(folder, os.W_OK)


def is_trusted(folder: Path) -> bool:
    """Whether only root, this user or the owner of this program can put code into ``folder``."""
    try:
        status = folder.stat()
        owners = {0, os.geteuid(), Path(__file__).stat().st_uid}
        readable = os.access(folder, os.R_OK | os.X_OK)
    except OSError:
        return False
    return readable and status.st_uid in owners and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
