"""Where this user's caches are, and whose may be executed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


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
    """Whether only this user can put code into ``folder``, made if need be: what lies in it is executed.

    A link is none, wherever it leads: whoever owns it can have it lead elsewhere later.
    """
    try:
        if not _is_out_of_reach(folder.parent, {os.geteuid()}):
            return False
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.lstat()
    except OSError:
        return False
    is_mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return is_mine and not status.st_mode & _BY_OTHERS and os.access(folder, os.W_OK)


def is_trusted(folder: Path) -> bool:
    """Whether only root, this user or the owner of this program can put code into ``folder``."""
    try:
        owners = {0, os.geteuid(), Path(__file__).stat().st_uid}
        status = folder.stat()
        readable = os.access(folder, os.R_OK | os.X_OK) and _is_out_of_reach(folder, owners)
    except OSError:
        return False
    return readable and status.st_uid in owners and not status.st_mode & _BY_OTHERS


def _is_out_of_reach(folder: Path, owners: set[int]) -> bool:
    """Whether nobody but these and root can exchange a folder, or one around it, for another or for a link.

    Names that everybody can make are looked at, and for root all names on the way; not what is not there yet,
    nor what this program lies in, too: who can exchange that needs no cache. The owner of ``/`` is root,
    whatever his number is in here. Where everybody may rename everything, as in a pod's empty volume, is no
    place for root alone.

    Raises:
        OSError: A directory may not be looked at.
    """
    owners = {*owners, 0, Path("/").stat().st_uid}
    is_root = os.geteuid() == 0
    program = Path(__file__).resolve().parents
    for place in (folder.absolute(), Path(os.path.realpath(folder))):
        for one in (place, *place.parents):
            if one in program or not os.path.lexists(one):
                continue
            above = one.parent.stat().st_mode
            if (is_root or above & stat.S_IWOTH) and one.lstat().st_uid not in owners:
                return False
            if is_root and above & stat.S_IWOTH and not above & stat.S_ISVTX:
                return False
    return True
