"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rmqtool.cli.completers import complete_property, complete_zone

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.cli.group import State

_Function = TypeVar("_Function", bound="Callable[..., Any]")

A_PATH = click.Path(path_type=Path)
AN_OFFSET = click.IntRange(min=0)
TYPES = ("commitlog", "consumequeue", "consumequeue-ext", "batchconsumequeue", "index", "checkpoint")

_SETTINGS = (
    click.option(
        "-c", "--broker-conf", type=A_PATH, metavar="FILE", help="The broker's own properties file."
    ),
    click.option(
        "-p",
        "--property",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        shell_complete=complete_property,
        help="One broker setting by its own name; repeatable, wins over -c.",
    ),
    click.option(
        "--broker-version",
        type=click.Choice(["4.9", "5.x"]),
        help="Where versions differ; default: inferred.",
    ),
    click.option(
        "--timezone",
        metavar="ZONE",
        shell_complete=complete_zone,
        help="Zone of times without one, read and printed; default: this machine's.",
    ),
)
_OUTPUT = (
    click.option(
        "-o", "--output", type=A_PATH, metavar="FILE", help="Data there instead of standard output."
    ),
    click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "never"]),
        default="error",
        show_default=True,
        help="Which findings make the exit status 1 or 5.",
    ),
)
_CONSOLE = (
    click.option(
        "--progress",
        type=click.Choice(["auto", "never", "json"]),
        default="auto",
        show_default=True,
        help="Progress on standard error.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Only data, warnings and errors."),
    click.option("-v", "--verbose", is_flag=True, help="Details on standard error."),
    click.option("--debug", is_flag=True, help="A traceback when something fails."),
    click.option("--log-file", type=A_PATH, metavar="FILE", help="Append all remarks there."),
    click.option(
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
    chosen = click.option(
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


def type_option(function: _Function) -> _Function:
    """Add ``--type``."""
    option = click.option(
        "--type",
        "type_name",
        type=click.Choice(TYPES),
        help="Kind of file, where place and bytes do not tell.",
    )
    return option(function)


def time_options(function: _Function) -> _Function:
    """Add ``--begin`` and ``--end``, which bound the store time of messages."""
    begin = click.option("-b", "--begin", metavar="TIME", help="Stored at this time or later.")
    end = click.option("-e", "--end", metavar="TIME", help="Stored at this time or earlier.")
    return begin(end(function))


def body_option(function: _Function) -> _Function:
    """Add ``--body``."""
    option = click.option(
        "--body",
        type=click.Choice(["none", "text", "hex", "base64"]),
        help="Message bodies; default: a preview in text, else none.",
    )
    return option(function)


def state_of(context: click.Context) -> State:
    """Return the state that the outermost function made."""
    state: State = context.find_root().obj
    return state
