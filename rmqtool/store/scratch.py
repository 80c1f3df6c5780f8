"""Where blocks lie when nothing is written out: temporary files, or a directory that the user names."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.errors import RefusedError
from rmqtool.store.names import directory_around, real_path
from rmqtool.store.staged_file import failure_of
from rmqtool.store.staging import StagingArea, refuse_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def temporary_place(evidence_roots: Iterable[Path]) -> Path:
    """Return the directory for temporary files.

    Raises:
        RefusedError: It lies inside the evidence: ``TMPDIR`` says so, or there is no place but the working
            directory.
    """
    place = real_path(Path(tempfile.gettempdir()))
    root = directory_around(place, evidence_roots)
    if root is not None:
        raise RefusedError(
            f"{place}: temporary files would lie inside the evidence {root}; set TMPDIR to another place"
        )
    return place


@contextlib.contextmanager
def scratch_area(evidence_roots: Iterable[Path], place: Path | None = None) -> Iterator[StagingArea]:
    """Open a staging area whose result nobody wants; it leaves nothing.

    Args:
        evidence_roots: Directories that nothing may be written into.
        place: A directory for it; None is where temporary files belong.

    Raises:
        RefusedError: It would lie inside the evidence.
        EnvironmentFailureError: The file system does not let us.
    """
    temporary = temporary_place(evidence_roots)
    if place is not None:
        refuse_inside(real_path(place), evidence_roots)
    try:
        scratch = tempfile.TemporaryDirectory(prefix="rmqtool-", dir=temporary if place is None else place)
    except OSError as failure:
        raise failure_of(failure, temporary if place is None else place) from failure
    with scratch as made, StagingArea(Path(made) / "out") as area:
        yield area
