"""The directory of a case: numbered records that appear whole, one after the other, whoever else is at work.

Beside the records lie ``.lock``, held while one is added, and a ``.begun-XXXXXXXX.json`` for every run at
work, which that run holds locked. One that nobody holds any more is of a run that was killed; who adds the
next record makes one of it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqtool.commands.case.model import CaseOutcome, CaseRecord, RunFacts
from rmqtool.commands.case.sealing import BrokenSealError, Sealed, seal, unseal
from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.io import location_of
from rmqtool.projection import json_object
from rmqtool.store.staged_file import failure_of
from rmqtool.store.syncing import sync_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rmqtool.io import Location

_LOCK, _BEGUN, _ATTEMPT = ".lock", ".begun-", ".attempt-"
_RECORD = re.compile(r"(\d{4,})\.json")
_LARGEST = 1 << 30
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_MODE = 0o644  # minus umask
_KILLED = "the process ended without a word: killed, or out of power; this was noted by the next run"


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that has no record.

    Attributes:
        name: of its file.
        run: what it said when it began; empty if that cannot be read.
        at_work: whether it is still going on.
    """

    name: str
    run: dict[str, Any]
    at_work: bool


class CaseDirectory:
    """A case; made by the first run that is recorded in it.

    Args:
        path: The directory; its parent must exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._marker: tuple[Path, int] | None = None

    def records(self) -> dict[int, Location]:
        """Return the files of all records by their numbers, ascending.

        Raises:
            EnvironmentFailureError: The directory cannot be listed.
        """
        place = location_of(self.path)
        named = ((_RECORD.fullmatch(entry.name), entry.name) for entry in place.entries())
        return dict(sorted((int(found[1]), place / name) for found, name in named if found is not None))

    def begun(self) -> list[Begun]:
        """Return the runs that have no record, by the names of their files."""
        place = location_of(self.path)
        return [
            Begun(entry.name, _facts(place / entry.name), _is_held(self.path / entry.name))
            for entry in place.entries()
            if entry.name.startswith(_BEGUN)
        ]

    def begin(self, run: RunFacts) -> None:
        """Note that a run begins; make the directory if it is not there.

        Raises:
            RefusedError: It holds something else, or its last record was altered.
            EnvironmentFailureError: It cannot be written.
        """
        with self._told():
            self.path.mkdir(exist_ok=True)
            names = {entry.name for entry in location_of(self.path).entries()}
            if names and _LOCK not in names and not self.records():
                raise RefusedError(f"{self.path}: is no directory of a case: it holds other things")
            with self._locked():
                self._last()
                path = self.path / f"{_BEGUN}{secrets.token_hex(4)}.json"
                descriptor = os.open(path, _NEW, _MODE)
                self._marker = path, descriptor
                with suppress(OSError):  # a file system without flock: nobody takes it for a dead one
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _write_all(descriptor, json.dumps(json_object(run)).encode())
                os.fsync(descriptor)

    def append(self, make: Callable[[int, str | None], CaseRecord]) -> tuple[Path, str]:
        """Add the record of the run that began.

        Args:
            make: Returns it, given its number and the digest of the one before.

        Returns:
            Its file and its digest.

        Raises:
            RefusedError: The record before was altered since the run began.
            EnvironmentFailureError: It cannot be written; nothing of it is there.
        """
        with self._told(), self._locked():
            added = self._add(make)
            if self._marker is not None:
                path, descriptor = self._marker
                path.unlink(missing_ok=True)
                os.close(descriptor)
                self._marker = None
            return added

    def _add(self, make: Callable[[int, str | None], CaseRecord]) -> tuple[Path, str]:
        number, previous = self._last()
        data = seal(make(number + 1, previous))
        path = self.path / f"{number + 1:04d}.json"
        self._publish(data, path)
        return path, unseal(data).sha256

    def _last(self) -> tuple[int, str | None]:
        """Return number and digest of the last record, 0 and None if there is none.

        Raises:
            RefusedError: It is not as it was written.
        """
        records = self.records()
        if not records:
            return 0, None
        number = max(records)
        try:
            return number, read_record(records[number]).sha256
        except BrokenSealError as failure:
            raise RefusedError(
                f"{records[number]}: {failure}; nothing is added to a case that was altered: look at it with"
                f" rmqtool case verify {self.path}, and begin another one"
            ) from failure

    def _publish(self, data: bytes, path: Path) -> None:
        """Let a file appear whole; one that is there is never replaced, not even where no lock works."""
        attempt = self.path / f"{_ATTEMPT}{secrets.token_hex(4)}"
        try:
            descriptor = os.open(attempt, _NEW, _MODE)
            try:
                _write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            try:
                path.hardlink_to(attempt)
            except FileExistsError:
                raise
            except OSError:  # a file system that knows no hard links
                if os.path.lexists(path):
                    raise
                attempt.rename(path)
        finally:
            attempt.unlink(missing_ok=True)
        sync_directory(self.path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock; clean up, and note runs that were killed, before anything else is done."""
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            with suppress(OSError):  # a file system without flock: that no file is replaced has to do
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._note_killed()
            yield
        finally:
            os.close(descriptor)

    def _note_killed(self) -> None:
        for entry in location_of(self.path).entries():
            if entry.name.startswith(_ATTEMPT):
                (self.path / entry.name).unlink(missing_ok=True)
        for one in self.begun():
            run = None if one.at_work else RunFacts.parse(one.run)
            if run is not None:
                self._add(partial(_killed, run))
                (self.path / one.name).unlink(missing_ok=True)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say of what failed where it was."""
        try:
            yield
        except OSError as failure:
            raise failure_of(failure, self.path) from failure


def read_record(place: Location) -> Sealed:
    """Return a record.

    Raises:
        BrokenSealError: It was altered.
        EnvironmentFailureError: It cannot be read.
    """
    return unseal(place.read_head(_LARGEST))


def _killed(run: RunFacts, number: int, previous: str | None) -> CaseRecord:
    return CaseRecord(number, previous, run, None, CaseOutcome.KILLED, None, _KILLED)


def _facts(place: Location) -> dict[str, Any]:
    """Return what a run said when it began; nothing if it was killed amid that."""
    try:
        found = json.loads(place.read_head(_LARGEST))
    except (EnvironmentFailureError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_held(path: Path) -> bool:
    """Tell whether a run is at work, or may be."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
