"""``rmqtool help``: the pages that are installed with the package."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click
import pytest

from rmqtool.cli.group import COMMANDS, ROOT
from rmqtool.cli.manual import TOPICS
from rmqtool.findings import CATALOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runs import Run


def test_without_a_topic_all_pages_are_listed(run: Callable[..., Run]) -> None:
    found = run("help")
    assert (found.status, found.err) == (0, "")
    listed = [line.split()[0] for line in found.out.splitlines() if line.startswith("  ")]
    assert listed == [*TOPICS, *COMMANDS]
    assert max(map(len, found.out.splitlines())) < 80


@pytest.mark.parametrize("topic", [*TOPICS, *COMMANDS])
def test_a_page_is_printed_without_marks(run: Callable[..., Run], topic: str) -> None:
    found = run("help", topic)
    assert (found.status, found.err) == (0, "")
    assert found.out.startswith("# ")
    assert "<!--" not in found.out


def test_commands_and_codes_of_incidents_are_there(run: Callable[..., Run]) -> None:
    """What the page names can be pasted: commands with these options, and codes that verify has."""
    page = run("help", "incidents").out
    lines = re.findall(r"`(rmqtool [^`]*)`", page)
    assert len(lines) > 30
    for line in lines:
        _, name, *words = shlex.split(line)
        command = ROOT.get_command(click.Context(ROOT), name)
        assert command is not None, line
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options, line
    assert set(re.findall(r"`([A-Z]{2}-[A-Z-]+)`", page)) <= CATALOG.keys()


def test_a_page_of_a_command_has_its_options(run: Callable[..., Run]) -> None:
    assert run("verify", "--help-all").out in run("help", "verify").out


@pytest.mark.parametrize(
    ("topic", "hint"), [("finding", "Did you mean 'findings'?"), ("../x", "help lists them")]
)
def test_an_unknown_topic_is_a_usage_error(run: Callable[..., Run], topic: str, hint: str) -> None:
    found = run("help", topic)
    assert (found.status, found.out) == (2, "")
    assert hint in found.err
