"""Content of a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
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
