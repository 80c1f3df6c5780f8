"""README and the manual compared with the tool; ``python -m tests.house.readme`` writes them, and schemas."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from rmqtool.cli.group import SectionOption, write_sections
from rmqtool.cli.options import engine_options, shared_options
from tests.house.man import man_pages
from tests.house.manual_tables import catalogue_table, line_table, row_table
from tests.house.schemas import write_schemas

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "rmqtool" / "docs"
MAN = ROOT / "man"
TOURS = (README, DOCS / "tour.md")
"""The pages whose commands can be pasted, one after the other, by who stands in a clone."""

RMQTOOL = str(Path(sys.executable).with_name("rmqtool"))

_PATIENCE_S = 120
_STEP = re.compile(r"```sh\n(?P<command>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.DOTALL)
_MADE_BY_MKTEMP = re.compile(r"/tmp/tmp\.\w{10}\b")
_CLEAN_UP = """trap 'case $PWD in /tmp/tmp.*) rm -rf "$PWD" ;; esac' EXIT\n"""
"""What ``mktemp -d`` made at its usual place, for the length of its name decides where lines are wrapped."""

_GENERATED = re.compile(r"(<!-- (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


class Step(NamedTuple):
    """The lines of one block for a shell, and the output that is shown below; None where there is none."""

    command: str
    output: str


def steps(page: str) -> list[Step]:
    """Return what is to be pasted of a page, from its top to its bottom."""
    return [Step(found["command"], found["output"] or "") for found in _STEP.finditer(page)]


def run(commands: list[str], scratch: Path) -> list[str]:
    """Return what each command shows on a terminal of 80 columns, standard output first.

    One shell runs them all, as it does for who pastes them; it begins in this checkout.

    Args:
        commands: Lines for bash.
        scratch: An empty directory.
    """
    script = _CLEAN_UP + f'rmqtool() {{ {shlex.quote(RMQTOOL)} "$@"; }}\n'
    for number, command in enumerate(commands):
        script += f"{{\n{command}\n}} 2> {scratch}/remarks-{number}; printf '\\0'\n"
    terminal, inside = pty.openpty()
    try:
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=inside,
            env=_environment(scratch),
        )
        os.close(inside)
        data = b"".join(iter(lambda: _read(terminal), b""))
        process.wait(_PATIENCE_S)
    finally:
        os.close(terminal)
    shown = data.decode().replace("\r\n", "\n").split("\0")[:-1]
    remarks = [(scratch / f"remarks-{number}").read_text() for number in range(len(commands))]
    return [_steady(one + more) for one, more in zip(shown, remarks, strict=True)]


def _steady(shown: str) -> str:
    """Return an output without what differs from run to run: seconds, and names that ``mktemp`` made."""
    shown = _MADE_BY_MKTEMP.sub("/tmp/tmp.XXXXXXXXXX", shown)
    shown = re.sub(r"^compiling once.*\n?", "", shown, flags=re.MULTILINE)  # a first run alone says that
    shown = re.sub(r"\b\d+\.\d\d\b", "0.00", shown)
    shown = re.sub(r"\bis due for [23] days", "is due for 3 days", shown)  # 71.9 hours while the hour is 4
    return "".join(f"{line.rstrip()}\n" for line in shown.splitlines())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's end of file: nobody holds the other end
        return b""


def _environment(scratch: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "COLUMNS": "80",
        "TERM": "xterm",
        "NO_COLOR": "1",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(scratch.parent),
    } | here()


def here() -> dict[str, str]:
    """Return the environment in which a command is this checkout's, and finds compiled kernels."""
    return {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(Path("~/.cache").expanduser())}


def help_text(name: str) -> str:
    """Return the help of a command as a block of its page."""
    with tempfile.TemporaryDirectory() as scratch:
        return f"```text\n{run([f'rmqtool {name} --help-all'], Path(scratch))[0]}```\n"


def shared_help() -> str:
    """Return the options that commands share, as their help would list them."""

    @click.command("options")
    @engine_options("local")
    @shared_options("text")
    def command() -> None:
        pass

    context = click.Context(command, terminal_width=78)
    formatter = context.make_formatter()
    shared = [param for param in command.params if isinstance(param, SectionOption) and param.shared]
    write_sections(shared, context, formatter)
    return formatter.getvalue().lstrip("\n")


def generated(path: Path) -> dict[str, str]:
    """Return what must stand between the marks of a page, by the name of the mark."""
    made: dict[str, Callable[[], str]] = {
        "rows": row_table,
        "catalogue": catalogue_table,
        "lines": line_table,
        "help": lambda: help_text(path.stem),
        "options": lambda: f"```text\n{shared_help()}```\n",
    }
    return {kind: made[kind]() for _, kind, _, _ in _GENERATED.findall(path.read_text())}


def refreshed(path: Path) -> str:
    """Return a page with every output and table as it is now."""
    text, tables = path.read_text(), generated(path)
    text = _GENERATED.sub(lambda found: found[1] + tables[found[2]] + found[4], text)
    if path not in TOURS:
        return text
    with tempfile.TemporaryDirectory() as scratch:
        outputs = iter(run([step.command for step in steps(text)], Path(scratch)))

    def step(found: re.Match[str]) -> str:
        output = next(outputs)
        shown = f"\n```text\n{output}```\n" if output else ""
        return f"```sh\n{found['command']}```\n{shown}"

    return _STEP.sub(step, text)


if __name__ == "__main__":
    # A page alone by its name, as diff or README.
    pages = {path.stem: path for path in [README, *sorted(DOCS.glob("*.md"))]}
    for page_name in sys.argv[1:] or pages:
        pages[page_name].write_text(refreshed(pages[page_name]))
    if not sys.argv[1:]:
        for file_name, man_page in man_pages().items():
            (MAN / file_name).write_text(man_page)
        write_schemas()
