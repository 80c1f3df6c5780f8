"""``rmqtool diff``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rmqtool.cli.help import Command
from rmqtool.cli.options import A_PATH, shared_options, type_option
from rmqtool.cli.session import Session
from rmqtool.commands.diff import Comparison, Difference, diff_stores
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn
from rmqtool.findings.wording import counted
from rmqtool.report.escaping import escape_text
from rmqtool.report.records import write_records
from rmqtool.report.sinks import Format
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import TextIO


_EXAMPLES = """\
# a store and a copy of it, or a master and its slave
rmqtool diff $STORE $OTHER
# only the logs
rmqtool diff $STORE/commitlog $OTHER/commitlog
"""


@click.command("diff", cls=Command, examples=_EXAMPLES)
@click.argument("a", type=A_PATH)
@click.argument("b", type=A_PATH)
@type_option
@shared_options("text", "json", "ndjson", "csv")
def diff_command(
    a: Path,
    b: Path,
    type_name: str | None,
    **shared: Any,  # noqa: ANN401 - what click makes of the shared options
) -> ExitStatus:
    """Compare two stores, or the same part of two stores.

    A and B are store roots, results of rebuild, or the same directory or file of two stores. The log is
    compared by physical offset, queues by queue offset, the index entry by entry: sizes and names of files do
    not count. The first difference of each structure is told; any makes the exit status 1.
    """
    session = Session(shared)
    kind = None if type_name is None else PathKind(type_name)
    one, other = session.open_store(a, kind), session.open_store(b, kind)
    for store in (one, other):
        session.note_broker(store)
    comparison = Comparison()
    with session.output(one, other) as stream:
        rows = list(diff_stores(one, other, comparison))
        status = ExitStatus.NEGATIVE if rows and session.fail_on is not FailOn.NEVER else ExitStatus.CLEAN
        if session.format is Format.TEXT:
            _write_text(rows, comparison, stream)
        else:
            facts = {"a": str(one.place.path), "b": str(other.place.path), "compared": comparison.compared}
            schema = "rmqtool.diff/1"
            write_records(
                session.format, stream, rows, schema=schema, kind=Difference, status=status, facts=facts
            )
    for sentence in comparison.left_out:
        session.console.note(sentence)
    return status


def _write_text(rows: Sequence[Difference], comparison: Comparison, stream: TextIO) -> None:
    for row in rows:
        stream.write(f"{row.structure}: {escape_text(row.message)}\n")
        if row.a is not None and row.a not in row.message:
            stream.writelines(f"  {side} {text or '-'}\n" for side, text in (("A", row.a), ("B", row.b)))
    numbers = ", ".join(f"{count} {name}" for name, count in comparison.compared.items() if count)
    verdict = counted(len(rows), "difference") if rows else "no difference"
    stream.write(f"{verdict} in {numbers or 'nothing'} compared\n")


COMMANDS = {"diff": diff_command}
