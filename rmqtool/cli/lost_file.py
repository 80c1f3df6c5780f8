"""``--lost FILE``: every lost message as a line of ndjson; the file is complete or not there."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rmqtool.cli.options import A_PATH
from rmqtool.errors import UsageError
from rmqtool.projection import json_object
from rmqtool.report.formats import to_json
from rmqtool.report.output import open_output
from rmqtool.report.whole_file import check_output_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.api.store import Store
    from rmqtool.recovery import LostMessage

_Function = TypeVar("_Function", bound="Callable[..., Any]")
_STANDARD_OUTPUT = Path("-")


def lost_option(what: str) -> Callable[[_Function], _Function]:
    """Add ``--lost``; ``what`` says of which messages."""
    return click.option(
        "--lost",
        type=A_PATH,
        metavar="FILE",
        help=f"Also list {what}, as ndjson; - is standard output, with -o for the report.",
    )


def check_lost(options: dict[str, Any]) -> Path | None:
    """Return the file of ``--lost`` if it is one, for who looks whether files can be written.

    Raises:
        UsageError: It is standard output, and so is the report.
    """
    path: Path | None = options["lost"]
    if path == _STANDARD_OUTPUT and options["output"] is None:
        raise UsageError(
            "--lost - is standard output, where the report goes, too: give -o FILE for the report"
        )
    return None if path == _STANDARD_OUTPUT else path


@contextmanager
def lost_lines(options: dict[str, Any], store: Store) -> Iterator[Callable[[LostMessage], object] | None]:
    """Yield what writes a lost message; None where nobody asks.

    Raises:
        RefusedError: The file exists, or lies in the store.
        UsageError: The report goes into the same file.
        EnvironmentFailureError: It cannot be written; nothing is left behind.
    """
    path = check_lost(options)
    if options["lost"] is None:
        yield None
        return
    roots = store.files.evidence_roots
    check_output_files([options["output"]], roots, new=[path])
    with open_output(path, roots) as stream:
        yield lambda message: stream.write(_line(message))


def _line(message: LostMessage) -> str:
    return to_json(json_object(message)) + "\n"
