"""Help: every option is documented, every example runs, nothing is wrapped that would be pasted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import click
import pytest

import rmqtool
from rmqtool.cli.group import COMMANDS, ROOT, Command, SectionOption
from tests.broker.stores import LEDGERS
from tests.cli.conftest import STORES
from tests.cli.shells import environment, program
from tests.house.readme import here

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run


def command(name: str) -> Command:
    found = ROOT.get_command(click.Context(ROOT), name)
    assert isinstance(found, Command)
    return found


HEAVY = {"spark"}
"""Commands whose examples take long."""
TRIED_ELSEWHERE = {"warmup"}
"""Commands that compile everything: what their examples do is tried by tests of their own."""

EXAMPLES = [
    pytest.param(name, example, id=f"{name}: {purpose}", marks=[pytest.mark.full] if name in HEAVY else [])
    for name in COMMANDS
    if name not in TRIED_ELSEWHERE
    for purpose, example in re.findall(r"^# (.*)\n((?:[^#].*\n)+)", command(name).examples, re.MULTILINE)
]


def _to_be_repaired(folder: Path, *, cut: bool, done: bool) -> Path:
    """Copy a store, for the one command that changes it: with settings that were cut, or mended by now."""
    root = folder / "copy"
    shutil.copytree(STORES / "plain-5.3.3", root)
    if cut:
        offsets = root / "config/consumerOffset.json"
        offsets.write_bytes(offsets.read_bytes()[:-9])
    if done:
        (root / "abort").touch()
        assert rmqtool.open(root).repair(only=["abort"]).outcome == "done"
    return root


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_example_runs(name: str, example: str, tmp_path: Path) -> None:
    """Exit status 0 but where a difference or a missing message is what the example is about."""
    bin_ = program(tmp_path / "bin")
    (tmp_path / ".config/fish/completions").mkdir(parents=True)
    stores = {"STORE": str(STORES / "plain-5.3.3"), "OTHER": str(STORES / "plain-4.9.8")}
    if name == "repair":
        stores["STORE"] = str(_to_be_repaired(tmp_path, cut="--config" in example, done="--undo" in example))
    if name == "convert":
        stores["STORE"] = str(LEDGERS / "dledger-5.3.3")
    if name == "salvage":
        stores["OTHER"] = str(shutil.copytree(stores["STORE"], tmp_path / "replica"))
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", example],
        env=environment(bin_) | here() | stores | {"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,  # the first may compile
        check=False,
    )
    negative = name == "diff" or "error: no message for" in done.stderr
    assert done.returncode == (1 if negative else 0), done.stderr
    made = [path for path in tmp_path.iterdir() if path.name not in {"bin", ".config", "replica"}]
    assert done.stdout or made or "explain: " in done.stderr or name == "completion"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_and_says_something_of_every_option(run: Callable[..., Run], name: str) -> None:
    """80 columns; an example that is longer would be broken by the terminal, not by us."""
    first, found, shared = run(name, "--help"), run(name, "--help-all"), run("help", "options")
    assert first.status == found.status == shared.status == 0
    text = re.split(r"^(?:Shared options|Examples:)", first.out, maxsplit=1, flags=re.MULTILINE)[0]
    assert len(list(filter(None, text.splitlines()))) <= 30
    assert re.findall(r"^\w+:$", text, re.MULTILINE) == ["Options:"]
    assert [line for line in found.out.splitlines() if len(line) > 79] == []
    assert "\\b" not in found.out
    for parameter in command(name).params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert parameter.help.endswith("."), parameter.name
            is_shared = isinstance(parameter, SectionOption) and parameter.shared
            assert parameter.hidden or parameter.opts[-1] in (shared.out if is_shared else found.out)
    lines = command(name).examples.splitlines()
    assert all(f"  {line}" in found.out.splitlines() for line in lines)


def test_the_environment_gives_defaults(run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line wins; help names the variables."""
    monkeypatch.setenv("RMQTOOL_BROKER_CONF", "/nowhere/broker.conf")
    monkeypatch.setenv("RMQTOOL_TIMEZONE", "Nowhere/Atall")
    found = run("info", STORES / "plain-5.3.3")
    assert found.status != 0
    assert "Nowhere/Atall" in found.err or "/nowhere/broker.conf" in found.err
    given = ("-c", STORES / "plain-5.3.3/broker.conf", "--timezone", "Asia/Shanghai")
    assert run("info", STORES / "plain-5.3.3", *given).status == 0
    for variable in ("RMQTOOL_BROKER_CONF", "RMQTOOL_TIMEZONE", "RMQTOOL_MASTER"):
        assert variable in run("help", "options").out


def test_help_names_every_command_once(run: Callable[..., Run]) -> None:
    out = run("--help").out
    for name, entry in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(entry.summary)}$", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) < 80


def test_no_command_at_all_is_a_usage_error_with_the_help(run: Callable[..., Run]) -> None:
    found = run()
    assert (found.status, found.out) == (2, "")
    assert found.err == run("--help").out


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("verfy", "x"), "Did you mean verify?"),
        (("info", "x", "--formt", "json"), "Did you mean --format?"),
        (("dump", "x", "--form", "json"), "--format"),  # and others that begin so
    ],
)
def test_a_near_name_is_suggested(run: Callable[..., Run], words: tuple[str, ...], hint: str) -> None:
    found = run(*words)
    assert found.status == 2
    assert hint in found.err.replace("'", "")  # not every click quotes names
