"""What README and the manual show is what happens: tours are pasted, tables and help texts are compared."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from rmqtool.cli.group import COMMANDS
from rmqtool.cli.manual import TOPICS
from rmqtool.errors import ExitStatus
from tests.conftest import TIERS
from tests.house.man import man_pages
from tests.house.readme import DOCS, MAN, README, RMQTOOL, ROOT, TOURS, generated, here, run, steps

if TYPE_CHECKING:
    from pathlib import Path

TEXT = README.read_text()
PAGES = sorted(DOCS.glob("*.md"))


def test_readme_is_short() -> None:
    assert len(TEXT.splitlines()) <= 250


def test_tours_have_steps() -> None:
    assert all(sum(bool(step.output) for step in steps(page.read_text())) >= 4 for page in TOURS)


@pytest.mark.full
@pytest.mark.parametrize("page", TOURS, ids=lambda page: page.stem)
def test_tour_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    """If this fails because the tool changed: ``python -m tests.house.readme`` writes the page anew."""
    shown = steps(page.read_text())
    for step, output in zip(shown, run([step.command for step in shown], tmp_path), strict=True):
        assert output.splitlines() == step.output.splitlines(), step.command


@pytest.mark.few(2)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_generated_is_as_the_code_says(page: Path) -> None:
    """Help texts, the catalogue of findings, the members of rows. Both ways: the text is made of the code."""
    text = page.read_text()
    for kind, made in generated(page).items():
        assert f"<!-- {kind} -->\n{made}<!-- end -->" in text


def test_every_command_and_every_topic_has_a_page() -> None:
    pages = {page.stem: page.read_text() for page in PAGES}
    assert set(pages) == set(COMMANDS) | set(TOPICS)
    assert all(text.startswith(f"# {TOPICS.get(name, f'rmqtool {name}')}\n") for name, text in pages.items())
    assert [name for name in COMMANDS if "\n<!-- help -->\n" not in pages[name]] == []
    assert "\n<!-- catalogue -->\n" in pages["findings"]
    assert "\n<!-- rows -->\n" in pages["rows"]


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).is_file()] == []


def test_man_pages_are_made_of_the_help() -> None:
    assert {page.name: page.read_text() for page in MAN.iterdir()} == man_pages()


@pytest.mark.few(14)
@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
@pytest.mark.parametrize("page", sorted(MAN.iterdir()), ids=lambda page: page.stem)
def test_troff_has_nothing_to_say_of_a_man_page(page: Path) -> None:
    done = subprocess.run(["groff", "-man", "-ww", "-z", page], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def recipes() -> dict[str, str]:
    """Return the shell lines of the recipe for CI, as a shell gets them."""
    page = (DOCS / "ci.md").read_text()
    step = re.search(r"^  run: (.*)$", page, re.MULTILINE)
    blocks = dict(re.findall(r"```(sh|crontab)\n(.*?)\n```", page, re.DOTALL))
    assert step is not None
    cron = blocks["crontab"].split(" ", 5)[5].replace(r"\%", "%")
    return {"shell": blocks["sh"], "actions": step[1], "cron": cron}


@pytest.mark.full
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


def table_of(text: str, first_cell: str) -> list[list[str]]:
    """Return the cells of the table whose head begins with a word, without its head."""
    rows = re.search(rf"^\| {first_cell} \|.*\n\|[- |]*\n((?:\| .*\n)+)", text, re.MULTILINE)
    assert rows is not None
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip("| "))] for row in rows[1].splitlines()
    ]


def test_exit_status_table_is_the_one_in_the_code() -> None:
    rows = table_of((DOCS / "exit-status.md").read_text(), "Code")
    assert [int(row[0]) for row in rows] == [int(status) for status in ExitStatus]


def test_command_table_is_the_one_in_the_code() -> None:
    documented = {}
    for command, summary in table_of(TEXT, "Command"):
        found = re.fullmatch(r"\[`rmqtool (\S+).*`\]\(rmqtool/docs/(\S+)\.md\)", command)
        assert found is not None
        assert found[1] == found[2]
        documented[found[1]] = summary
    assert documented == {name: entry.summary for name, entry in COMMANDS.items()}


def test_topics_of_the_manual_are_those_in_the_code() -> None:
    rest = TEXT.partition("## Where the rest is")[2]
    assert re.findall(r"\[`([\w-]+)`\]\(rmqtool/docs/([\w-]+)\.md\)", rest) == [(one, one) for one in TOPICS]


def test_the_two_commands_are_one_line_each() -> None:
    lines = re.findall(r"^ {4}(python3 -m venv .*)$", TEXT, re.MULTILINE)
    assert len(lines) == 2
    assert lines[0].endswith("--compare")
    assert lines[1].endswith(".venv/bin/pytest")


def test_ci_takes_its_test_command_from_readme() -> None:
    assert "README.md" in (ROOT / ".ci" / "run").read_text()


def test_ci_runs_every_tier_that_is_left_out_by_default() -> None:
    assert f'tiers="{" or ".join(TIERS)}"\n' in (ROOT / ".ci" / "run").read_text()


def test_every_tier_is_described() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert [tier for tier in TIERS if f"\n* `{tier}` " not in text] == []


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`([a-z_./]+/[a-z_./]+\.(?:py|txt|toml|md))`", text))
    assert len(named) > 20
    assert [
        name for name in named if not ((ROOT / name).is_file() or (ROOT / "rmqtool" / name).is_file())
    ] == []
