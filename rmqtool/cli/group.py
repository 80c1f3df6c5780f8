"""Group of all commands, which are imported when they run, and help: options in sections, examples."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from importlib import import_module
from itertools import groupby
from textwrap import indent
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click

from rmqtool.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from click.shell_completion import CompletionItem

    from rmqtool.report.console import Console


class CommandEntry(NamedTuple):
    """Summary of a command, and its module if that has another name; so that help need not import it.

    The module has the command as ``NAME_command``.
    """

    section: str
    summary: str
    module: str = ""


COMMANDS = {
    "info": CommandEntry("Look", "Sum up a store: files, ranges, settings, queues."),
    "query": CommandEntry("Look", "Find messages by key, tag, ID, offset or time."),
    "dump": CommandEntry("Look", "Show the records, units and items in a store's files."),
    "export": CommandEntry("Look", "Write messages as files of Parquet, Arrow, ndjson or csv."),
    "topics": CommandEntry("Look", "Add up the log by topic: messages, bytes, rate, backlog."),
    "decode-id": CommandEntry("Look", "Decode message IDs: offset IDs and unique IDs."),
    "verify": CommandEntry("Check", "Check a store, or a part of it, and report damage."),
    "explain": CommandEntry("Check", "Explain lines of a broker's log, and findings, for a store."),
    "diff": CommandEntry("Check", "Compare two stores, or the same part of two stores."),
    "offsets": CommandEntry("Check", "Show consumer lag and out-of-range offsets."),
    "retention": CommandEntry("Check", "Show the files that a broker deletes, and when."),
    "config": CommandEntry("Check", "Show what a broker makes of its properties file."),
    "report": CommandEntry("Check", "Write one page about a store: losses, log, topics, findings."),
    "rebuild": CommandEntry("Rebuild", "Rebuild consumequeue/ and index/ from the commit log."),
    "salvage": CommandEntry("Rebuild", "Write a new store of what is left of a damaged one."),
    "carve": CommandEntry("Rebuild", "Recover messages from disk images and raw bytes."),
    "convert": CommandEntry("Rebuild", "Write a plain store of one with a DLedger log."),
    "repair": CommandEntry("Rebuild", "Repair a store in place where that loses nothing, with undo."),
    "help": CommandEntry("Other", "Print a page of the manual, or the list of its pages.", "manual"),
    "rebuild-index": CommandEntry("Other", "Rebuild index/ from the commit log.", "rebuild"),
    "schema": CommandEntry("Other", "Print the JSON Schema of an output.", "manual"),
    "spark": CommandEntry("Other", "Pack rmqtool for the executors of a Spark cluster.", "prepare"),
    "warmup": CommandEntry("Other", "Compile all kernels now instead of at the first run.", "prepare"),
    "completion": CommandEntry("Other", "Print the completion script of a shell."),
}
_EXIT_STATUS = [
    ("0", "clean, found, done"),
    ("1", "found nothing, or only derived files are damaged or differ"),
    ("2", "usage error"),
    ("3", "could not do it: no store, no permission, disk full, no engine"),
    ("4", "refused for safety: a broker holds the lock, the output exists"),
    ("5", "the commit log itself is damaged"),
    ("130", "interrupted"),
]
_EXAMPLES = """\
rmqtool info $STORE
rmqtool verify $STORE
rmqtool query $STORE --topic TopicTest --key order-1
rmqtool rebuild $STORE --out rebuilt
"""


INTERNAL_ERROR = "internal error"
"""Start of the sentence about a defect of the tool."""


class SharedState:
    """State that the outermost function and a running command share.

    ``log`` is the open file of ``--log-file``; ``words`` are the arguments of the command line; ``begin_ms``
    is in epoch milliseconds; ``interruption`` says what Ctrl-C leaves, the end of a sentence.
    """

    def __init__(self) -> None:
        self.console: Console | None = None
        self.log: TextIO | None = None
        self.words: tuple[str, ...] = ()
        self.begin_ms = time.time_ns() // 1_000_000
        self.interruption: Callable[[], str] = str

    @property
    def interrupted(self) -> str:
        """Return the sentence with which the command ends on Ctrl-C."""
        left = ""
        with suppress(KeyboardInterrupt):  # a second one, as an object store may not answer
            left = self.interruption()
        return f"interrupted; {left}" if left else "interrupted"

    def error(self, sentence: str) -> None:
        """Say why the command ends."""
        from rmqtool.report.console import Console

        console = self.console or Console()
        console.close()
        console.error(sentence)

    def close(self) -> None:
        """Take the progress bar away and close the log file."""
        if self.console is not None:
            self.console.close()
        if self.log is not None:
            self.log.close()


class LazyGroup(click.Group):
    """A group that knows its commands by name only."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(
            import_module(f"rmqtool.cli.{entry.module or name}"), f"{name}_command"
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called; name the closest one for a wrong name."""
        if args and args[0] not in COMMANDS and not ctx.resilient_parsing:
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the commands without importing them."""
        from click.shell_completion import CompletionItem

        items = [
            CompletionItem(name, help=entry.summary)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them, and the options after it."""
        widest = max(map(len, COMMANDS))
        for title, names in groupby(COMMANDS, lambda name: COMMANDS[name].section):
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{widest}}", COMMANDS[name].summary) for name in names])
        click.Command.format_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit statuses, and how to begin."""
        with formatter.section("Exit status"):
            formatter.write_dl(_EXIT_STATUS)
        write_examples(_EXAMPLES, formatter)
        formatter.write("\n  rmqtool COMMAND --help lists the options of a command, with examples;\n")
        formatter.write("  rmqtool help lists the pages of the manual.\n")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rmqtool", message="%(prog)s %(version)s")
def ROOT() -> None:
    """Inspect the store files of an Apache RocketMQ broker, offline and read-only.

    A store is the directory that holds commitlog/. Data goes to standard output, everything else to standard
    error. Only repair changes a store; it asks first and can be undone.
    """


_SECTIONS = ("Options", "Engine", "Output", "Settings", "Progress and remarks")
_SHOWS_ALL = "rmqtool.shows_all"
SHOWS_SHARED = "rmqtool.shows_shared"
"""Entry of a context's ``meta``: help also lists the options of the page ``rmqtool help options``."""


class SectionOption(click.Option):
    """An option that help shows in a section of its own.

    Args:
        arguments: As of `click.Option`.
        section: The section's title.
        shared: Whether it is the same in all commands, so that their help leaves it to one page.
        more: As of `click.Option`. One value that is no output has its default in the environment.
    """

    def __init__(self, *arguments: Any, section: str, shared: bool = False, **more: Any) -> None:  # noqa: ANN401 - click's own
        if section != "Output" and not more.keys() & {"multiple", "is_flag"}:
            name = next(word for word in arguments[0] if word.startswith("--"))
            more |= {"envvar": f"RMQTOOL_{name[2:].replace('-', '_').upper()}", "show_envvar": True}
        super().__init__(*arguments, **more)
        self.section = section
        self.shared = shared


class Command(click.Command):
    """A command with examples.

    Args:
        arguments: As of `click.Command`.
        examples: Lines for a shell and comments. ``$STORE`` is a store root, ``$OTHER`` another one; what
            they write goes into the working directory.
        first: Names of the options that help shows, in this order; without them it shows all. The others are
            on ``--help-all``, in their sections.
        more: As of `click.Command`.
    """

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - click's own
        examples: str,
        first: str = "",
        **more: Any,  # noqa: ANN401 - click's own
    ) -> None:
        super().__init__(*arguments, **more)
        self.examples = examples
        self._first = [*first.split(), "--help", "--help-all"] if first else []
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                hidden=not first,
                callback=_show_all,
                help="Show all options of this command and exit.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; an option that takes one value is given once."""
        if not ctx.resilient_parsing:
            _, _, met = self.make_parser(ctx).parse_args(list(args))
            for parameter, times in Counter(met).items():
                if times > 1 and (
                    isinstance(parameter, click.Option)
                    and not (parameter.is_flag or parameter.multiple or parameter.count)
                ):
                    name = max(parameter.opts, key=len)
                    raise click.UsageError(f"{name} takes one value, and is given {times} times", ctx)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's first options, or all its own in their sections, and where the others are."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        own = [option for option in options if not (isinstance(option, SectionOption) and option.shared)]
        if SHOWS_SHARED in ctx.meta:
            write_sections(options, ctx, formatter)
            return
        if _SHOWS_ALL in ctx.meta:
            write_sections(own, ctx, formatter)
        else:
            by_name = {option.opts[-1]: option for option in own}
            first = [by_name[name] for name in self._first or by_name]
            write_sections(first, ctx, formatter, _SECTIONS[:1])
        if len(own) < len(options):
            formatter.write(f"\n{_SHARED}\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        write_examples(self.examples, formatter)


def _show_all(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_SHOWS_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_SHARED = "Shared options (settings, engine, exit status, progress): rmqtool help options"


def write_sections(
    options: Iterable[click.Option],
    ctx: click.Context,
    formatter: click.HelpFormatter,
    titles: Sequence[str] = _SECTIONS,
) -> None:
    """Write options in their sections, which have one order in all commands, else in the first."""
    sections: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
    for option in options:
        record = option.get_help_record(ctx)
        if record is not None:
            section = option.section if isinstance(option, SectionOption) else ""
            sections[section if section in sections else titles[0]].append(record)
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def write_examples(examples: str, formatter: click.HelpFormatter) -> None:
    """Write examples as they are: a line that is wrapped cannot be pasted."""
    with formatter.section("Examples"):
        formatter.write(indent(examples, " " * formatter.current_indent))
