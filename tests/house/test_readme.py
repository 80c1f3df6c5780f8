"""What README shows is what happens: sessions are run, tables and help texts are compared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rmqtool.cli.group import COMMANDS
from rmqtool.errors import ExitStatus
from tests.house.readme import README, ROOT, Step, help_texts, run, sessions

if TYPE_CHECKING:
    from pathlib import Path

TEXT = README.read_text()


def test_readme_has_sessions() -> None:
    assert sum(len(session) for session in sessions(TEXT)) >= 5


@pytest.mark.parametrize("session", sessions(TEXT), ids=lambda session: session[0].command[:40])
def test_session_prints_what_readme_shows(session: list[Step], tmp_path: Path) -> None:
    """If this fails because the tool changed: ``python -m tests.house.readme`` writes README anew."""
    for step in session:
        assert run(step.command, tmp_path).splitlines() == step.output.splitlines(), step.command


def test_reference_is_the_help_of_the_commands() -> None:
    assert help_texts() in TEXT


def table_after(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its head."""
    section = TEXT.split(f"\n{heading}\n", 1)[1].split("\n#", 1)[0]
    rows = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in rows[1:] if row[0] != "-"]


def test_exit_status_table_is_the_one_in_the_code() -> None:
    assert [int(row[0]) for row in table_after("## Exit status")] == [int(status) for status in ExitStatus]


def test_command_table_is_the_one_in_the_code() -> None:
    documented = {row[0].strip("`").split()[1]: row[1] for row in table_after("## Commands")}
    assert documented == {name: entry.summary for name, entry in COMMANDS.items()}


def test_the_two_commands_are_one_line_each() -> None:
    lines = re.findall(r"^ {4}(python3 -m venv .*)$", TEXT, re.MULTILINE)
    assert len(lines) == 2
    assert lines[0].endswith("--compare")
    assert lines[1].endswith(".venv/bin/pytest")


def test_ci_takes_its_test_command_from_readme() -> None:
    assert "README.md" in (ROOT / ".ci" / "run").read_text()
