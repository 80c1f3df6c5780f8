"""``rmqtool help``: the pages that are installed with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.cli.group import COMMANDS
from rmqtool.cli.manual import TOPICS

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


def test_a_page_of_a_command_has_its_options(run: Callable[..., Run]) -> None:
    assert run("verify", "--help-all").out in run("help", "verify").out


@pytest.mark.parametrize(
    ("topic", "hint"), [("finding", "Did you mean 'findings'?"), ("../x", "help lists them")]
)
def test_an_unknown_topic_is_a_usage_error(run: Callable[..., Run], topic: str, hint: str) -> None:
    found = run("help", topic)
    assert (found.status, found.out) == (2, "")
    assert hint in found.err
