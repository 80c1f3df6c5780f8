"""Who may read what this user may not."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.io.object_urls import is_object_url

if TYPE_CHECKING:
    import os


def as_owner(name: str) -> list[str]:
    """Return the words that make a command that of the user whom a path belongs to, who may read it.

    It is the owner of the nearest directory above, where the path itself may not be asked. Of an object,
    credentials decide: no user may read what another may not.
    """
    if is_object_url(name):
        return []
    found = _nearest(Path(name))
    return ["sudo", "-u", "root" if found is None else _user(found[1].st_uid)]


def who_may_read(path: Path) -> str:
    """Say whose a path is that may not be read, and what to run; the end of a sentence.

    Where a directory above keeps the path from being looked at, it is that directory that is told of.
    """
    found = _nearest(path)
    if found is None:
        return "run rmqtool as the broker's user"
    place, status = found
    user, mode = _user(status.st_uid), stat.filemode(status.st_mode)
    what = "it belongs" if place == path else f"{place} belongs"
    owner = f"{what} to {user}:{_group(status.st_gid)}, {mode}"
    return f"{owner}; run rmqtool as that user: sudo -u {user} rmqtool …"


def _nearest(path: Path) -> tuple[Path, os.stat_result] | None:
    """Return a path, or the nearest directory above it that may be asked, and its status."""
    for place in (path, *path.absolute().parents):
        try:
            return place, place.stat()
        except OSError:
            continue
    return None


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"  # as sudo -u takes it


def _group(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
