"""A log on two paths, in one of which lies a second file of the name of one of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

FILE_BYTES = 8192
KEPT_BYTES = 3000


class Twin(NamedTuple):
    """A second file of one name.

    Attributes:
        number: of the file of the log.
        content: what the second one holds: ``zeros``, ``cut``: the first records, or ``same``.
        swapped: whether it lies where the log's own file belongs, and that beside it.
    """

    number: int
    content: str = "zeros"
    swapped: bool = False

    def __str__(self) -> str:
        return f"{self.number} {self.content}{' swapped' if self.swapped else ''}"


def lay_out(root: Path, conf: Path, settings: str, twin: Twin) -> tuple[Path, Path]:
    """Put a store's log on ``commitlog/a`` and ``commitlog/b``; return the log's file, and the second one."""
    log = root / "commitlog"
    files = sorted(log.iterdir())
    directories = log / "a", log / "b"
    for directory in directories:
        directory.mkdir()
    for number, path in enumerate(files):
        path.rename(directories[number % 2] / path.name)
    paths = [directory / files[twin.number].name for directory in directories]
    own, other = paths if twin.number % 2 == 0 else paths[::-1]
    data = own.read_bytes()
    if twin.swapped:
        own, other = own.rename(other), own
    kept = {"zeros": 0, "cut": KEPT_BYTES, "same": len(data)}[twin.content]
    other.write_bytes(data[:kept].ljust(len(data), b"\0"))
    conf.write_text(f"{settings}\nstorePathCommitLog={directories[0]},{directories[1]}\n", "utf-8")
    return own, other
