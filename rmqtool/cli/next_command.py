"""The command line to go on with: that of now, changed where it must be, ready to be pasted."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_SETTINGS = ("broker_conf", "properties", "broker_version", "timezone")


def command_line(*more: str, **changed: object) -> str:
    """Return the command line of the running command, with further words.

    Args:
        more: Words that are added.
        changed: Parameters that get another value, by name.
    """
    context = click.get_current_context()
    return shlex.join(["rmqtool", context.info_name or "", *_words(context, changed), *more])


def other_command(name: str, *paths: object, more: Sequence[str] = ()) -> str:
    """Return the line of another command on the same store, with the settings that were given.

    Args:
        name: The command.
        paths: What it is to read.
        more: Words that are added.
    """
    context = click.get_current_context()
    unwanted: dict[str, object] = {
        one.name or "": None for one in context.command.params if one.name not in _SETTINGS
    }
    return shlex.join(["rmqtool", name, *map(str, paths), *_words(context, unwanted), *more])


def _words(context: click.Context, changed: dict[str, object]) -> Iterator[str]:
    for parameter in sorted(context.command.params, key=lambda one: isinstance(one, click.Option)):
        name = parameter.name or ""
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        value = changed.get(name, context.params.get(name) if is_given else None)
        if value is None:
            continue
        values: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
        for one in values:
            if not isinstance(parameter, click.Option):
                yield str(one)
            elif parameter.is_flag:
                yield parameter.opts[-1]
            else:
                yield parameter.opts[0] if len(parameter.opts) == 1 else max(parameter.opts, key=len)
                yield str(one)
