"""``completion``: real shells complete commands, topics, queues and the rest, and nothing breaks the line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.shell_completion import split_arg_string

from tests.cli.shells import ROOT, Terminal, environment, program, require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.runs import Run

STORE = "fixtures/stores/plain-4.9.8"
LINES = {
    "a command": ("rmqtool decode", "[rmqtool][decode-id]"),
    "a topic": (f"rmqtool dump {STORE} --topic Topic", f"[rmqtool][dump][{STORE}][--topic][TopicTest]"),
    "nothing after =": (
        f"rmqtool query {STORE} --topic=Topic",
        f"[rmqtool][query][{STORE}][--topic=Topic]",
    ),
    "a topic of a part": (
        f"rmqtool dump {STORE}/commitlog -t Ord",
        f"[rmqtool][dump][{STORE}/commitlog][-t][Orders]",
    ),
    "a code": ("rmqtool verify --explain CL-HOL", "[rmqtool][verify][--explain][CL-HOLE]"),
    "a group": (f"rmqtool offsets {STORE} -g bil", f"[rmqtool][offsets][{STORE}][-g][billing]"),
    "a queue": (
        f"rmqtool query {STORE} -t Orders --queue 7",
        f"[rmqtool][query][{STORE}][-t][Orders][--queue][7]",
    ),
    "a setting": (f"rmqtool info {STORE} -p maxHash", f"[rmqtool][info][{STORE}][-p][maxHashSlotNum=]"),
    "a file": ("rmqtool info -c fixtures/READ", "[rmqtool][info][-c][fixtures/README.md]"),
    "a topic left out": (
        f"rmqtool rebuild {STORE} --exclude-topic Topic",
        f"[rmqtool][rebuild][{STORE}][--exclude-topic][TopicTest]",
    ),
}


@pytest.fixture(scope="module", params=["bash", "zsh"])
def terminal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    require(request.param)
    found = Terminal(request.param, program(tmp_path_factory.mktemp("shell") / "bin"))
    yield found
    found.close()


@pytest.mark.few(3)
@pytest.mark.parametrize("line", LINES)
def test_tab_completes(terminal: Terminal, line: str) -> None:
    typed, expected = LINES[line]
    assert terminal.completed(typed) == expected


@pytest.fixture(scope="module")
def fish_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("fish")
    return program(tmp_path_factory.mktemp("fish") / "bin")


@pytest.mark.parametrize("line", LINES)
def test_fish_completes(fish_path: Path, line: str) -> None:
    typed, expected = LINES[line]
    done = subprocess.run(
        ["fish", "--no-config", "-c", "rmqtool completion fish | source; complete -C $argv[1]", typed],
        env=environment(fish_path),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    offered = [line.partition("\t")[0] for line in done.stdout.splitlines()] or typed.split()
    assert expected.rpartition("[")[2].rstrip("]") in offered


def asking(line: str) -> dict[str, str]:
    """Return the variables that the script for bash sets."""
    words = len(split_arg_string(f"{line}x")) - 1
    return {"_RMQTOOL_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(words)}


def ask(line: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Ask as the script for bash does."""
    return subprocess.run(
        [sys.executable, "-m", "rmqtool"],
        env=os.environ | asking(line) | more,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.full
def test_the_rest_of_the_values() -> None:
    """Zones, purposes of files, queues of a glob of topics; codes in any case."""
    assert "plain,Asia/Shanghai" in ask(f"rmqtool info {STORE} --timezone Asia/Sh").stdout
    assert ask(f"rmqtool verify {STORE} --manifest ").stdout == "plain,write:\nplain,check:\n"
    assert ask(f"rmqtool verify {STORE} --report junit:f").stdout == "file,junit:f\n"
    assert ask(f"rmqtool dump {STORE} -t Ord* --queue ").stdout == "plain,0\nplain,1\nplain,7\n"
    assert ask("rmqtool verify --explain cl-hol").stdout == "plain,CL-HOLE\n"


@pytest.mark.full
def test_a_home_directory_and_variables_are_put_in(tmp_path: Path) -> None:
    """The shell hands over the line as typed."""
    (tmp_path / "my store").symlink_to(ROOT / STORE)
    for line in ("~/my\\ store", "'~/my store'", '"$STORES/my store"'):
        found = ask(f"rmqtool dump {line} --topic ", HOME=str(tmp_path), STORES=str(tmp_path))
        assert "plain,TopicTest" in found.stdout, line


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "line",
    ["decode-id ", "dump /nowhere --topic ", "dump --topic ", "dump /etc/passwd -t "],
)
def test_a_line_that_makes_no_sense_is_left_alone(line: str) -> None:
    found = ask(f"rmqtool {line}")
    assert (found.stdout.strip(), found.stderr) == ("", "")


@pytest.mark.full
def test_no_damage_breaks_the_line(plain_copy: Path) -> None:
    """Names are completed as far as they can be read; nothing is ever said on standard error."""
    shutil.rmtree(plain_copy / "commitlog")
    (plain_copy / "commitlog").write_bytes(b"no directory")
    shutil.rmtree(plain_copy / "index")
    os.mkfifo(plain_copy / "index")
    (plain_copy / "config" / "consumerOffset.json").write_text("{nonsense")
    (plain_copy / "consumequeue" / "a\nb").mkdir()
    (plain_copy / "consumequeue" / "TopicTest" / "x").write_bytes(b"no directory")
    for words in ("--topic ", "--group ", "--queue ", "-t TopicTest --queue "):
        for command in ("offsets", "dump", "query"):
            found = ask(f"rmqtool {command} {plain_copy} {words}")
            assert (found.returncode in {0, 3}, found.stderr) == (True, "")
            assert "a\n" not in found.stdout


def test_an_answer_loads_no_kernels() -> None:
    script = (
        "import atexit, sys; atexit.register(lambda: print(sorted(sys.modules), file=sys.stderr));"
        "from rmqtool.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | asking(f"rmqtool dump {STORE} -t "),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "TopicTest" in done.stdout
    assert not [name for name in ("numba", "numpy", "pyspark", "rich") if f"'{name}'" in done.stderr]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(run: Callable[..., Run], shell: str) -> None:
    found = run("completion", shell)
    assert found.status == 0
    assert "_RMQTOOL_COMPLETE" in found.out
