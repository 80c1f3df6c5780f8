"""Help of a command: options in sections, then examples that can be pasted."""

from __future__ import annotations

from collections import Counter
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

_SECTIONS = ("Options", "Engine", "Output", "Settings", "Progress and remarks")
SHOWS_SHARED = "rmqtool.shows_shared"
"""Entry of a context's ``meta``: help also lists the options of the page ``rmqtool help options``."""


class SectionOption(click.Option):
    """An option that help shows in a section of its own.

    Args:
        arguments: As of `click.Option`.
        section: The section's title.
        shared: Whether it is the same in all commands, so that their help leaves it to one page.
        more: As of `click.Option`.
    """

    def __init__(self, *arguments: Any, section: str, shared: bool = False, **more: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*arguments, **more)
        self.section = section
        self.shared = shared


class Command(click.Command):
    """A command with examples.

    Args:
        arguments: As of `click.Command`.
        examples: Lines for a shell and comments. ``$STORE`` is a store root, ``$OTHER`` another one; what
            they write goes into the working directory.
        more: As of `click.Command`.
    """

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - click's own
        examples: str,
        **more: Any,  # noqa: ANN401 - click's own
    ) -> None:
        super().__init__(*arguments, **more)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; an option that takes one value is given once."""
        if not ctx.resilient_parsing:
            _, _, met = self.make_parser(ctx).parse_args(list(args))
            for parameter, times in Counter(met).items():
                if times > 1 and _takes_one_value(parameter):
                    name = max(parameter.opts, key=len)
                    raise click.UsageError(f"{name} takes one value, and is given {times} times", ctx)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then those of each section, and where the shared ones are."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        own = [one for one in options if not (isinstance(one, SectionOption) and one.shared)]
        write_sections(options if SHOWS_SHARED in ctx.meta else own, ctx, formatter)
        if len(own) < len(options) and SHOWS_SHARED not in ctx.meta:
            formatter.write(f"\n{_SHARED}\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        write_examples(self.examples, formatter)


_SHARED = "Shared options (settings, engine, exit status, progress): rmqtool help options"


def write_sections(
    options: Iterable[click.Option], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write options in their sections, which have one order in all commands."""
    sections: dict[str, list[tuple[str, str]]] = {title: [] for title in _SECTIONS}
    for option in options:
        record = option.get_help_record(ctx)
        if record is not None:
            sections[option.section if isinstance(option, SectionOption) else _SECTIONS[0]].append(record)
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _takes_one_value(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not (
        parameter.is_flag or parameter.multiple or parameter.count
    )


def write_examples(examples: str, formatter: click.HelpFormatter) -> None:
    """Write examples as they are: a line that is wrapped cannot be pasted."""
    with formatter.section("Examples"):
        formatter.write(indent(examples, " " * formatter.current_indent))
