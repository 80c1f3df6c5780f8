"""Names of folders for results from several stores."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def folder_names(paths: Sequence[str]) -> list[str]:
    """Return a name for each store: as much of the end of its path as is unique.

    ``/data/a/store`` and ``/data/b/store`` become ``a-store`` and ``b-store``; equal paths get numbers.
    """
    unique = [*dict.fromkeys(paths)]
    names = dict(zip(unique, _unique_ends([path.strip("/").split("/") for path in unique]), strict=True))
    return _numbered([names[path] for path in paths])


def _unique_ends(parts: Sequence[Sequence[str]]) -> list[str]:
    """Return ends of paths, longer where they would be the same, until whole paths are used."""
    lengths = [1] * len(parts)
    while True:
        names = ["-".join(one[-length:]) or "root" for one, length in zip(parts, lengths, strict=True)]
        counts = Counter(names)
        longer = [
            length + (counts[name] > 1 and length < len(one))
            for one, length, name in zip(parts, lengths, names, strict=True)
        ]
        if longer == lengths:
            return names
        lengths = longer


def _numbered(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        number, own = 1, name
        while own in found:
            number += 1
            own = f"{name}-{number}"
        found.append(own)
    return found
