"""Places where results are made and found, and temporary folders that vanish with their process."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shlex
import shutil
import socket
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rmqtool.errors import RefusedError, write_failure
from rmqtool.io import Location
from rmqtool.io.source import is_object_url
from rmqtool.store.names import directory_around, real_path
from rmqtool.store.staging import StagingArea, refuse_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rmqtool.store.object_staging import ObjectStagingArea
    from rmqtool.store.root import Store


CARVE_REPORT = "carve/carve.json"
"""A report as those of `rmqtool.store.kinds`; where one exists, the result is complete."""

_FETCH = "Fetch the files that {out}/manifest.json lists as RESULT, and compare sizes and SHA-256. "


def fetched(out: str) -> tuple[str, str]:
    """Return the step before a result can be used, and the word for its place in a shell line.

    A result on a disk is used where it lies; a name that begins with ``-`` is escaped.
    """
    if is_object_url(out):
        return _FETCH.format(out=out), "RESULT"
    return "", shlex.quote(f"./{out}" if out.startswith("-") else out)


def resting_on(assumed: Mapping[str, str]) -> str:
    """Return what to be sure of before a result is used, a line for each assumption; empty without any."""
    lines = "".join(f"  {name}={why}\n" for name, why in assumed.items())
    return lines and (
        f"This result rests on assumptions:\n{lines}If the broker's own settings differ, give them (-c"
        " broker.conf, or -p NAME=VALUE) and make it again. The report in it keeps them for verify, until a"
        " broker has run.\n"
    )


def read_result(out: Target, name: str) -> bytes | None:
    """Return a file of a complete result; None if there is no such result.

    On a disk a result appears by one rename: where the file is, all of it is. In object storage it is
    compared with the manifest. Raises `RefusedError` if an object is not as the manifest says.
    """
    if isinstance(out, Path):
        try:
            return (out / name).read_bytes()
        except OSError:  # the next run that writes there reports why
            return None
    return _read_object(out, name)


def _read_object(out: Location, name: str) -> bytes | None:
    from rmqtool.store.object_staging import MANIFEST_NAME, MANIFEST_SCHEMA, writer_of

    writer = writer_of(out.text)
    files = _files_of(writer.text(f"{out}/{MANIFEST_NAME}"), MANIFEST_SCHEMA)
    if name not in files:
        return None
    sizes = writer.sizes_below(out.text)
    data = writer.text(f"{out}/{name}")
    differing = [path for path, facts in files.items() if sizes.get(path) != facts["size_bytes"]]
    if not differing and hashlib.sha256(data).hexdigest() != files[name]["sha256"]:
        differing = [name]
    if differing:
        raise RefusedError(
            f"{out}/{differing[0]}: does not match {MANIFEST_NAME} beside it; remove that result to write "
            "it again, or pass another --out"
        )
    return data


def _files_of(manifest: bytes, schema: str) -> dict[str, dict[str, Any]]:
    try:
        document = json.loads(manifest)
    except ValueError:
        return {}
    if not isinstance(document, dict) or document.get("schema") != schema:
        return {}
    return {facts["path"]: facts for facts in document["files"]}


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
        names = ["-".join(part[-length:]) or "root" for part, length in zip(parts, lengths, strict=True)]
        counts = Counter(names)
        longer = [
            length + (counts[name] > 1 and length < len(part))
            for part, length, name in zip(parts, lengths, names, strict=True)
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
    out: Target, stores: Iterable[Store], report: str, own: Path | None = None, *, elsewhere: bool
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
    with (
        _directory(roots) as here,
        ObjectStagingArea(out, evidence, here, report, elsewhere=elsewhere) as there,
    ):
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
        raise write_failure(failure, parent) from failure
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
        with _directory(roots) as here, ObjectStagingArea(own, (), here, "run.json", elsewhere=True) as there:
            yield there
        return
    if place is not None:
        refuse_inside(real_path(place), roots)
    with _directory(roots, place) as here, StagingArea(here / "out") as area:
        yield area
