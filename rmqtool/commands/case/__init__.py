"""CASE: records of runs (their inputs, results, findings and operator), and the check of these records.

A case is a directory of records, ``0001.json`` and so on. Each is a JSON document whose last member is
SHA-256 of all bytes before that member, and each names that of the record before, so that nobody can change,
remove or insert one without a mismatch in its successors. The chain cannot show that its last records were
deleted, or that all of it was written again: note the last digest elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from rmqtool.errors import RefusedError, writing
from rmqtool.io import Location, location_of
from rmqtool.projection import json_object
from rmqtool.store.staging import sync_directory

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.store import Setting


class CaseOutcome(StrEnum):
    """End of a run."""

    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Operator:
    """The user who ran the command, and the machine.

    Attributes:
        login: name of the user that the process ran as.
        uid: the number of that user.
        sudo_user: name of the user who became that one with ``sudo``, as that reports.
        host: name of the machine.
    """

    login: str
    uid: int
    sudo_user: str | None
    host: str


@dataclass(frozen=True, slots=True)
class CaseOption:
    """An option of the command line, or an argument.

    Attributes:
        value: its value.
        origin: ``given`` on the command line, or its ``default``.
    """

    value: Any
    origin: str


class Afterwards(StrEnum):
    """State of a file when a run ended, by size and time."""

    SAME = "same"
    CHANGED = "changed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A file that was read or made.

    Attributes:
        path: where it is, from the top.
        size_bytes: its size.
        modified: when it was changed last, in UTC, to the nanosecond; null if permissions hide it.
        sha256: of its bytes; null if they could not be read whole.
        problem: why there is no digest.
        afterwards: its state when the run ended.
    """

    path: str
    size_bytes: int
    modified: str | None
    sha256: str | None = None
    problem: str | None = None
    afterwards: Afterwards = Afterwards.SAME


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of a store that were in effect.

    Attributes:
        store: path of it.
        settings: by their names, each with its origin.
    """

    store: str
    settings: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about a run when it begins.

    Attributes:
        rmqtool: version.
        python: version.
        platform: the system and the processor.
        command: the words of the command line.
        directory: the working directory, which names on the command line are relative to.
        operator: who ran it.
        started: when it began, in UTC.
        options: of the command line, by name.
    """

    rmqtool: str
    python: str
    platform: str
    command: tuple[str, ...]
    directory: str
    operator: Operator
    started: str
    options: Mapping[str, CaseOption]


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """The record of one run.

    Attributes:
        number: counted from 1.
        previous: the digest of the record before; null in the first.
        run: the facts when it began.
        ended: when it ended, in UTC.
        outcome: how it ended.
        exit_status: its exit status.
        message: the sentence with which it failed.
        settings: of the stores that were read.
        inputs: the files that were read, as they were before.
        outputs: the files that were made or changed, as they were after.
        counters: numbers of the report, by their names.
        report: the document of ``--format json``; null if the run did not come to it.
    """

    schema: ClassVar = "rmqtool.case/1"
    number: int
    previous: str | None
    run: RunFacts
    ended: str
    outcome: CaseOutcome
    exit_status: int
    message: str | None = None
    settings: tuple[StoreSettings, ...] = ()
    inputs: tuple[CaseFile, ...] = ()
    outputs: tuple[CaseFile, ...] = ()
    counters: Mapping[str, int] | None = None
    report: Mapping[str, Any] | None = None


def counters_of(document: Mapping[str, Any]) -> dict[str, int]:
    """Return the integers of a report by dotted names, those of several stores added up.

    Other lists are about single things, and have no counters.
    """
    found: Counter[str] = Counter()
    for name, value in document.items():
        if isinstance(value, Mapping):
            found.update({f"{name}.{inner}": count for inner, count in counters_of(value).items()})
        elif name == "stores" and isinstance(value, list):
            documents = [one.get("document") for one in value if isinstance(one, Mapping)]
            for one in filter(None, documents):
                found.update(counters_of(one))
        elif isinstance(value, int) and not isinstance(value, bool) and name != "exitStatus":
            found[name] += value
    return dict(found)


_HEAD, _END = ',\n "sha256": "', '"\n}\n'
_SEAL = re.compile(re.escape(_HEAD).encode() + rb"([0-9a-f]{64})" + re.escape(_END).encode())
SEAL_BYTES = len(_HEAD) + 64 + len(_END)
"""``head -c -82 0001.json | sha256sum`` prints the digest."""


class BrokenSealError(ValueError):
    """Bytes that are not a record, or not the sealed ones."""


def seal(record: CaseRecord) -> bytes:
    """Return the bytes of a record's file."""
    text = json.dumps(json_object(record), indent=1).removesuffix("\n}")
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text}{_HEAD}{digest}{_END}".encode()


def unseal(data: bytes) -> dict[str, Any]:
    """Return a record from its file, its digest last; BrokenSealError if altered, or never a record."""
    body, tail = data[:-SEAL_BYTES], data[-SEAL_BYTES:]
    found = _SEAL.fullmatch(tail)
    if found is None:
        raise BrokenSealError("has no digest at its end")
    digest = hashlib.sha256(body).hexdigest()
    if digest != found[1].decode():
        raise BrokenSealError(f"has changed: its SHA-256 is {digest}")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as failure:
        raise BrokenSealError(f"is not JSON: {failure}") from failure
    if not isinstance(document, dict):
        raise BrokenSealError("is not a record")
    return document


_LOCK, _ATTEMPT = ".lock", ".attempt-"
_RECORD = re.compile(r"(\d{4,})\.json")
_LARGEST = 1 << 30
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_MODE = 0o644  # minus umask


class CaseDirectory:
    """A case, created by the first run that is recorded in it; the directory's parent must exist."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def records(self) -> dict[int, Location]:
        """Return the files of all records by their numbers, ascending."""
        place = location_of(self.path)
        named = ((_RECORD.fullmatch(entry.name), entry.name) for entry in place.entries())
        return dict(sorted((int(found[1]), place / name) for found, name in named if found is not None))

    def prepare(self) -> None:
        """Create the directory if it does not exist, and check that a record can be added."""
        with writing(self.path):
            self.path.mkdir(exist_ok=True)
            names = {entry.name for entry in location_of(self.path).entries()}
            if names and _LOCK not in names and not self.records():
                raise RefusedError(f"{self.path}: is not a directory of a case: it holds other files")
            with self._locked():
                self._last()

    def append(self, make: Callable[[int, str | None], CaseRecord]) -> tuple[Path, str]:
        """Add the record of a run; return its file and its digest.

        ``make`` gets the record's number and the digest of the one before.
        """
        with writing(self.path), self._locked():
            number, previous = self._last()
            data = seal(make(number + 1, previous))
            path = self.path / f"{number + 1:04d}.json"
            self._publish(data, path)
            return path, unseal(data)["sha256"]

    def _last(self) -> tuple[int, str | None]:
        """Return number and digest of the last record, 0 and None without; RefusedError if it was altered."""
        records = self.records()
        if not records:
            return 0, None
        number = max(records)
        try:
            return number, read_record(records[number])["sha256"]
        except BrokenSealError as failure:
            raise RefusedError(
                f"{records[number]}: {failure}; the case was changed, so no record is added: check it with "
                f"rmqtool case verify {self.path}, and start another case"
            ) from failure

    def _publish(self, data: bytes, path: Path) -> None:
        """Make a file appear whole; an existing one is never replaced, not even where no lock works."""
        attempt = self.path / f"{_ATTEMPT}{secrets.token_hex(4)}"
        try:
            with os.fdopen(os.open(attempt, _NEW, _MODE), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                path.hardlink_to(attempt)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                if os.path.lexists(path):
                    raise
                attempt.rename(path)
        finally:
            attempt.unlink(missing_ok=True)
        sync_directory(self.path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock, and remove the leftovers of a run that was killed while it wrote its record."""
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            with suppress(OSError):  # a file system without flock: no file is replaced anyway
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            for entry in location_of(self.path).entries():
                if entry.name.startswith(_ATTEMPT):
                    (self.path / entry.name).unlink(missing_ok=True)
            yield
        finally:
            os.close(descriptor)


def read_record(place: Location) -> dict[str, Any]:
    """Return a record; BrokenSealError if it was altered."""
    return unseal(place.read_head(_LARGEST))
