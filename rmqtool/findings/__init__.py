"""Catalogue of all that can be wrong with a store, and of what it means to its owner.

Every kind of finding is a `FindingCode`: ``catalog.txt`` has their texts, `CATALOG` all of them by id, and
`codes` all by name. A `Finding` is one of them at one place. Damage is data: no package raises for it.
Ids are append-only: scripts and baselines of users name them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pkgutil import get_data
from typing import TYPE_CHECKING, Any, ClassVar

from rmqtool.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from rmqtool.arrays import Array


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
        values: Type of expected and observed values: ``plain``, or ``time``, epoch milliseconds.
        explains: Findings that follow from a loss of a range of the log: ``pointers`` into it, or ``all``.
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
    values: str = "plain"
    explains: str = "pointers"

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
    for block in (get_data(__name__, "catalog.txt") or b"").decode().split("\n\n"):
        if block.startswith("#"):
            continue
        head, *lines = block.replace("\n  ", " ").splitlines()
        code, severity, structure = head.split()
        texts = dict(line.split(": ", 1) for line in lines)
        yield FindingCode(code, Severity(severity), Structure(structure), **texts)


CATALOG: dict[str, FindingCode] = {entry.code: entry for entry in _read_catalog()}


class _Codes:
    def __init__(self) -> None:
        vars(self).update({code.replace("-", "_"): entry for code, entry in CATALOG.items()})

    def __getattr__(self, name: str) -> FindingCode:
        """Give every name its type; a name that comes here is none of the catalogue."""
        raise AttributeError(f"catalog.txt has no finding {name.replace('_', '-')}")


codes = _Codes()
"""Codes by name: ``codes.CL_CRC`` is ``CL-CRC`` of the catalogue."""


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
        count: Number of equal findings in it.
        remedy_override: Advice where the code's remedy would do harm.
        effect_override: Behaviour of the releases that may start on the store, where it differs from others'.
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
    effect_override: str | None = None

    @property
    def severity(self) -> Severity:
        """Severity of this finding."""
        return self.severity_override or self.code.severity

    @property
    def structure(self) -> Structure:
        """Structure that this finding counts for."""
        return self.structure_override or self.code.structure

    @property
    def broker_effect(self) -> str:
        """Behaviour of a broker that meets it."""
        return self.effect_override or self.code.broker_effect

    @property
    def remedy(self) -> str:
        """Remedy of this finding, for the operator."""
        return self.remedy_override or self.code.remedy

    @property
    def sentence(self) -> str:
        """Damage in one sentence."""
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
        return cls(**{field.name: getattr(finding, field.name) for field in fields(Finding)}, store=store)


def counted(number: int, singular: str, plural: str = "", *, spec: str = "d") -> str:
    """Return a number and its noun: ``1 unit``, ``2 units``, ``1 entry has``, ``2 entries have``.

    ``plural`` is ``singular`` with an ``s`` by default; ``spec`` formats the number, ``,`` for people.
    """
    noun = singular if number == 1 else plural or f"{singular}s"
    return f"{number:{spec}} {noun}"


def some(names: Iterable[str], most: int = 10) -> str:
    """Return the first names, and how many more there are."""
    kept = list(names)
    more = f" and {len(kept) - most} more" if len(kept) > most else ""
    return ", ".join(kept[:most]) + more


def near_names(name: str, known: list[str], most: int = 10) -> str:
    """Return the known names that an unknown one may mean, as a sentence goes on."""
    from difflib import get_close_matches

    by_folded = {one.casefold(): one for one in known}
    near = [by_folded[match] for match in get_close_matches(name.casefold(), by_folded)]
    return f"near it: {', '.join(near)}" if near else f"it has {some(known, most)}"


def meant(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint at the known name that an unknown one may mean; without one, another hint."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}?" if close else otherwise


class FailOn(StrEnum):
    """Values of ``--fail-on``."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


_FAILING: dict[FailOn, frozenset[Severity]] = {
    FailOn.ERROR: frozenset({Severity.ERROR}),
    FailOn.WARNING: frozenset({Severity.ERROR, Severity.WARNING}),
    FailOn.NEVER: frozenset(),
}
NOT_READ = frozenset({Structure.UNREAD, Structure.UNREAD_LOG})


def exit_status(findings: Iterable[Finding], fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
    """Return the exit status of findings, see `status_of`; `ValueError` for an unknown ``fail_on``."""
    return status_of(((finding.severity, finding.structure) for finding in findings), FailOn(fail_on))


def status_of(weights: Iterable[tuple[Severity, Structure]], fail_on: FailOn) -> ExitStatus:
    """Return the exit status of (severity, structure) pairs.

    3 if a part of the log was not read; else 5 if the commit log is damaged, or the next start does harm;
    else 3 if something else was not read; no ``--fail-on`` changes a 3; 1 if only derived files are damaged;
    else 0.
    """
    weights = set(weights)
    if any(structure is Structure.UNREAD_LOG for _, structure in weights):
        return ExitStatus.FAILED
    failing = {structure for severity, structure in weights if severity in _FAILING[fail_on]}
    if failing & {Structure.COMMITLOG, Structure.START}:
        return ExitStatus.LOG_DAMAGED
    if any(structure in NOT_READ for _, structure in weights):
        return ExitStatus.FAILED
    return ExitStatus.NEGATIVE if failing else ExitStatus.CLEAN


class Findings:
    """The first findings of every code, at most ``max_per_code``, and their number, as in reports."""

    def __init__(self, max_per_code: int = 100) -> None:
        self.max_per_code = max_per_code
        self._kept: dict[str, list[Finding]] = {}
        self._counts: Counter[str] = Counter()
        self._weights: Counter[tuple[Severity, Structure]] = Counter()

    def __iter__(self) -> Iterator[Finding]:
        for findings in self._kept.values():
            yield from findings

    def __len__(self) -> int:
        return self._counts.total()

    @property
    def counts(self) -> dict[str, int]:
        """Number of findings of each code, kept or not."""
        return dict(self._counts)

    @property
    def errors(self) -> dict[Structure, int]:
        """Number of errors in each structure, kept or not."""
        return {
            structure: count
            for (severity, structure), count in self._weights.items()
            if severity is Severity.ERROR
        }

    def suppressed(self, code: str) -> int:
        """Return how many findings of ``code`` are counted but not kept."""
        return self._counts[code] - len(self._kept.get(code, ()))

    def exit_status(
        self, fail_on: FailOn = FailOn.ERROR, *, without: Collection[Structure] = ()
    ) -> ExitStatus:
        """Return the exit status of all findings, kept or only counted, but for some structures."""
        return status_of((weight for weight in self._weights if weight[1] not in without), fail_on)


class FindingLog(Findings):
    """Log that keeps the first ``max_per_code`` findings of every code, and counts all of them.

    A damaged store can hold more findings than memory; the kept ones are bounded by the catalogue's length
    times the cap. Logs of parallel tasks are picklable; `merge` joins them in the order of the log.
    """

    @classmethod
    def of(cls, findings: Findings) -> FindingLog:
        """Return a log that continues a report's findings, which stay as they are."""
        log = cls(findings.max_per_code)
        log.merge(findings)
        return log

    def add(self, finding: Finding, *, count: int = 1) -> None:
        """Add one finding for ``count`` equal ones (a kernel reports the first and the number)."""
        if count < 1:
            return
        code = finding.code.code
        self._counts[code] += count
        self._weights[finding.severity, finding.structure] += count
        kept = self._kept.setdefault(code, [])
        if len(kept) < self.max_per_code:
            kept.append(finding if count == 1 else replace(finding, count=count))

    def add_rows(self, rows: Sequence[Any] | Array, finding: Callable[[Any], Finding]) -> None:
        """Add a finding for each of many rows with the same fault; those above the cap only count.

        ``finding`` makes one, of the same code, severity and structure; it is not called for rows that are
        not kept.
        """
        if not len(rows):
            return
        first = finding(rows[0])
        room = max(self.max_per_code - len(self._kept.get(first.code.code, ())), 1)
        self.add(first)
        self.extend(finding(row) for row in rows[1:room])
        self.add(first, count=len(rows) - room)

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings one by one."""
        for finding in findings:
            self.add(finding)

    def fold(self, code: str, finding: Finding) -> None:
        """Replace all findings of a code, which have one severity and structure, by one finding."""
        self.drop(code)
        self.add(finding)

    def drop(self, code: str) -> None:
        """Remove all findings of a code; those that only count have the severity of the first."""
        kept, count = self._kept.pop(code, []), self._counts.pop(code, 0)
        for finding in kept:
            self._weights[finding.severity, finding.structure] -= finding.count
            count -= finding.count
        for finding in kept[:1]:
            self._weights[finding.severity, finding.structure] -= count
        self._weights = +self._weights

    def exchange(self, finding: Finding, other: Finding) -> None:
        """Replace a kept finding by another of the same code."""
        kept = self._kept[finding.code.code]
        kept[kept.index(finding)] = other
        self._weights[finding.severity, finding.structure] -= finding.count
        self._weights[other.severity, other.structure] += finding.count
        self._weights = +self._weights  # which drops what is 0

    def merge(self, other: Findings) -> None:
        """Append the findings of another log; its counts add up, the cap stays this log's."""
        for code, findings in other._kept.items():
            kept = self._kept.setdefault(code, [])
            kept.extend(findings[: max(0, self.max_per_code - len(kept))])
        self._counts.update(other._counts)
        self._weights.update(other._weights)

    def soften(self, code: FindingCode, severity: Severity) -> None:
        """Change the severity of every finding of a code, kept or only counted."""
        count = self._counts[code.code]
        if not count:
            return
        kept = self._kept[code.code]
        self._kept[code.code] = [replace(finding, severity_override=severity) for finding in kept]
        self._weights[severity, code.structure] += count
        self._weights -= Counter({(code.severity, code.structure): count})  # which drops what is 0
