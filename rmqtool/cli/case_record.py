"""``--case DIR``: a record of the run, as evidence of how it was made.

A command that is recorded makes two calls of its session: `Session.begin_case` before it reads, and
`Session.report_to_case` when it has a result. `rmqtool.cli.entry` ends the record, however the command ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rmqtool.cli.group import INTERNAL_ERROR
from rmqtool.cli.options import READ, WRITTEN, LocalPath, Target, TargetType
from rmqtool.errors import ExitStatus
from rmqtool.io import Location
from rmqtool.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.commands.case import CaseOption, CaseOutcome
    from rmqtool.commands.case.recording import Recording
    from rmqtool.progress import Progress


def recording_of(
    directory: Path, context: click.Context, words: Sequence[str], progress: Progress
) -> Recording:
    """Return the recording of the run of a command."""
    from rmqtool.commands.case.recording import Recording, facts_now

    facts = facts_now(__version__, words, dict(_recorded_options(context)))
    read, written = (sorted(_files(context, role)) for role in (READ, WRITTEN))
    return Recording(directory, facts, read, written, context.params.get("jobs"), progress)


def _recorded_options(context: click.Context) -> Iterator[tuple[str, CaseOption]]:
    from rmqtool.commands.case import CaseOption

    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        origin = "default" if source in {None, ParameterSource.DEFAULT} else "given"
        option = (
            parameter.opts[-1] if isinstance(parameter, click.Option) else parameter.make_metavar(context)
        )
        yield option, CaseOption(_plain(context.params.get(name)), origin)


def _plain(value: Any) -> Any:  # noqa: ANN401 - what click makes of an option
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path | Location) else value


def _files(context: click.Context, role: str) -> Iterator[Path]:
    """Yield the files and directories of this machine that the command line names beside the stores."""
    for parameter in context.command.params:
        kind, value = parameter.type, context.params.get(parameter.name or "")
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Target) and isinstance(kind, TargetType):
                if kind.roles[one.purpose] == role:
                    yield one.path
            elif isinstance(one, Path) and isinstance(kind, LocalPath) and kind.role == role:
                yield one  # a result in object storage has its manifest


def outcome_of(status: int, said: str | None) -> CaseOutcome:
    """Return how a run ended, by its exit status and the sentence with which it failed."""
    from rmqtool.commands.case import CaseOutcome

    if status == ExitStatus.INTERRUPTED:
        return CaseOutcome.INTERRUPTED
    if said is None or status not in {ExitStatus.USAGE, ExitStatus.FAILED, ExitStatus.REFUSED}:
        return CaseOutcome.DONE
    return CaseOutcome.CRASHED if said.startswith(INTERNAL_ERROR) else CaseOutcome.FAILED
