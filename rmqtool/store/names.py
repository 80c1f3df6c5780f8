"""Names of topics as names of directories, and the real directories of paths."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")

LONGEST_COMPONENT_BYTES = 255
"""Limit of file systems for one name (``NAME_MAX``)."""


def component_problem(name: str) -> str | None:
    """Return why a topic, decoded as Java does, must not name a directory; None if it may.

    Control characters are allowed, as they are for a broker; printing escapes them.
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
    """Return whether a name may become one component of a path."""
    return component_problem(name) is None


def real_path(path: Path) -> Path:
    """Return a path without links, as far as it exists.

    A circle of links stays as it is, and opening it will fail; ``Path.resolve`` raises RuntimeError there
    (Python before 3.13).
    """
    return Path(os.path.realpath(path))


def directory_around(path: Path, directories: Iterable[Path]) -> Path | None:
    """Return the directory in which a path lies, or would lie if it existed; None if in none of them.

    Links are followed, and directories are recognised by device and inode as well: a bind mount shows one
    under another name, with other parents.
    """
    real = real_path(path)
    roots = {real_path(directory) for directory in directories}
    for place in (real, *real.parents):
        if place in roots:
            return place
    identities = {identity: root for root in roots if (identity := _identity(root)) is not None}
    found = (identities[one] for one in map(_identity, (real, *real.parents)) if one in identities)
    return next(found, None) or _mounted_from(real, roots)


def _mounted_from(path: Path, roots: Iterable[Path]) -> Path | None:
    """Return the directory of which a part is mounted where a path lies; None without one.

    Such a mount has neither the names nor the identity of the directory, but it is of the same file system,
    and below it there.
    """
    mounts = _mounts()
    device, place = _in_device(path, mounts)
    for root in roots:
        of_root, root_place = _in_device(root, mounts)
        if device is not None and device == of_root and place.is_relative_to(root_place):
            return root
    return None


def _in_device(path: Path, mounts: list[_Mount]) -> tuple[str | None, PurePath]:
    """Return the file system of a path, and the path in it; of mounts at one point the last one counts."""
    around = [one for one in mounts if path.is_relative_to(one.point)]
    if not around:
        return None, path
    deepest = max(reversed(around), key=lambda one: len(one.point.parts))
    return deepest.device, deepest.root / path.relative_to(deepest.point)


class _Mount(NamedTuple):
    device: str
    root: PurePath
    point: PurePath


def _mounts() -> list[_Mount]:
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    fields = (line.split(" ") for line in lines)
    return [_Mount(one[2], *map(_unescaped, one[3:5])) for one in fields if len(one) > 4]


def _unescaped(text: str) -> PurePath:
    """Return a path of mountinfo, where space, tab, newline and backslash are octal numbers."""
    return PurePath(_OCTAL.sub(lambda found: chr(int(found[1], 8)), text))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
