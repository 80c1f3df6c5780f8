"""Options of the commands that run the pipeline: where its stages run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rmqtool.cli.help import SectionOption
from rmqtool.cli.options import A_PATH
from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.engine import EngineOptions

_engine = partial(click.option, cls=SectionOption, section="Engine")
_Function = TypeVar("_Function", bound="Callable[..., Any]")


def engine_options(default: str) -> Callable[[_Function], _Function]:
    """Add the options that `engine_of` understands: ``--engine`` and what belongs to it."""
    added = (
        _engine(
            "--engine",
            "engine_name",
            type=click.Choice(["spark", "local"]),
            default=default,
            show_default=True,
            help="Where the stages run; local is threads of this process.",
        ),
        _engine("--master", metavar="URL", help="Spark master; default: all cores of this machine."),
        _engine("--spark-conf", multiple=True, metavar="K=V", help="A setting of Spark; repeatable."),
        _engine(
            "--jobs", type=click.IntRange(min=1), metavar="N", help="Tasks at a time; default: all cores."
        ),
        _engine(
            "--scratch",
            type=A_PATH,
            metavar="DIR",
            help="Where tasks hand over blocks; on a cluster, all executors must see it.",
        ),
    )

    def decorate(function: _Function) -> _Function:
        for option in reversed(added):
            function = option(function)
        return function

    return decorate


def engine_of(options: dict[str, Any]) -> EngineOptions:
    """Return the engine that a command's options ask for.

    Raises:
        UsageError: They contradict each other, or a Spark setting is no ``NAME=VALUE``.
    """
    from rmqtool.api.engines import engine_options as options_of

    pairs = [text.partition("=") for text in options["spark_conf"]]
    for name, separator, _ in pairs:
        if not name or not separator:
            raise UsageError(f"--spark-conf {name!r}: expected NAME=VALUE")
    return options_of(
        options["engine_name"],
        jobs=options["jobs"],
        master=options["master"],
        spark_conf={name: value for name, _, value in pairs},
        log_file=options["log_file"],
        scratch=options["scratch"],
    )
