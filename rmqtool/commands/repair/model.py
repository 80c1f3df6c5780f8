"""What a repair is asked, what it would do, and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol

from rmqtool.engine import EngineOptions
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn, Findings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rmqtool.account.model import LogLosses
    from rmqtool.doctor import ConfigDiagnosis
    from rmqtool.store import Store


class RepairPart(StrEnum):
    """What can be mended; the values are those of ``--only``."""

    SETTINGS = "config"
    QUEUES = "consumequeue"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    ABORT = "abort"
    STRAYS = "strays"


class RepairAction(StrEnum):
    """What happens to one name."""

    SET_ASIDE = "set-aside"
    PUT_IN = "put-in"
    REPLACE = "replace"


class RepairOutcome(StrEnum):
    """What became of a repair."""

    NOTHING = "nothing-to-do"
    PLANNED = "planned"
    INTERRUPTED = "interrupted"  # one that waits to be finished
    DONE = "done"
    FINISHED = "finished"  # one that was interrupted
    ROLLED_BACK = "rolled-back"  # the store was no better for it
    UNDONE = "undone"


_UNSETTLED = frozenset({RepairOutcome.PLANNED, RepairOutcome.INTERRUPTED, RepairOutcome.ROLLED_BACK})


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One name in a store that changes.

    Attributes:
        part: what it belongs to.
        action: what happens to it.
        path: the name, relative to the store.
        why: what it is good for.
    """

    part: RepairPart
    action: RepairAction
    path: str
    why: str


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """What is wrong and is not mended.

    Attributes:
        part: what it belongs to.
        path: its name, relative to the store.
        why: why not, and what to do next.
    """

    part: RepairPart
    path: str
    why: str


class Rebuilt(Protocol):
    """What a repair has to know of a rebuild; `rmqtool.commands.rebuild.report.RebuildReport` is one."""

    @property
    def verdict(self) -> str:
        """Return the outcome in one sentence."""
        ...

    @property
    def is_log_damaged(self) -> bool:
        """Whether the commit log itself has errors."""
        ...

    @property
    def fewer_messages(self) -> int:
        """Return how many messages consumers see now and would not see with the result."""
        ...

    @property
    def fewer_entries(self) -> int:
        """Return how many index entries are lost."""
        ...

    @property
    def hidden_records(self) -> int:
        """Return how many true records are in ranges that were not dispatched."""
        ...

    @property
    def uncompared(self) -> tuple[str, ...]:
        """Return what of the present queues could not be compared, and why."""
        ...

    @property
    def doubtful_settings(self) -> Mapping[str, str]:
        """Return settings that are not sure, and what speaks against them."""
        ...


class Rebuild(Protocol):
    """Makes derived files anew."""

    def __call__(
        self,
        parts: frozenset[str],
        out: Path | None,
        own: Path | None,
        tell_queue: Callable[[str, int], object] = ...,
    ) -> Rebuilt:
        """Rebuild parts into a directory inside of one that may be written; without one, only count."""
        ...


@dataclass(frozen=True)
class RepairRequest:
    """What to repair, and how.

    Attributes:
        store: a store root of this machine.
        rebuild: makes queues and index anew.
        only: the parts to mend; empty means all.
        choices: the user's choice for files in ``config/``, by name.
        engine: where ``verify`` runs.
        facts: what the journal is to tell beside: who called it how.
    """

    store: Store
    rebuild: Rebuild
    only: frozenset[RepairPart] = frozenset()
    choices: Mapping[str, str] = field(default_factory=dict)
    engine: EngineOptions = field(default_factory=lambda: EngineOptions("local"))
    facts: Mapping[str, str] = field(default_factory=dict)

    def wants(self, part: RepairPart) -> bool:
        """Tell whether a part is to be mended."""
        return not self.only or part in self.only


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair would do, or did.

    Attributes:
        store: path of the store.
        outcome: what became of it.
        steps: what changes, in this order.
        left: what is wrong and stays.
        configs: settings that a broker cannot read, with all choices.
        journal: the directory in the store that undoes it; None if nothing was changed.
        before: findings of the store before, by code.
        after: findings after it; None if nothing was changed.
        findings: those that decide the exit status: of the store as it is now.
        log_losses: messages that the log has lost, by what was there before: no repair brings them back; None
            where nothing points to that.
    """

    schema: ClassVar = "rmqtool.repair/1"
    store: str
    outcome: RepairOutcome
    steps: tuple[RepairStep, ...] = ()
    left: tuple[LeftAlone, ...] = ()
    configs: tuple[ConfigDiagnosis, ...] = ()
    journal: str | None = None
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] | None = None
    findings: Findings = field(default_factory=Findings)
    log_losses: LogLosses | None = None

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return the status of what is wrong now; 1 at least where something waits or was rolled back."""
        status = self.findings.exit_status(FailOn(fail_on))
        waits = self.outcome in _UNSETTLED or self.left
        if status is ExitStatus.CLEAN and waits and FailOn(fail_on) is not FailOn.NEVER:
            return ExitStatus.NEGATIVE
        return status
