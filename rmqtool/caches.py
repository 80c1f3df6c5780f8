"""Folders of this user's caches, whether their content may be executed; and what the user has begun."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def user_cache() -> Path | None:
    """Return the folder of this user's caches; None for a user without a home, as in containers.

    Executors get a folder in the archive that is unpacked where they work. Other processes with their
    environment, such as those that plan a table's read beside the driver, do not create it where they stand.
    """
    base = os.environ.get("RMQTOOL_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        folder = Path(base).expanduser()
    except RuntimeError:
        return None
    return folder if folder.is_absolute() or folder.parent.is_dir() else None


def proof_of(*words: str) -> Path:
    """Return the file in this user's own folder of states that says that the user began what words name.

    Raises `OSError` for a user without a home who gives no folder.
    """
    base = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state")
    name = hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()
    try:
        return base.expanduser().absolute() / "rmqtool" / "begun" / name
    except RuntimeError as failure:
        raise OSError(errno.ENOENT, "Is missing: this user has no home", str(base)) from failure


def keep_proof(proof: Path) -> None:
    """Make an empty file that outlives a loss of power; `OSError` where others could make it as well."""
    if not is_private(proof.parent):
        raise OSError(errno.EPERM, "Is no folder that this user alone can write into", str(proof.parent))
    for path, flags in ((proof, os.O_WRONLY | os.O_CREAT), (proof.parent, os.O_RDONLY)):
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_proven(proof: Path) -> bool:
    """Whether the file is there, and nobody but this user can have made it."""
    try:
        status = proof.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and is_private(proof.parent)


def is_private(folder: Path) -> bool:
    """Whether only this user can put code into ``folder``, created if missing: its content is executed.

    A link does not count, wherever it leads: its owner can redirect it later.
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

    This checks names that everybody can create, and for root all names on the way; not missing ones, nor the
    folders of this program: a user who can exchange those needs no cache. The owner of ``/`` is root, even
    under another number in a container. A place where everybody may rename everything, as in a pod's empty
    volume, is not for root.
    """
    owners = {*owners, 0, Path("/").stat().st_uid}
    is_root = os.geteuid() == 0
    program = Path(__file__).resolve().parents
    for place in (folder.absolute(), Path(os.path.realpath(folder))):
        for path in (place, *place.parents):
            if path in program or not os.path.lexists(path):
                continue
            above = path.parent.stat().st_mode
            if (is_root or above & stat.S_IWOTH) and path.lstat().st_uid not in owners:
                return False
            if is_root and above & stat.S_IWOTH and not above & stat.S_ISVTX:
                return False
    return True
