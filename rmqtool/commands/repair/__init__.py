"""``repair``: changes a store in place, by renames alone, so that all of it can be undone.

It does nothing that can lose data: it replaces queues and index with ones rebuilt from the log, checkpoint
and settings, and sets aside ``abort`` and stray files of the log's directory. It never changes the log
itself. Here are options, plan and report; ``plan`` makes the plan, and ``run`` carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol

from rmqtool import options
from rmqtool.engine import Engine, EngineOptions
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn, Findings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rmqtool.account import LogLosses
    from rmqtool.commands.repair.merging import MergedSetting
    from rmqtool.doctor.choices import ConfigDiagnosis
    from rmqtool.store import Store


class RepairPart(StrEnum):
    """Parts that can be repaired; the values are those of ``--only``."""

    SETTINGS = "config"
    QUEUES = "consumequeue"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    ABORT = "abort"
    STRAYS = "strays"


class RepairAction(StrEnum):
    """Change of one name."""

    SET_ASIDE = "set-aside"
    PUT_IN = "put-in"
    REPLACE = "replace"


class RepairOutcome(StrEnum):
    """Outcome of a repair."""

    NOTHING = "nothing-to-do"
    PLANNED = "planned"
    INTERRUPTED = "interrupted"  # waits to be finished
    DONE = "done"
    FINISHED = "finished"  # after an interruption
    ROLLED_BACK = "rolled-back"  # the store was worse after it
    UNDONE = "undone"


RESTORE_LOG = "start no broker; restore the log from a replica or a backup, or use the replica itself"
"""Next step where a store has no log at all: nothing is left to salvage."""

_UNSETTLED = frozenset({RepairOutcome.PLANNED, RepairOutcome.INTERRUPTED, RepairOutcome.ROLLED_BACK})


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One name in a store that changes.

    Attributes:
        part: the part that it belongs to.
        action: how it changes.
        path: the name, relative to the store.
        why: the purpose.
    """

    part: RepairPart
    action: RepairAction
    path: str
    why: str


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A fault that is not repaired.

    Attributes:
        part: the part that it belongs to.
        path: its name, relative to the store.
        why: why not, and what to do next.
    """

    part: RepairPart
    path: str
    why: str


class Rebuilt(Protocol):
    """Facts about a rebuild that a repair needs; `rmqtool.commands.rebuild.report.RebuildReport` has them."""

    @property
    def fewer_messages(self) -> int:
        """Return how many messages consumers see now and would not see with the result."""

    @property
    def fewer_entries(self) -> int:
        """Return how many index entries are lost."""

    @property
    def hidden_records(self) -> int:
        """Return how many intact records are in ranges that were not dispatched."""

    @property
    def uncompared(self) -> tuple[str, ...]:
        """Return the parts of the present queues that could not be compared, and why."""

    @property
    def doubtful_settings(self) -> Mapping[str, str]:
        """Return uncertain settings, and what contradicts them."""

    @property
    def assumed(self) -> Mapping[str, str]:
        """Return settings that no file shows, and what rests on them."""


class Rebuild(Protocol):
    """Rebuilds derived files."""

    def __call__(
        self,
        parts: frozenset[str],
        out: Path | None,
        own: Path | None,
        tell_queue: Callable[[str, int, bool], object] = ...,
    ) -> Rebuilt:
        """Rebuild parts into a directory inside a writable one; without one, only count."""


@dataclass(frozen=True)
class RepairRequest:
    """A request to repair a store root of this machine.

    ``choices`` are the user's for files in ``config/``, by name; ``settings_from`` is another store whose
    settings are merged into them, or a client's own file of offsets; ``facts`` are for the journal.
    """

    store: Store
    rebuild: Rebuild
    only: frozenset[RepairPart] = options.words(
        RepairPart, f"Repair only this part: {', '.join(RepairPart)}; repeatable.", metavar="PART"
    )
    choices: Mapping[str, str] = field(default_factory=dict)
    settings_from: Store | Path | None = None
    engine: EngineOptions | Engine = field(default_factory=lambda: EngineOptions("local"))
    facts: Mapping[str, str] = field(default_factory=dict)

    def wants(self, part: RepairPart) -> bool:
        """Whether a part is to be repaired."""
        return not self.only or part in self.only


@dataclass(frozen=True, slots=True)
class RepairReport:
    """Planned or done repair of a store.

    Attributes:
        store: path of the store.
        outcome: the outcome.
        steps: the changes, in this order.
        left: the faults that stay.
        configs: settings that a broker cannot read, with all choices.
        merged: settings that the store of ``settings_from`` has otherwise, and the choice for each.
        journal: the directory in the store that undoes it; None if nothing was changed.
        before: findings of the store before, by code.
        after: findings after it; None if nothing was changed.
        findings: those that decide the exit status: of the store as it is now.
        log_losses: messages that the log had lost before: no repair recovers them; None where nothing points
            to that.
    """

    schema: ClassVar = "rmqtool.repair/1"
    store: str
    outcome: RepairOutcome
    steps: tuple[RepairStep, ...] = ()
    left: tuple[LeftAlone, ...] = ()
    configs: tuple[ConfigDiagnosis, ...] = ()
    merged: tuple[MergedSetting, ...] = ()
    journal: str | None = None
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] | None = None
    findings: Findings = field(default_factory=Findings)
    log_losses: LogLosses | None = None

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return the status of the present findings; at least 1 if something waits or was rolled back."""
        status = self.findings.exit_status(FailOn(fail_on))
        waits = self.outcome in _UNSETTLED or self.left
        if status is ExitStatus.CLEAN and waits and FailOn(fail_on) is not FailOn.NEVER:
            return ExitStatus.NEGATIVE
        return status
