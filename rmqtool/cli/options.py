"""Options that several commands share, of stores, messages and the engine; and lines of them."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from rmqtool.cli.group import SectionOption
from rmqtool.errors import UsageError
from rmqtool.io import Location, is_glob, local_name, location_of
from rmqtool.io.source import is_object_url
from rmqtool.options import Option, ValueKind, declared_options
from rmqtool.projection import BodyMode
from rmqtool.releases import LINES, RELEASES
from rmqtool.report.output import without_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence
    from os import PathLike

    from _typeshed import DataclassInstance
    from click.shell_completion import CompletionItem


StorePath: TypeAlias = "Path | Location"
"""Value of `A_STORE`."""

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def completed_by(values: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return what completes an option by values of `cli.completion`, which loads for a shell alone."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from rmqtool.cli.completion import COMPLETERS

        return COMPLETERS[values](context, parameter, incomplete)

    return complete


class LocalPath(click.Path):
    """A path of this machine's; a URL is refused, and ``-`` where it can be no standard output."""

    def __init__(self, *, takes_dash: bool = True) -> None:
        super().__init__(path_type=Path)
        self._takes_dash = takes_dash

    def convert(
        self, value: str | PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """Return a path."""
        if not self._takes_dash:
            _refuse_dash(value, param)
        return Path(os.fsdecode(super().convert(local_name(value), param, ctx)))


def _refuse_dash(name: str | PathLike[str], param: click.Parameter | None) -> None:
    if name == "-":
        option = "" if param is None else f"{param.opts[0]} "
        raise UsageError(f"{option}-: standard output is not possible here; give a name, or ./- for that one")


class _StorePath(LocalPath):
    """A path of this machine's, or a URL of an object store's."""

    def convert(  # type: ignore[override]  # which our commands take
        self, value: str | PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> StorePath:
        """Return a path, or what a URL names."""
        is_elsewhere = isinstance(value, str) and is_object_url(value)
        return location_of(value) if is_elsewhere else super().convert(value, param, ctx)


class Target(str):
    """Value of an option that names a file and its purpose: ``PURPOSE:FILE``."""

    __slots__ = ()

    @property
    def purpose(self) -> str:
        """Return the word before the file."""
        return self.partition(":")[0]

    @property
    def path(self) -> Path:
        """Return the file."""
        return Path(local_name(self.partition(":")[2]))


class TargetType(click.ParamType):  # type: ignore[type-arg]  # only newer versions of click have some
    """Type of such values."""

    name = "target"

    def __init__(self, *purposes: str) -> None:
        self.purposes = purposes
        self.forms = [f"{purpose}:FILE" for purpose in purposes]

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        """Return the file and its purpose."""
        target = Target(value)
        if target.purpose not in self.purposes or len(target) <= len(target.purpose) + 1:
            option = "" if param is None else f"{param.opts[0]} "
            raise UsageError(f"{option}{value!r}: expected {' or '.join(self.forms)}")
        _refuse_dash(str(target.path), param)
        return target

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the purposes, and files after one."""
        from click.shell_completion import CompletionItem

        if ":" in incomplete:
            return [CompletionItem(incomplete, type="file")]
        purposes = (f"{purpose}:" for purpose in self.purposes)
        return [CompletionItem(one) for one in purposes if one.startswith(incomplete)]


A_PATH, A_RESULT_FILE = LocalPath(), LocalPath(takes_dash=False)
A_TIME = click.types.StringParamType()
"""Text of a time, which the session reads in its zone."""
A_STORE, A_RESULT = _StorePath(), _StorePath(takes_dash=False)
"""Store to read, and target of a result that may lie in object storage."""
TYPES = ("commitlog", "consumequeue", "consumequeue-ext", "batchconsumequeue", "index", "checkpoint")

STANDARD_OUTPUT = Path("-")

OPENING = ("broker_conf", "properties", "broker_version", "timezone")
"""Options that decide how a store is opened."""

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
        shell_complete=completed_by("property"),
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
        shell_complete=completed_by("zone"),
        help="Zone of times without one, read and printed; default: this machine's zone.",
    ),
)
_FILE = _output(
    "-o",
    "--output",
    type=A_PATH,
    metavar="FILE",
    callback=lambda _context, _parameter, path: None if path == STANDARD_OUTPUT else path,
    help="Write data there instead of to standard output.",
)


def out_option(summary: str, *, takes_url: bool = True, required: bool = False) -> Callable[[Any], Any]:
    """Return what adds ``--out``, the directory of a result."""
    kind = A_RESULT if takes_url else A_RESULT_FILE
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


class Common(NamedTuple):
    """Options that commands share, by their names; those that a command does not have are at a default."""

    broker_conf: Path | None
    properties: tuple[str, ...]
    broker_version: str | None
    timezone: str | None
    format_name: str
    fail_on: str
    progress: str
    quiet: bool
    verbose: bool
    debug: bool
    log_file: Path | None
    color: str
    output: Path | None = None
    engine_name: str = "local"
    master: str | None = None
    spark_conf: tuple[str, ...] = ()
    jobs: int | None = None
    scratch: StorePath | None = None

    @classmethod
    def of(cls, options: dict[str, Any]) -> Common:
        """Return them, and take them out of all the options of a command."""
        return cls(**{name: options.pop(name) for name in cls._fields if name in options})

    @property
    def opening(self) -> dict[str, Any]:
        """Return how every store of the run is opened: the settings, as `rmqtool.open` takes them."""
        return {name: getattr(self, name) for name in OPENING}

    @property
    def setting_words(self) -> tuple[str, ...]:
        """Return the arguments that gave settings, for commands that need the same."""
        words = [] if self.broker_conf is None else ["-c", str(self.broker_conf)]
        return (*words, *(word for text in self.properties for word in ("-p", text)))


def is_fleet(paths: Sequence[StorePath]) -> bool:
    """Return whether many stores are named; a glob names many, whatever fits it now."""
    return len(paths) > 1 or any(map(is_glob, paths))


def shared_options(*formats: str, makes_folder: bool = False) -> Callable[[_Function], _Function]:
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
    "topic": completed_by("topic"),
    "exclude_topic": completed_by("topic"),
    "queue": completed_by("queue"),
    "consumed_by": completed_by("group"),
}


def request_options(request: type[DataclassInstance]) -> Callable[[_Function], _Function]:
    """Return what adds the declared options of a command's request."""
    return adding([_click_option(option) for option in declared_options(request)])


def _click_option(option: Option) -> Callable[[Any], Any]:
    types = {
        ValueKind.MOMENT: A_TIME,
        ValueKind.NUMBER: int if option.least is None else click.IntRange(option.least, option.most),
        ValueKind.WORD: click.Choice([str(word) for word in option.words]),
        ValueKind.WORDS: click.Choice([str(word) for word in option.words]),
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
    callback=lambda _context, _parameter, mode: None if mode is None else BodyMode(mode),
    help="Message bodies; default: a preview in text, else none.",
)


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


def pairs_of(option: str, texts: Iterable[str], form: str) -> dict[str, str]:
    """Return the values of an option ``NAME=VALUE`` by name."""
    pairs = [text.partition("=") for text in texts]
    for name, separator, value in pairs:
        if not (name and separator and value):
            raise UsageError(f"{option} {name!r}: expected {form}")
    return {name: value for name, _, value in pairs}


def lost_option(what: str) -> Callable[[_Function], _Function]:
    """Add ``--lost``; ``what`` says of which messages."""
    return click.option(
        "--lost",
        type=A_PATH,
        metavar="FILE",
        help=f"Also list {what}, as ndjson; - is standard output, with -o for the report.",
    )


def command_line(*more: str, **changed: object) -> str:
    """Return the command line of the running command, with further words."""
    context = click.get_current_context()
    words = ["rmqtool", context.info_name or "", *_words(context, changed), *more]
    return shlex.join(map(without_secret, words))


def other_command(name: str, *paths: object, more: Sequence[str] = ()) -> str:
    """Return the line of another command on the same store, with the settings that were given."""
    context = click.get_current_context()
    words = _words(context, _left_out(context, OPENING))
    return shlex.join(["rmqtool", name, *map(str, paths), *words, *more])


def conditions(names: Container[str]) -> str:
    """Return the options of the running command that were given, of those with these names."""
    context = click.get_current_context()
    return shlex.join(_words(context, _left_out(context, names)))


def _left_out(context: click.Context, names: Container[str]) -> dict[str, object]:
    """Return all options of the command but some, without a value."""
    return {param.name or "": None for param in context.command.params if param.name not in names}


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
