"""Man pages, made of the help of every command."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import TYPE_CHECKING

import click

from rmqtool.cli.group import COMMANDS, ROOT, SHOWS_SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECTION = re.compile(r"^(\S.*):$")
_OPTION = re.compile(r"^  (\S.*?)(?:  +(\S.*))?$")
_LITERAL = {"EXAMPLES"}


def man_pages() -> dict[str, str]:
    """Return every page of section 1 by the name of its file."""
    pages = {"rmqtool.1": _page("rmqtool", "inspect the store files of an Apache RocketMQ broker", ROOT)}
    for name, entry in COMMANDS.items():
        command = ROOT.get_command(click.Context(ROOT), name)
        assert command is not None
        pages[f"rmqtool-{name}.1"] = _page(f"rmqtool {name}", _lower(entry.summary), command)
    return pages


def _lower(summary: str) -> str:
    """Return a summary as man pages have it: no capital, no full stop."""
    return summary[0].lower() + summary[1:].rstrip(".")


def _page(name: str, summary: str, command: click.Command) -> str:
    title = name.replace(" ", "-")
    parent = None if command is ROOT else click.Context(ROOT, info_name="rmqtool", **ROOT.context_settings)
    context = click.Context(command, parent, command.name, terminal_width=80, **ROOT.context_settings)
    context.meta[SHOWS_SHARED] = True
    usage, *rest = command.get_help(context).split("\n\n")
    others = ["rmqtool(1)"] if command is not ROOT else [f"rmqtool-{one}(1)" for one in COMMANDS]
    lines = [
        f'.TH {title.upper()} 1 "" rmqtool "User Commands"',
        ".SH NAME",
        _escaped(f"{title} - {summary}"),
        ".SH SYNOPSIS",
        _escaped(" ".join(usage.removeprefix("Usage: ").split())),
        ".SH DESCRIPTION",
        *_body("\n\n".join(rest)),
        ".SH SEE ALSO",
        _escaped(", ".join(others)),
    ]
    return "\n".join(lines) + "\n"


def _body(text: str) -> Iterator[str]:
    """Yield the paragraphs and sections of a help text."""
    heading, block = "", []
    for line in [*text.splitlines(), "End:"]:
        found = _SECTION.match(line)
        if found is None:
            block.append(line)
            continue
        yield from _section(heading, block)
        heading, block = found[1].upper(), []


def _section(heading: str, block: list[str]) -> Iterator[str]:
    if heading:
        yield f".SH {_escaped(heading)}"
    if any(line.startswith("  -") for line in block):
        yield from _definitions(block)
        return
    text = dedent("\n".join(block)).strip("\n")
    for number, paragraph in enumerate(text.split("\n\n")):
        yield from [".PP"] if number else []
        is_literal = heading or re.search(r"^ |  ", paragraph, re.MULTILINE)
        yield from [".nf"] if is_literal else []
        yield from map(_escaped, paragraph.splitlines())
        yield from [".fi"] if is_literal else []


def _definitions(block: list[str]) -> Iterator[str]:
    """Yield options, each with what it does."""
    for line in filter(str.strip, block):
        found = _OPTION.match(line)
        if found is None:
            yield _escaped(line.strip())
            continue
        yield from (".TP", f"\\fB{_escaped(found[1])}\\fR")
        yield from [_escaped(found[2])] if found[2] else []


def _escaped(text: str) -> str:
    """Return text that troff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("\u2026", "...")
    return f"\\&{text}" if text.startswith((".", "'")) else text
