"""What README shows is what happens: sessions are run, tables and help texts are compared."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from rmqtool.cli.group import COMMANDS
from rmqtool.errors import ExitStatus
from rmqtool.report.catalogue_table import catalogue_table
from rmqtool.report.row_table import row_table
from tests.house.readme import README, RMQTOOL, ROOT, Step, help_texts, here, run, sessions

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


def test_table_of_findings_is_the_catalogue() -> None:
    """Both ways: the table is made of the catalogue."""
    assert f"<!-- catalogue -->\n{catalogue_table()}<!-- end -->" in TEXT


def test_table_of_rows_is_made_of_their_classes() -> None:
    assert f"<!-- rows -->\n{row_table()}<!-- end -->" in TEXT


def recipes() -> dict[str, str]:
    """Return the shell lines of the recipe for CI, as a shell gets them."""
    section = TEXT.split("\n## In CI and from cron\n", 1)[1].split("\n## ", 1)[0]
    step = re.search(r"^  run: (.*)$", section, re.MULTILINE)
    blocks = dict(re.findall(r"```(sh|crontab)\n(.*?)\n```", section, re.DOTALL))
    assert step is not None
    cron = blocks["crontab"].split(" ", 5)[5].replace(r"\%", "%")
    return {"shell": blocks["sh"], "actions": step[1], "cron": cron}


@pytest.mark.parametrize("kind", ["shell", "actions", "cron"])
@pytest.mark.parametrize("damaged", [False, True], ids=["sound", "damaged"])
def test_recipe_for_ci(kind: str, damaged: bool, tmp_path: Path) -> None:
    """A sound store passes; one flipped byte of a body fails the job, or is logged by the cron line.

    The second run, in the directory of the first and a second later, says the same.
    """
    store, bin_ = tmp_path / "store", tmp_path / "bin"
    shutil.copytree(ROOT / "fixtures/stores/plain-5.3.3", store)
    if damaged:
        segment = store / "commitlog/00000000000000008192"
        data = bytearray(segment.read_bytes())
        data[200] ^= 1
        segment.write_bytes(data)
    bin_.mkdir()
    (bin_ / "rmqtool").symlink_to(RMQTOOL)
    (bin_ / "logger").write_text('#!/bin/sh\necho "$@" >> "$LOGS/logged"\n')
    (bin_ / "logger").chmod(0o755)
    environment = {"PATH": f"{bin_}:/usr/bin:/bin", "STORE": str(store), "LOGS": str(tmp_path)} | here()
    command = ["sh", "-c", recipes()[kind]]
    first = subprocess.run(command, cwd=tmp_path, env=environment, timeout=120, check=False)
    time.sleep(1)  # the cron line names its file by the second
    done = subprocess.run(command, cwd=tmp_path, env=environment, timeout=120, check=False)
    logged = (tmp_path / "logged").read_text() if (tmp_path / "logged").exists() else ""
    if kind == "cron":
        assert logged.count("exit status 5") == 2 * damaged
        assert "exit status 4" not in logged
        assert len(list(tmp_path.glob("*.ndjson"))) == 2
    else:
        assert first.returncode == done.returncode == (5 if damaged else 0)
        assert {"verify.xml", "verify.sarif"} <= {path.name for path in tmp_path.iterdir()}


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
