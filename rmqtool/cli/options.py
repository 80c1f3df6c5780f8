"""Options that several commands share, of stores, messages, the engine and ``--lost``."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from rmqtool.cli.completion import (
    complete_group,
    complete_property,
    complete_queue,
    complete_topic,
    complete_zone,
)
from rmqtool.cli.group import SectionOption, write_sections
from rmqtool.errors import UsageError
from rmqtool.io import Location, is_glob, local_name, location_of
from rmqtool.io.object_urls import is_object_url
from rmqtool.options import Option, ValueKind, declared_options
from rmqtool.projection import json_object
from rmqtool.releases import LINES, RELEASES
from rmqtool.report.formats import BodyMode, to_json
from rmqtool.report.output import check_output_files, open_output

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence
    from os import PathLike

    from _typeshed import DataclassInstance

    from rmqtool.account.lost import LostMessage
    from rmqtool.api.store import Store
    from rmqtool.cli.group import SharedState
    from rmqtool.engine import EngineOptions
    from rmqtool.report.console import Console


StorePath: TypeAlias = "Path | Location"
"""Value of `A_STORE`."""

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
"""Store to read, or target of a result that may lie in object storage."""
TYPES = ("commitlog", "consumequeue", "consumequeue-ext", "batchconsumequeue", "index", "checkpoint")

_setting = partial(click.option, cls=SectionOption, section="Settings", shared=True)
_output = partial(click.option, cls=SectionOption, section="Output")
_remark = partial(click.option, cls=SectionOption, section="Progress and remarks", shared=True)

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


def out_option(summary: str, *, takes_url: bool = True, required: bool = False) -> Callable[[Any], Any]:
    """Return what adds ``--out``, the directory of a result."""
    kind = A_STORE if takes_url else A_PATH
    return _output("--out", type=kind, metavar="DIR", required=required, help=summary)


_FOLDER = out_option("Directory to create, or its URL; it appears complete or not at all.", required=True)
_OUTPUT = (
    _output(
        "--fail-on",
        shared=True,
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
    """Return whether many stores are named; a glob names many, whatever fits it now."""
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


_COMPLETIONS = {
    "topic": complete_topic,
    "exclude_topic": complete_topic,
    "queue": complete_queue,
    "consumed_by": complete_group,
}


def request_options(
    request: type[DataclassInstance], *, only: Container[str] | None = None, without: Container[str] = ()
) -> Callable[[_Function], _Function]:
    """Return what adds the declared options of a command's request, or some of them by name."""
    declared = [one for one in declared_options(request) if one.name not in without]
    return adding([_click_option(one) for one in declared if only is None or one.name in only])


def given_options(request: type[DataclassInstance], options: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the declared options that a command has."""
    return {one.name: options[one.name] for one in declared_options(request) if one.name in options}


def _click_option(option: Option) -> Callable[[Any], Any]:
    types = {
        ValueKind.NUMBER: int if option.least is None else click.IntRange(option.least, option.most),
        ValueKind.WORD: click.Choice([str(one) for one in option.words]),
        ValueKind.WORDS: click.Choice([str(one) for one in option.words]),
    }
    default = None if option.is_repeatable else option.default
    if option.kind is ValueKind.WORD and default is not None:
        default = str(default)
    more: dict[str, Any] = {"is_flag": True} if option.kind is ValueKind.FLAG else {"default": default}
    return click.option(
        *(option.flags or [f"--{option.name.replace('_', '-')}"]),
        option.name,
        type=types.get(option.kind),
        multiple=option.is_repeatable,
        show_default=default is not None and option.kind is not ValueKind.FLAG,
        metavar=option.metavar,
        help=option.help,
        shell_complete=_COMPLETIONS.get(option.name),
        **more,
    )


body_option = click.option(
    "--body",
    type=click.Choice([mode.value for mode in BodyMode]),
    help="Message bodies; default: a preview in text, else none.",
)


def body_mode(options: dict[str, Any]) -> BodyMode | None:
    """Return how ``--body`` shows bodies; None is the format's habit."""
    return None if options["body"] is None else BodyMode(options["body"])


def state_of(context: click.Context) -> SharedState:
    """Return the state that the outermost function made."""
    state: SharedState = context.find_root().obj
    return state


_engine = partial(click.option, cls=SectionOption, section="Engine")


jobs_option = _engine(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Tasks at a time; default: all cores."
)


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
        _engine(
            "--master", shared=True, metavar="URL", help="Spark master; default: all cores of this machine."
        ),
        _engine(
            "--spark-conf", shared=True, multiple=True, metavar="K=V", help="A setting of Spark; repeatable."
        ),
        jobs_option,
    ]
    if handover:
        scratch = "Directory or URL where tasks exchange blocks; on a cluster, all executors must see it."
        added.append(_engine("--scratch", shared=True, type=A_STORE, metavar="DIR", help=scratch))
    return adding(added)


def shared_help() -> str:
    """Return the options that commands share, as their help would list them."""

    @click.command("options")
    @engine_options("local")
    @shared_options("text")
    def command() -> None:
        pass

    context = click.Context(command, terminal_width=78)
    formatter = context.make_formatter()
    shared = [one for one in command.params if isinstance(one, SectionOption) and one.shared]
    write_sections(shared, context, formatter)
    return formatter.getvalue().lstrip("\n")


def engine_of(options: dict[str, Any]) -> EngineOptions:
    """Return the engine of a command's options; this process, if Spark is missing and only the default.

    Raises:
        UsageError: They contradict each other, or a Spark setting is no ``NAME=VALUE``.
    """
    from rmqtool.api.arguments import engine_options as options_of

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
    """Return whether Spark is the default only, and not installed."""
    from rmqtool.engine import is_spark_installed

    source = click.get_current_context().get_parameter_source("engine_name")
    is_given = source is not ParameterSource.DEFAULT or options["master"] is not None or options["spark_conf"]
    return not is_given and options["engine_name"] == "spark" and not is_spark_installed()


def note_engine(options: dict[str, Any], engine: EngineOptions, console: Console) -> None:
    """Say in one line that Spark is missing, where it would have been used."""
    from rmqtool.engine import HOW_TO_GET_SPARK

    if engine.kind != options["engine_name"]:
        console.note(f"Spark is not installed ({HOW_TO_GET_SPARK}): this runs as with --engine local")


_STANDARD_OUTPUT = Path("-")


def lost_option(what: str) -> Callable[[_Function], _Function]:
    """Add ``--lost``; ``what`` says of which messages."""
    return click.option(
        "--lost",
        type=A_PATH,
        metavar="FILE",
        help=f"Also list {what}, as ndjson; - is standard output, with -o for the report.",
    )


def check_lost(options: dict[str, Any]) -> Path | None:
    """Return the file of ``--lost`` if it is one, for who looks whether files can be written.

    Raises:
        UsageError: It is standard output, and so is the report.
    """
    path: Path | None = options["lost"]
    if path == _STANDARD_OUTPUT and options["output"] is None:
        raise UsageError(
            "--lost - is standard output, where the report goes, too: give -o FILE for the report"
        )
    return None if path == _STANDARD_OUTPUT else path


@contextmanager
def lost_lines(options: dict[str, Any], store: Store) -> Iterator[Callable[[LostMessage], object] | None]:
    """Yield the writer of lost messages; None without ``--lost``.

    Raises:
        RefusedError: The file exists, or lies in the store.
        UsageError: The report goes into the same file.
        EnvironmentFailureError: It cannot be written; nothing is left behind.
    """
    path = check_lost(options)
    if options["lost"] is None:
        yield None
        return
    roots = store.files.evidence_roots
    check_output_files([options["output"]], roots, new=[path])
    with open_output(path, roots) as stream:
        yield lambda message: stream.write(_line(message))


def _line(message: LostMessage) -> str:
    return to_json(json_object(message)) + "\n"
