"""Options that several commands share."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from rmqtool.cli.completers import complete_property, complete_queue, complete_topic, complete_zone
from rmqtool.cli.help import SectionOption
from rmqtool.io import is_glob, local_name, location_of
from rmqtool.io.object_urls import is_object_url
from rmqtool.releases import LINES, RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from rmqtool.cli.group import State
    from rmqtool.io import Location

StorePath: TypeAlias = "Path | Location"
"""What `A_STORE` makes of a word."""

_Function = TypeVar("_Function", bound="Callable[..., Any]")


class _LocalPath(click.Path):
    """A path of this machine's; a URL is refused."""

    def convert(
        self, value: str | PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """Return a path.

        Raises:
            UsageError: It is a URL.
        """
        return Path(os.fsdecode(super().convert(local_name(value), param, ctx)))


class _StorePath(_LocalPath):
    """A path of this machine's, or a URL of an object store's."""

    def convert(  # type: ignore[override]  # which our commands take
        self, value: str | PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> StorePath:
        """Return a path, or what a URL names.

        Raises:
            UsageError: It is a URL that makes no sense.
        """
        is_elsewhere = isinstance(value, str) and is_object_url(value)
        return location_of(value) if is_elsewhere else super().convert(value, param, ctx)


A_PATH = _LocalPath(path_type=Path)
A_STORE = _StorePath(path_type=Path)
"""What is read; also where a result goes that may lie in object storage."""
AN_OFFSET = click.IntRange(min=0)
TYPES = ("commitlog", "consumequeue", "consumequeue-ext", "batchconsumequeue", "index", "checkpoint")

TIMES_HELP = "TIME: 2022-04-15T13:20+08:00, 13:20, yesterday, -2h, epoch ms; see rmqtool help query."
"""How times are given; the command tells what it took one for."""

_setting = partial(click.option, cls=SectionOption, section="Settings")
_output = partial(click.option, cls=SectionOption, section="Output")
_remark = partial(click.option, cls=SectionOption, section="Progress and remarks")

_SETTINGS = (
    _setting("-c", "--broker-conf", type=A_PATH, metavar="FILE", help="The broker's own properties file."),
    _setting(
        "-p",
        "--property",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        shell_complete=complete_property,
        help="One broker setting by its own name; repeatable, wins over -c.",
    ),
    _setting(
        "--broker-version",
        type=click.Choice([*LINES, *RELEASES]),
        help="Release of the broker; default: inferred.",
    ),
    _setting(
        "--timezone",
        metavar="ZONE",
        shell_complete=complete_zone,
        help="Zone of times without one, read and printed; default: this machine's zone.",
    ),
)
_FILE = _output(
    "-o", "--output", type=A_PATH, metavar="FILE", help="Write data there instead of to standard output."
)
_FOLDER = _output(
    "-o",
    "--out",
    "out",
    type=A_STORE,
    metavar="DIR",
    required=True,
    help="Directory to create, or its URL; it appears complete or not at all.",
)
_OUTPUT = (
    _output(
        "--fail-on",
        type=click.Choice(["error", "warning", "never"]),
        default="error",
        show_default=True,
        help="Lowest severity that makes the exit status 1 or 5.",
    ),
)
_CONSOLE = (
    _remark(
        "--progress",
        type=click.Choice(["auto", "never", "json"]),
        default="auto",
        show_default=True,
        help="Progress on standard error.",
    ),
    _remark("-q", "--quiet", is_flag=True, help="Print only data, warnings and errors."),
    _remark("-v", "--verbose", is_flag=True, help="Print details on standard error."),
    _remark("--debug", is_flag=True, help="Print a traceback when something fails."),
    _remark("--log-file", type=A_PATH, metavar="FILE", help="Append all remarks to this file."),
    _remark(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Colours on terminals; NO_COLOR is obeyed.",
    ),
)


def is_fleet(paths: Sequence[StorePath]) -> bool:
    """Tell whether many stores are asked for; a glob asks for many, whatever fits it now."""
    return len(paths) > 1 or any(map(is_glob, paths))


def shared_options(*formats: str, makes_folder: bool = False) -> Callable[[_Function], _Function]:
    """Add the options that every command has; the first of ``formats`` is the default.

    They reach the command as keyword arguments, which `rmqtool.cli.session.Session` takes.

    Args:
        formats: Of the data.
        makes_folder: Whether data goes to a directory of files; what is said of it, to standard output.
    """
    chosen = _output(
        "--format",
        "format_name",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How data is written.",
    )

    return adding((*_SETTINGS, chosen, _FOLDER if makes_folder else _FILE, *_OUTPUT, *_CONSOLE))


def adding(options: Sequence[Callable[[Any], Any]]) -> Callable[[_Function], _Function]:
    """Return what adds options, in their order."""

    def decorate(function: _Function) -> _Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def type_option(*more: str) -> Callable[[_Function], _Function]:
    """Return what adds ``--type``; ``more`` kinds are those that only this command knows."""
    kinds = (*TYPES, *more)
    return click.option(
        "--type",
        "type_name",
        type=click.Choice(kinds),
        metavar="KIND",
        help=f"Kind of file, if path and content do not show it: {', '.join(kinds)}.",
    )


def max_findings_option(done: str, default: int, least: int = 1) -> Callable[[_Function], _Function]:
    """Return what adds ``--max-findings``; ``done`` is what is done with as many, as the help says it."""
    return click.option(
        "--max-findings",
        type=click.IntRange(min=least),
        default=default,
        show_default=True,
        metavar="N",
        help=f"Findings of one code that are {done}; the rest is counted.",
    )


def time_options(function: _Function) -> _Function:
    """Add ``--begin`` and ``--end``, which bound the store time of messages."""
    begin = click.option(
        "-b", "--begin", metavar="TIME", help=f"Only messages stored at this time or later. {TIMES_HELP}"
    )
    end = click.option("-e", "--end", metavar="TIME", help="Only messages stored at this time or earlier.")
    return begin(end(function))


def part_options(topic_help: str, offset_help: str) -> Callable[[_Function], _Function]:
    """Return what adds the options by which a new store holds a part of the old one's messages."""
    options = (
        click.option(
            "--topic",
            "topics",
            multiple=True,
            metavar="GLOB",
            shell_complete=complete_topic,
            help=topic_help,
        ),
        click.option(
            "--exclude-topic",
            "exclude_topics",
            multiple=True,
            metavar="GLOB",
            shell_complete=complete_topic,
            help="All topics but these; partial result.",
        ),
        click.option(
            "--until-timestamp",
            metavar="TIME",
            help=f"Only messages stored until this time; partial result. {TIMES_HELP}",
        ),
        click.option("--until-offset", type=AN_OFFSET, metavar="P", help=offset_help),
    )
    return adding(options)


def message_options(tag_help: str) -> Callable[[_Function], _Function]:
    """Return what adds the filters on messages that are read in the order of the log."""
    options = (
        click.option(
            "-t",
            "--topic",
            multiple=True,
            metavar="GLOB",
            shell_complete=complete_topic,
            help="Only these topics; repeatable.",
        ),
        click.option(
            "--queue",
            "queue_id",
            type=int,
            metavar="N",
            shell_complete=complete_queue,
            help="Only this queue ID.",
        ),
        click.option("--tag", metavar="TAG", help=tag_help),
        click.option("-k", "--key", metavar="KEY", help="Only messages with this key or unique key."),
        time_options,
        click.option("--from-offset", type=AN_OFFSET, metavar="P", help="From this physical offset on."),
        click.option("--to-offset", type=AN_OFFSET, metavar="P", help="Before this physical offset."),
        click.option("--from-queue-offset", type=AN_OFFSET, metavar="N", help="From this queue offset on."),
    )
    return adding(options)


def state_of(context: click.Context) -> State:
    """Return the state that the outermost function made."""
    state: State = context.find_root().obj
    return state
