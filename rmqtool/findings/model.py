"""A finding, and the catalogue of codes that explain it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from rmqtool.caches import packaged_text
from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


Observed = int | str | bool | None

"""Value of a JSON field of a finding."""


class Severity(StrEnum):
    """Severity of a finding; ``--fail-on`` names one of them."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Structure(StrEnum):
    """Affected part of a store, which decides the exit status."""

    COMMITLOG = "commitlog"
    CONSUMEQUEUE = "consumequeue"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    STORE = "store"
    START = "start"  # harm that the next start will do
    CATCH_UP = "catch-up"  # what the next start will do to derived files
    UNREAD = "unread"  # what this user may not read, or queues in a form that is not read here
    UNREAD_LOG = "unread-log"  # a log, or a part of it, that was not read: nothing can be judged by the rest


_REBUILT = frozenset({Structure.CONSUMEQUEUE, Structure.INDEX, Structure.CATCH_UP, Structure.STORE})
_UNLESS_DAMAGED = (
    "If the commit log is damaged, too, compare with a replica first: a rebuild could then take messages from"
    " consumers."
)


def advises_rebuild(remedy: str, structure: Structure) -> bool:
    """Whether a remedy rebuilds derived files: on a damaged log that can lose more than it repairs."""
    return structure in _REBUILT and "rebuild" in remedy.lower()


@dataclass(frozen=True, slots=True)
class FindingCode:
    """One kind of finding, with the fixed headings that ``verify --explain`` prints.

    Attributes:
        code: Stable id; never reused, never renamed.
        severity: Usual severity of its findings.
        structure: Affected part of the store.
        title: A few words for a table.
        meaning: Signs on disk, and causes.
        broker_effect: Behaviour of a broker.
        remedy: Advice for the operator.
        origin: Java ``Class#method`` whose behaviour is described (versions where they differ).
    """

    type: ClassVar = "code"
    code: str
    severity: Severity
    structure: Structure
    title: str
    meaning: str
    broker_effect: str
    remedy: str
    origin: str

    @property
    def general_remedy(self) -> str:
        """The remedy, with the case in which it does harm, for use without the other findings."""
        return (
            f"{self.remedy} {_UNLESS_DAMAGED}"
            if advises_rebuild(self.remedy, self.structure)
            else self.remedy
        )

    def __reduce__(self) -> tuple[Callable[[str], FindingCode], tuple[str]]:
        """Unpickle as the catalogue's own entry: codes are compared by ``is``."""
        return code_of, (self.code,)


def _read_catalog() -> Iterator[FindingCode]:
    for block in packaged_text("findings/catalog.txt").split("\n\n"):
        if block.startswith("#"):
            continue
        head, *lines = block.replace("\n  ", " ").splitlines()
        code, severity, structure = head.split()
        texts = dict(line.split(": ", 1) for line in lines)
        yield FindingCode(code, Severity(severity), Structure(structure), **texts)


CATALOG: dict[str, FindingCode] = {entry.code: entry for entry in _read_catalog()}


def code_of(text: str) -> FindingCode:
    """Return the catalogue entry of an id, in any case; `UsageError` if there is none."""
    entry = CATALOG.get(text.upper())
    if entry is None:
        raise UsageError(f"no finding code is called {text!r}; `verify --explain all` lists them")
    return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault, or a fact worth knowing, at one place; absent values are ``None``.

    Attributes:
        code: The catalogue entry.
        file: Path relative to the store, as text.
        position: Bytes from the start of ``file``.
        length: Affected bytes, from ``position`` on.
        topic: Topic as stored.
        queue_id: Queue of the topic.
        queue_offset: Units from the start of the queue.
        physical_offset: Bytes from the start of the commit log.
        expected: Expected value.
        observed: Value found.
        message: One sentence; the code's title when empty.
        severity_override: A severity that differs from the code's usual one.
        structure_override: A structure that differs from the code's (an unreadable range of the log).
        count: Number of equal findings that it stands for.
        remedy_override: Advice where the code's remedy would do harm.
    """

    type: ClassVar = "finding"
    code: FindingCode
    file: str | None = None
    position: int | None = None
    length: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    physical_offset: int | None = None
    expected: Observed = None
    observed: Observed = None
    message: str = ""
    severity_override: Severity | None = None
    structure_override: Structure | None = None
    count: int = 1
    remedy_override: str | None = None

    @property
    def severity(self) -> Severity:
        """Severity of this finding."""
        return self.severity_override or self.code.severity

    @property
    def structure(self) -> Structure:
        """Structure that this finding counts for."""
        return self.structure_override or self.code.structure

    @property
    def remedy(self) -> str:
        """What the operator can do about this finding."""
        return self.remedy_override or self.code.remedy

    @property
    def sentence(self) -> str:
        """What is wrong."""
        return self.message or self.code.title


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFinding(Finding):
    """A finding in one of several stores, whose files have the same names.

    Attributes:
        store: the path of the store.
    """

    store: str

    @classmethod
    def of(cls, finding: Finding, store: str) -> StoreFinding:
        """Return a finding with its store."""
        return cls(**{one.name: getattr(finding, one.name) for one in fields(Finding)}, store=store)


def counted(number: int, one: str, many: str = "", *, spec: str = "d") -> str:
    """Return a number and its noun: ``1 unit``, ``2 units``, ``1 entry has``, ``2 entries have``.

    ``many`` is ``one`` with an ``s`` by default; ``spec`` formats the number, ``,`` for people.
    """
    noun = one if number == 1 else many or f"{one}s"
    return f"{number:{spec}} {noun}"
