"""Places where results are made, and temporary folders that vanish with their process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rmqtool.errors import RefusedError
from rmqtool.io import Location
from rmqtool.store.names import directory_around, real_path
from rmqtool.store.staged_file import failure_of
from rmqtool.store.staging import StagingArea, refuse_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.store.object_staging import ObjectStagingArea
    from rmqtool.store.root import Store


_MARKER = "marker"
_LONGEST = 4096


class TemporaryFolder:
    """Make a folder, and remove those of this user's killed processes beside it.

    Names of no other kind of folder may begin with ``prefix``; without ``parent``, it is made where temporary
    files belong. Raises `OSError` if that fails.
    """

    def __init__(self, prefix: str, parent: Path | str | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()
        made = self.path / f".{_MARKER}"
        self._marker = _locked(made, os.O_CREAT)
        # without the machine's name, it must not look like that of a killed process
        if self._marker is not None and _wrote_host(self._marker):
            made.rename(self.path / _MARKER)  # so that it never appears unlocked
        for other in self.path.parent.glob(f"{prefix}*"):
            if other != self.path and (marker := _locked(other / _MARKER)) is not None:
                if os.read(marker, _LONGEST) == _host():
                    shutil.rmtree(other, ignore_errors=True)
                os.close(marker)

    def remove(self) -> None:
        """Remove the folder with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._marker is not None:
            os.close(self._marker)
            self._marker = None


def _host() -> bytes:
    return os.fsencode(socket.gethostname())


def _wrote_host(marker: int) -> bool:
    with contextlib.suppress(OSError):
        return os.write(marker, _host()) == len(_host())
    return False


def _locked(path: Path, more: int = 0) -> int | None:
    with contextlib.suppress(OSError), contextlib.ExitStack() as undone:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | more, 0o600)
        undone.callback(os.close, file)
        if os.fstat(file).st_uid != os.geteuid() or path.parent.lstat().st_uid != os.geteuid():
            return None
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        undone.pop_all()
        return file
    return None


_PREFIX = "rmqtool-scratch-"

Target: TypeAlias = Path | Location

"""Place of a result."""

AnyArea: TypeAlias = "StagingArea | ObjectStagingArea"


def temporary_place(evidence_roots: Iterable[Path]) -> Path:
    """Return the directory for temporary files; `RefusedError` if that lies inside the evidence."""
    place = real_path(Path(tempfile.gettempdir()))
    root = directory_around(place, evidence_roots)
    if root is not None:
        raise RefusedError(
            f"{place}: temporary files would lie inside the evidence {root}; set TMPDIR to another place"
        )
    return place


@contextlib.contextmanager
def output_area(
    out: Target, stores: Iterable[Store], own: Path | None = None, *, elsewhere: bool
) -> Iterator[AnyArea]:
    """Open a staging area for a directory, or for a URL.

    With ``elsewhere``, tasks run on machines that do not see temporary files of this one.
    """
    read = [*stores]
    roots = [root for store in read for root in store.evidence_roots]
    if isinstance(out, Path):
        with StagingArea(out, roots, own) as area:
            yield area
        return
    from rmqtool.store.object_staging import ObjectStagingArea

    evidence = _places(read)
    with _directory(roots) as here, ObjectStagingArea(out, evidence, here, elsewhere=elsewhere) as there:
        yield there


def refuse_evidence(out: Target, stores: Iterable[Store]) -> None:
    """Raise `RefusedError` for an output that lies in what is read."""
    read = [*stores]
    if isinstance(out, Path):
        refuse_inside(out, [root for store in read for root in store.evidence_roots])
        return
    from rmqtool.store.object_staging import refuse_below

    for place in _places(read):
        refuse_below(out, place)


def _places(stores: Iterable[Store]) -> list[Location]:
    return [place for store in stores for place in (store.base, *store.commitlog.directories)]


@contextlib.contextmanager
def _directory(evidence_roots: Iterable[Path], place: Path | None = None) -> Iterator[Path]:
    """Make a directory for temporary files, and remove it and those that killed runs left there."""
    parent = place or temporary_place(evidence_roots)
    try:
        made = TemporaryFolder(_PREFIX, parent)
    except OSError as failure:
        raise failure_of(failure, parent) from failure
    try:
        yield made.path
    finally:
        made.remove()


@contextlib.contextmanager
def scratch_area(evidence_roots: Iterable[Path], place: Target | None = None) -> Iterator[AnyArea]:
    """Open a staging area whose result is dropped: in a directory, at a URL, or among temporary files.

    Raises `RefusedError` if it would lie inside the evidence; `EnvironmentFailureError` if the file system
    refuses.
    """
    roots = [*evidence_roots]
    temporary_place(roots)  # which other code uses, too
    if isinstance(place, Location):
        from rmqtool.store.object_staging import ObjectStagingArea

        own = place / f"rmqtool-{secrets.token_hex(4)}"
        with _directory(roots) as here, ObjectStagingArea(own, (), here, elsewhere=True) as there:
            yield there
        return
    if place is not None:
        refuse_inside(real_path(place), roots)
    with _directory(roots, place) as here, StagingArea(here / "out") as area:
        yield area
