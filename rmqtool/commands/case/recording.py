"""Record of a run in the making: operator, place, time, options; the digests of its files; the outcome."""

from __future__ import annotations

import getpass
import os
import platform
import pwd
import socket
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqtool.check.digests import Hashed, ListedFile, files_below, hash_all, store_files
from rmqtool.commands.case import (
    Afterwards,
    CaseDirectory,
    CaseFile,
    CaseOption,
    CaseOutcome,
    CaseRecord,
    Operator,
    RunFacts,
    StoreSettings,
    counters_of,
)
from rmqtool.engine import MapInterruptedError
from rmqtool.findings import FindingLog
from rmqtool.io import FileKind, Location, location_of
from rmqtool.io.location import refuse_same_device
from rmqtool.store import PathKind, Store
from rmqtool.store.staging import refuse_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rmqtool.progress import Progress


_NS_A_S = 1_000_000_000


def facts_now(version: str, command: Iterable[str], options: Mapping[str, CaseOption]) -> RunFacts:
    """Return the facts of a run that begins in this process."""
    return RunFacts(
        rmqtool=version,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        command=tuple(command),
        directory=str(Path.cwd()),
        operator=Operator(_login(), os.getuid(), os.environ.get("SUDO_USER"), socket.gethostname()),
        started=utc_text(time.time_ns()),
        options=options,
    )


def _login() -> str:
    """Return the user's name by the number, which no variable of the environment can change."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in a container
        pass
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def utc_text(time_ns: int) -> str:
    """Return a time in nanoseconds since 1970 as ISO 8601 has it, in UTC and without loss."""
    seconds, rest = divmod(time_ns, _NS_A_S)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
    except (OverflowError, ValueError, OSError):  # a file's time may be of any year
        return f"{time_ns} ns"


_INPUTS, _OUTPUTS = "case: SHA-256 of inputs", "case: SHA-256 of outputs"
_NOT_HASHED = "the run was interrupted before this file was read for its digest"


class Recording:
    """One run on its way to its record; ``report`` is its findings, as JSON, once it knows.

    ``read`` and ``written`` are the files and directories that the command line names beside the stores.
    """

    def __init__(
        self,
        directory: Path,
        run: RunFacts,
        read: Sequence[Path],
        written: Sequence[Path],
        jobs: int | None,
        progress: Progress,
    ) -> None:
        self._case = CaseDirectory(directory)
        self._run = run
        self._named_inputs, self._named_outputs = read, written
        self._jobs = jobs
        self._progress = progress
        self._settings: tuple[StoreSettings, ...] = ()
        self._inputs: list[tuple[ListedFile, Hashed | None]] = []
        self._unseen: list[CaseFile] = []
        self._changing: tuple[Store, ...] = ()
        self._before: Mapping[Location, ListedFile] = {}
        self._has_begun = False
        self.report: Mapping[str, Any] | None = None

    def begin(
        self, stores: Sequence[Store], images: Sequence[Location] = (), *, in_place: bool = False
    ) -> None:
        """Take the digests of all that the run is going to read, before it does; ``images`` are other inputs.

        With ``in_place`` the run may change the stores.
        """
        path = self._case.path
        refuse_inside(path, [root for store in stores for root in store.evidence_roots])
        refuse_inside(path, self._named_outputs, "the output")
        for image in images:
            refuse_same_device(image, path)
        self._settings = tuple(
            StoreSettings(str(store.place.path), {one.name: one for one in store.settings})
            for store in stores
        )
        self._changing = tuple(stores) if in_place else ()
        self._case.prepare()
        self._has_begun = True
        self._before = self._made()
        self._inputs = self._hash(self._read(stores, images).values(), _INPUTS)

    def finish(self, status: int, outcome: CaseOutcome, message: str | None) -> tuple[Path, str] | None:
        """Add the record; return its file and digest, None for a run that ended before it read anything."""
        if not self._has_begun:
            return None
        new = [file for place, file in self._made().items() if self._before.get(place) != file]
        outputs = [_entry_of(*pair) for pair in self._hash(new, _OUTPUTS)]
        inputs = [_followed(*pair) for pair in self._inputs]
        return self._case.append(
            lambda number, previous: CaseRecord(
                number,
                previous,
                self._run,
                utc_text(time.time_ns()),
                outcome,
                status,
                message,
                self._settings,
                (*inputs, *self._unseen),
                tuple(outputs),
                None if self.report is None else counters_of(self.report),
                self.report,
            )
        )

    def _read(self, stores: Sequence[Store], images: Sequence[Location]) -> dict[Location, ListedFile]:
        """List the files that the run reads: of a part of a store, that part and the log beside it."""
        found = _below(self._named_inputs, self._unseen)
        for store in stores:
            refused = FindingLog()
            files = store_files(store, refused)
            if store.kind is not PathKind.STORE:
                files += files_below((segment.path for segment in store.log), store.base, refused)
            found |= {file.path: file for file in files}
            self._unseen += _unseen(refused, store.base)
        return found | {place: _image(place) for place in images}

    def _made(self) -> dict[Location, ListedFile]:
        found = _below(self._named_outputs, [])
        for store in self._changing:
            found |= {file.path: file for file in store_files(store, FindingLog())}
        return found

    def _hash(self, files: Iterable[ListedFile], stage: str) -> list[tuple[ListedFile, Hashed | None]]:
        """Hash files; after Ctrl-C on outputs, return those that are hashed by then."""
        listed = [*files]
        try:
            return [*zip(listed, hash_all(listed, self._jobs, self._progress, stage), strict=True)]
        except MapInterruptedError as stop:
            pairs = [(file, stop.results.get(number)) for number, file in enumerate(listed)]
            if stage == _OUTPUTS:
                return pairs
            self._inputs = pairs
            raise


def _below(paths: Iterable[Path], unseen: list[CaseFile]) -> dict[Location, ListedFile]:
    """List the files in directories; add those that cannot be read to ``unseen``."""
    found: dict[Location, ListedFile] = {}
    for place in map(location_of, paths):
        refused = FindingLog()
        found |= {file.path: file for file in files_below([place], place.parent, refused)}
        unseen += _unseen(refused, place.parent)
    return found


def _unseen(refused: FindingLog, base: Location) -> list[CaseFile]:
    return [CaseFile((base / (one.file or ".")).text, 0, None, problem=one.sentence) for one in refused]


def _image(place: Location) -> ListedFile:
    """Return an image as a file; a block device, whose status has no size, by its reader."""
    status = place.status()
    with place.reader() as file:
        return ListedFile(place, place.text, file.current_size(), 0 if status is None else status.modified_ns)


def _entry_of(file: ListedFile, hashed: Hashed | None) -> CaseFile:
    problem = None if hashed is None or not hashed.findings else hashed.findings[0].sentence
    return CaseFile(
        file.path.text,
        file.size_bytes,
        utc_text(file.modified_ns),
        None if hashed is None else hashed.digest,
        _NOT_HASHED if hashed is None else problem,
    )


def _followed(file: ListedFile, hashed: Hashed | None) -> CaseFile:
    """Return the entry of an input, which may have changed by now."""
    entry, status = _entry_of(file, hashed), file.path.status()
    if status is None or status.kind is FileKind.LOST:
        return replace(entry, afterwards=Afterwards.GONE)
    is_file = status.kind is FileKind.FILE
    is_same = not is_file or (status.size_bytes, status.modified_ns) == (file.size_bytes, file.modified_ns)
    return entry if is_same else replace(entry, afterwards=Afterwards.CHANGED)
