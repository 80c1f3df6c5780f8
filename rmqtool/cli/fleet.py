"""Commands over many stores: several paths, or a glob in quotes, are one run with one report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from rmqtool.api.functions import log_bytes, open_part
from rmqtool.commands.fleet import (
    Ask,
    FleetMember,
    FleetReport,
    ResumedReport,
    ask_members,
    earlier_report,
    earlier_status,
    gathered,
)
from rmqtool.engine import Engine, EngineOptions
from rmqtool.engine.choice import open_engine
from rmqtool.errors import EnvironmentFailureError, ExitStatus, RefusedError
from rmqtool.io import location_of
from rmqtool.report.fleet import Forms, write_fleet
from rmqtool.report.output import Format, document_of
from rmqtool.store.results import Target, folder_names, refuse_evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rmqtool.api.store import Store
    from rmqtool.cli.options import StorePath
    from rmqtool.cli.session import Session
    from rmqtool.findings import FailOn
    from rmqtool.progress import Progress


class MadeReport(Protocol):
    """Interface of the report of a result."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def exit_status(self, fail_on: FailOn) -> ExitStatus:
        """Return the exit status by the findings that fail."""


R = TypeVar("R")
M = TypeVar("M", bound=MadeReport)


def stores_of(session: Session, paths: Iterable[StorePath]) -> tuple[list[Store], dict[str, str]]:
    """Return the stores that a command line names, and why others of several cannot be opened, by path."""
    members = _opened(session, paths)
    stores = [member.store for member in members if member.store is not None]
    failures = {member.path: str(member.failure) for member in members if member.failure is not None}
    if not stores:
        raise EnvironmentFailureError("; ".join(failures.values()))
    return stores, failures


def _opened(
    session: Session, paths: Iterable[StorePath], kind: str | None = None, *, reads_queues: bool = False
) -> list[FleetMember[Store]]:
    """Open all that paths and globs name, and say what each is; see `Fleet`."""
    opening = partial(open_part, kind=kind, **session.common.opening)
    members: list[FleetMember[Store]] = gathered(paths, opening, log_bytes)
    for member in members:
        if member.store is not None:
            session.note_opened(member.store, reads_queues=reads_queues)
    return members


def refuse_contents(out: Target) -> None:
    """Refuse an output in which something is, without ``--resume``."""
    place = location_of(out)
    if place.is_regular() or place.entries():
        raise RefusedError(
            f"{out}: exists and is not an empty directory; choose another output, or add --resume"
        )


@dataclass(frozen=True)
class MakingQuestion(Generic[M]):
    """A question whose answer is a result of each store, unless an earlier run has made it.

    Attributes:
        name: Name of the report in a result.
        make: Makes the result of a store; picklable, as `asked` is.
        asked: Members of the report, with the values that a result of an earlier run must have.
        fail_on: Findings that fail.
        outs: Where the result of each store goes, by its path; empty where nothing is written.
        resume: Whether the result of an earlier run counts.
    """

    name: str
    make: Callable[[Store, Target | None, Engine, Progress], M]
    asked: Callable[[Store, Target], Mapping[str, Any]]
    fail_on: FailOn
    outs: Mapping[str, Target]
    resume: bool

    def __call__(
        self, store: Store, engine: Engine, progress: Progress
    ) -> tuple[ResumedReport[M], ExitStatus]:
        """Make the result of a store, unless that was done; errors are those of ``make``."""
        out = self.outs.get(store.location)
        if self.resume and out is not None:
            document = earlier_report(out, self.name, self.asked(store, out))
            if document is not None:
                status = earlier_status(document, self.fail_on)
                return ResumedReport(document | {"exitStatus": int(status)}, None), status
        report = self.make(store, out, engine, progress)
        status = report.exit_status(self.fail_on)
        return ResumedReport(document_of(report, status), report), status


class Fleet(Generic[R]):
    """The stores of a command line, and the ``forms`` of their reports.

    A path that is not a store root is of ``kind``, if the user gives it. ``reads_queues`` is whether the
    command reads all queues, ``notes_brokers`` whether it says that a broker is at work on a store.
    ``members`` are the stores, those among them that cannot be opened. Raises `UsageError` if the settings
    make no sense.
    """

    def __init__(
        self,
        session: Session,
        paths: Iterable[StorePath],
        forms: Forms[R],
        *,
        kind: str | None = None,
        reads_queues: bool = False,
        notes_brokers: bool = False,
    ) -> None:
        self._session, self._forms = session, forms
        self.members = _opened(session, paths, kind, reads_queues=reads_queues)
        for store in self.stores if notes_brokers else ():
            session.note_broker(store)

    @property
    def stores(self) -> list[Store]:
        """Return those that are open."""
        return [member.store for member in self.members if member.store is not None]

    def folders(self, out: Target, prefix: str = "") -> dict[str, Target]:
        """Return where the result of each store goes, by its path: a directory in ``out``, or a URL below."""
        refuse_evidence(out, [store.files for store in self.stores])
        paths = [member.path for member in self.members]
        return {path: out / f"{prefix}{name}" for path, name in zip(paths, folder_names(paths), strict=True)}

    def ask(
        self,
        question: Ask[Store, R],
        engine: EngineOptions | None = None,
        *,
        then: Callable[[FleetReport[R]], None] | None = None,
        chosen: Format | None = None,
    ) -> ExitStatus:
        """Run the command on all stores with one engine, write the results, and return the exit status.

        ``engine`` None is threads of this process; ``then`` receives the results before they are written;
        ``chosen`` is the output format, None that of ``--format``.
        """
        session, report = self._session, FleetReport[R]((), 0.0)
        with session.output(*self.stores, whole=True) as stream:
            with open_engine(engine or EngineOptions("local")) as working:
                report = ask_members(self.members, question, working, session.console)
            session.console.close()
            if then is not None:
                then(report)
            text, details = session.text(stream), session.common.verbose
            write_fleet(chosen or session.format, report, self._forms, stream, text, details=details)
        return report.exit_status
