"""``rmqtool explain``."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqtool.cli.options import A_STORE, StorePath, completed_by
from rmqtool.cli.session import Session, command
from rmqtool.cli.verify import INFERRED, explain, verdict_on
from rmqtool.commands.explain import ExplainedLine, explained_lines, look_up, named
from rmqtool.engine import EngineOptions
from rmqtool.errors import EnvironmentFailureError, ExitStatus, UsageError
from rmqtool.findings.log_lines import quoted
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.findings import FindingCode

_LONGEST_BYTES = 1 << 13
_EXAMPLES = """\
# what a line of a log means
rmqtool explain "found a illegal magic code 0x0"
# and what this store has there
rmqtool explain "CRC check failed. bodyCRC=1, currentCRC=2" $STORE
# all lines of a log that say something of a store
echo "[BUG]consume queue can not write, TopicTest 0" | rmqtool explain -
# what a finding means
rmqtool explain CL-HOLE
# all finding codes, and all lines that are known
rmqtool explain all
"""


@command("explain", "text json ndjson csv", _EXAMPLES)
@click.argument("line", metavar="LINE", shell_complete=completed_by("code"))
@click.argument("store_path", type=A_STORE, metavar="[STORE]", required=False)
def explain_command(session: Session, line: str, store_path: StorePath | None) -> ExitStatus:
    """Explain lines of a broker's log, and findings, for a store.

    LINE is a line of a broker's or a client's log or a part of one, a file of them, - for standard input, a
    finding code, a name of a kind of lines, or a glob of either; of a log, lines that say nothing of a store
    are passed over. With STORE, the answer is for that store: verify examines it, and what lies at the places
    that the lines name is shown. Exit status 1 if no line is recognised, else that of verify.
    """
    codes: tuple[FindingCode, ...] = ()
    path = _file_named(line)
    lines = explained_lines(_lines(line, path))
    if not lines and path is None and line != "-" and len(line.split()) < 2:
        codes, lines = named(line)
    if not lines and not codes and path is None:
        lines = [ExplainedLine.of(row, line) for row in quoted(line)]
    if not lines and not codes:
        session.console.error(f"{line}: no line that says anything of a store; explain all lists those known")
        return ExitStatus.NEGATIVE
    if store_path is None:
        return explain(session, codes, lines)
    store = session.open(store_path, reads_queues=True)
    if store.kind != PathKind.STORE:
        raise UsageError(f"{store_path}: is not a store root, with which lines are compared")
    verdict = verdict_on(session, store, EngineOptions("local"), session.console, INFERRED)
    for explained in lines:
        look_up(explained, store.files, verdict.report.findings)
    session.console.close()
    return explain(session, codes, lines, store, verdict)


def _lines(text: str, path: Path | None) -> Iterator[str]:
    """Yield the lines of standard input for -, those of a file, or of the text itself; long ones in pieces.

    In a text each begins with its date, as a terminal may have wrapped them.
    """
    if path is None and text != "-":
        yield from re.split(r"\n(?=\d+-\d\d-\d\d )", text)
        return
    try:
        with sys.stdin.buffer if path is None else path.open("rb") as file:
            for line in iter(partial(file.readline, _LONGEST_BYTES), b""):
                yield line.decode("utf-8", "replace")
    except OSError as failure:
        raise EnvironmentFailureError(f"{text}: cannot be read: {failure.strerror}") from failure


def _file_named(text: str) -> Path | None:
    """Return the file of that name, which may be a pipe; None if there is none, or no file could have it."""
    path = Path(text)
    with suppress(OSError, ValueError):
        return path if path.exists() and not path.is_dir() else None
    return None
