"""Options that several commands share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rmqtool.cli.completers import complete_property, complete_zone
from rmqtool.cli.help import SectionOption
from rmqtool.releases import LINES, RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.cli.group import State

_Function = TypeVar("_Function", bound="Callable[..., Any]")

A_PATH = click.Path(path_type=Path)
AN_OFFSET = click.IntRange(min=0)
TYPES = ("commitlog", "consumequeue", "consumequeue-ext", "batchconsumequeue", "index", "checkpoint")

TIMES_HELP = "TIME: 2022-04-15T13:20+08:00, 13:20, yesterday, -2h, epoch ms: rmqtool help query tells all."
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
        help="Where versions differ; default: inferred.",
    ),
    _setting(
        "--timezone",
        metavar="ZONE",
        shell_complete=complete_zone,
        help="Zone of times without one, read and printed; default: this machine's.",
    ),
)
_OUTPUT = (
    _output("-o", "--output", type=A_PATH, metavar="FILE", help="Data there instead of standard output."),
    _output(
        "--fail-on",
        type=click.Choice(["error", "warning", "never"]),
        default="error",
        show_default=True,
        help="Which findings make the exit status 1 or 5.",
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
    _remark("-q", "--quiet", is_flag=True, help="Only data, warnings and errors."),
    _remark("-v", "--verbose", is_flag=True, help="Details on standard error."),
    _remark("--debug", is_flag=True, help="A traceback when something fails."),
    _remark("--log-file", type=A_PATH, metavar="FILE", help="Append all remarks there."),
    _remark(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Colours on terminals; NO_COLOR is obeyed.",
    ),
)


def shared_options(*formats: str) -> Callable[[_Function], _Function]:
    """Add the options that every command has; the first of ``formats`` is the default.

    They reach the command as keyword arguments, which `rmqtool.cli.session.Session` takes.
    """
    chosen = _output(
        "--format",
        "format_name",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How data is written.",
    )

    def decorate(function: _Function) -> _Function:
        for option in reversed((*_SETTINGS, chosen, *_OUTPUT, *_CONSOLE)):
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
        help=f"Kind of file, where place and bytes do not tell: {', '.join(kinds)}.",
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
    begin = click.option("-b", "--begin", metavar="TIME", help=f"Stored at this time or later. {TIMES_HELP}")
    end = click.option("-e", "--end", metavar="TIME", help="Stored at this time or earlier.")
    return begin(end(function))


def state_of(context: click.Context) -> State:
    """Return the state that the outermost function made."""
    state: State = context.find_root().obj
    return state
