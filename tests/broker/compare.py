"""Compare derived files byte for byte, saying where they first differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.broker.stores import DERIVED

if TYPE_CHECKING:
    from pathlib import Path

_SHOWN = 20


def compare_derived(expected: Path, observed: Path) -> list[str]:
    """Compare consume queues, their extensions, batch queues and the index of two store roots.

    Index files are compared in order of their names, which are wall-clock times and so differ between any two
    builds.

    Returns:
        One sentence a difference, empty when the derived files are equal.
    """
    differences: list[str] = []
    for directory in DERIVED:
        compare = compare_index if directory == "index" else compare_trees
        differences += [
            f"{directory}: {text}" for text in compare(expected / directory, observed / directory)
        ]
    return differences


def compare_trees(expected: Path, observed: Path) -> list[str]:
    """Compare two trees: the same relative names with the same bytes. A missing tree is an empty one."""
    names = {path.relative_to(expected).as_posix() for path in _files(expected)}
    other = {path.relative_to(observed).as_posix() for path in _files(observed)}
    differences = [f"{name} is missing" for name in sorted(names - other)]
    differences += [f"{name} is superfluous" for name in sorted(other - names)]
    for name in sorted(names & other):
        difference = compare_bytes(expected / name, observed / name)
        differences += [f"{name}: {difference}"] if difference else []
    return differences


def compare_index(expected: Path, observed: Path) -> list[str]:
    """Compare two index directories file by file in order of their names, whatever the names."""
    ours, theirs = _files(expected), _files(observed)
    differences = [] if len(ours) == len(theirs) else [f"{len(ours)} files expected, {len(theirs)} found"]
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), 1):
        difference = compare_bytes(one, other)
        differences += [f"file {number} ({one.name}, {other.name}): {difference}"] if difference else []
    return differences


def compare_bytes(expected: Path, observed: Path) -> str | None:
    """Describe the first difference of two files by size or position, or None when they are equal."""
    one, other = expected.read_bytes(), observed.read_bytes()
    if one == other:
        return None
    if len(one) != len(other):
        return f"{len(one)} bytes expected, {len(other)} found"
    position = next(i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    stop = position + _SHOWN
    return f"position {position}: expected {one[position:stop].hex()}, found {other[position:stop].hex()}"


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())
