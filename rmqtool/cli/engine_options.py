"""Options of the commands that run the pipeline: where its stages run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from rmqtool.cli.help import SectionOption
from rmqtool.cli.options import A_STORE, adding
from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.engine import EngineOptions
    from rmqtool.report.console import Console

_engine = partial(click.option, cls=SectionOption, section="Engine")
_Function = TypeVar("_Function", bound="Callable[..., Any]")


def engine_options(default: str, *, handover: bool = True) -> Callable[[_Function], _Function]:
    """Add the options that `engine_of` understands: ``--engine`` and what belongs to it.

    Args:
        default: The engine, if none is named.
        handover: Whether tasks hand over blocks to tasks of a later stage, in ``--scratch``.
    """
    added = [
        _engine(
            "--engine",
            "engine_name",
            type=click.Choice(["spark", "local"]),
            default=default,
            show_default=True,
            help="Engine that runs the stages; local: threads of this process.",
        ),
        _engine("--master", metavar="URL", help="Spark master; default: all cores of this machine."),
        _engine("--spark-conf", multiple=True, metavar="K=V", help="A setting of Spark; repeatable."),
        _engine(
            "--jobs", type=click.IntRange(min=1), metavar="N", help="Tasks at a time; default: all cores."
        ),
    ]
    if handover:
        scratch = "Directory or URL where tasks exchange blocks; on a cluster, all executors must see it."
        added.append(_engine("--scratch", type=A_STORE, metavar="DIR", help=scratch))
    return adding(added)


def engine_of(options: dict[str, Any]) -> EngineOptions:
    """Return the engine that a command's options ask for; this process, if nobody asks for a missing Spark.

    Raises:
        UsageError: They contradict each other, or a Spark setting is no ``NAME=VALUE``.
    """
    from rmqtool.api.engines import engine_options as options_of

    pairs = [text.partition("=") for text in options["spark_conf"]]
    for name, separator, _ in pairs:
        if not name or not separator:
            raise UsageError(f"--spark-conf {name!r}: expected NAME=VALUE")
    return options_of(
        "local" if _is_spark_given_up(options) else options["engine_name"],
        jobs=options["jobs"],
        master=options["master"],
        spark_conf={name: value for name, _, value in pairs},
        log_file=options["log_file"],
        scratch=options.get("scratch"),
    )


def _is_spark_given_up(options: dict[str, Any]) -> bool:
    """Tell whether Spark is the default only, and not installed."""
    from rmqtool.engine import is_spark_installed

    source = click.get_current_context().get_parameter_source("engine_name")
    asked = source is not ParameterSource.DEFAULT or options["master"] is not None or options["spark_conf"]
    return not asked and options["engine_name"] == "spark" and not is_spark_installed()


def note_engine(options: dict[str, Any], engine: EngineOptions, console: Console) -> None:
    """Say in one line that Spark is missing, where it would have been used."""
    from rmqtool.engine import HOW_TO_GET_SPARK

    if engine.kind != options["engine_name"]:
        console.note(f"Spark is not installed ({HOW_TO_GET_SPARK}): this runs as with --engine local")
