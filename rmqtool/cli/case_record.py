"""``--case DIR``: a record of the run, as evidence of how it was made.

A command needs `case_option` and two calls of its session: `Session.begin_case` before it reads, and
`Session.report_to_case` when it has a result. `rmqtool.cli.entry` ends the record, however the
command ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rmqtool.cli.group import INTERNAL_ERROR, SectionOption
from rmqtool.cli.options import A_PATH
from rmqtool.errors import ExitStatus
from rmqtool.io import Location
from rmqtool.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.commands.case import CaseOption, CaseOutcome
    from rmqtool.commands.case.recording import Recording
    from rmqtool.progress import Progress

READ = frozenset({"broker_conf", "baseline", "applied", "domain_maps"})
WRITTEN = frozenset({"out", "output", "plan_path", "lost", "replay"})
BY_PURPOSE = {"reports": "", "manifest": "check"}
"""Options whose value is ``PURPOSE:FILE``, and the purpose for which the file is read."""

NEITHER = frozenset({"case", "log_file", "scratch", "paths", "store_path", "store_paths", "images"})
"""Paths without a digest, or whose digest the command adds itself."""

case_option = click.option(
    "--case",
    type=A_PATH,
    metavar="DIR",
    cls=SectionOption,
    section="Output",
    help="Add a record of this run to DIR: who, when, how, SHA-256 of all files read and written, findings."
    " Input is read once more for it. See rmqtool help case.",
)


def recording_of(context: click.Context, words: Sequence[str], progress: Progress) -> Recording | None:
    """Return the recording of the run of a command; None without ``--case``."""
    directory = context.params.get("case")
    if directory is None:
        return None
    from rmqtool.commands.case.recording import Recording, facts_now

    facts = facts_now(__version__, words, dict(_options(context)))
    return Recording(directory, facts, *_named(context.params), context.params.get("jobs"), progress)


def _options(context: click.Context) -> Iterator[tuple[str, CaseOption]]:
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


def _named(values: dict[str, Any]) -> tuple[list[Path], list[Path]]:
    """Return the files and directories that the command line names beside the stores: read, and written."""
    read = [one for name in READ for one in _paths(values.get(name))]
    written = [one for name in WRITTEN for one in _paths(values.get(name))]
    for name, purpose in BY_PURPOSE.items():
        value = values.get(name) or ()
        for text in [value] if isinstance(value, str) else value:
            given, _, path = text.partition(":")
            (read if given == purpose else written).append(Path(path))
    return sorted(read), sorted(written)


def _paths(value: Any) -> list[Path]:  # noqa: ANN401 - what click makes of an option
    if value is None:
        return []
    values = [*value] if isinstance(value, tuple) else [value]
    return [one for one in values if isinstance(one, Path)]  # a result in object storage has its manifest


def outcome_of(status: int, said: str | None) -> CaseOutcome:
    """Return how a run ended, by its exit status and the sentence with which it failed."""
    from rmqtool.commands.case import CaseOutcome

    if status == ExitStatus.INTERRUPTED:
        return CaseOutcome.INTERRUPTED
    if said is None or status not in {ExitStatus.USAGE, ExitStatus.FAILED, ExitStatus.REFUSED}:
        return CaseOutcome.DONE
    return CaseOutcome.CRASHED if said.startswith(INTERNAL_ERROR) else CaseOutcome.FAILED
