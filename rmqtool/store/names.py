"""Which topic names may become the name of a directory, and what a path really names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_COMPONENT_BYTES = 255
"""What file systems allow for one name (``NAME_MAX``)."""


def component_problem(name: str) -> str | None:
    """Say why a name must not become one component of a path; None if it may.

    Control characters are allowed, as they are for a broker; whoever prints the name escapes them.

    Args:
        name: A topic as stored, decoded as Java does.
    """
    if not name:
        return "it is empty"
    if name in {".", ".."}:
        return f"it is {name!r}"
    if "/" in name or "\x00" in name:
        return "it contains '/' or NUL"
    size_bytes = len(name.encode("utf-8", "surrogatepass"))
    if size_bytes > LONGEST_COMPONENT_BYTES:
        return f"it is {size_bytes} bytes long; {LONGEST_COMPONENT_BYTES} fit in a file name"
    return None


def safe_component(name: str) -> bool:
    """Tell whether a name may become one component of a path."""
    return component_problem(name) is None


def real_path(path: Path) -> Path:
    """Return a path without links, as far as it exists.

    A circle of links is left as it is, for the one who opens it to complain; there ``Path.resolve`` raises
    RuntimeError (Python before 3.13).
    """
    return Path(os.path.realpath(path))


def directory_around(path: Path, directories: Iterable[Path]) -> Path | None:
    """Return that of some directories in which a path lies, or would; None if it lies in none.

    Links are followed, and directories are recognised by device and inode as well: a bind mount shows one
    under another name, whose parents do not tell where it belongs.

    Args:
        path: It need not exist.
        directories: Compared with the path and each of its parents.
    """
    real = real_path(path)
    roots = {real_path(directory) for directory in directories}
    for place in (real, *real.parents):
        if place in roots:
            return place
    identities = {identity: root for root in roots if (identity := _identity(root)) is not None}
    return next((identities[one] for one in map(_identity, (real, *real.parents)) if one in identities), None)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode; None where nothing is, or may be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
