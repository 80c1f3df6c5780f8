"""``rmqtool decode-id``."""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import click

from rmqtool.api.functions import decode_id
from rmqtool.cli.session import Session, command
from rmqtool.commands.decode_id import Reading
from rmqtool.errors import ExitStatus
from rmqtool.report.output import write_records
from rmqtool.report.row_text import readings_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXAMPLES = """\
# broker and offset, or client and time, of an ID
rmqtool decode-id 0A09080700002A9F000000004000002A
# a unique ID, made in the month of this day
rmqtool decode-id --near 2026-11-21 C0A80114E24018B4AAC24AF57400002A
# IDs one a line
echo C0A80114E24018B4AAC24AF57400002A | rmqtool decode-id -
"""


@command("decode-id", "text json ndjson csv", _EXAMPLES)
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@click.option(
    "--near", metavar="TIME", help="A time near the message's; a unique ID does not hold the month."
)
def decode_id_command(session: Session, ids: tuple[str, ...], near: str | None) -> ExitStatus:
    """Decode message IDs: offset IDs and unique IDs.

    An ID may be in either case; - reads IDs from standard input, one a line. Offset IDs and unique IDs look
    alike: one that can be either is shown as both. An ID of 34 digits is a gRPC client's. Exit status 1 if an
    argument is not a message ID. The text shows only plausible readings, if there is one. --timezone is the
    client's. Without --near a unique ID may be of any month, and json has the candidates.
    """
    answers = [(text, decode_id(text, near=near, timezone=session.common.timezone)) for text in _texts(ids)]
    for text, readings in answers:
        if not readings:
            session.console.error(f"{text}: is not a message ID; an ID has 32, 34 or 56 hexadecimal digits")
    status = ExitStatus.CLEAN if all(readings for _, readings in answers) else ExitStatus.NEGATIVE
    with session.output(whole=True) as stream:
        every = [readings for _, readings in answers]
        rows = chain.from_iterable(every)
        data = partial(write_records, rows, "rmqtool.decode-id/1", Reading, lambda: (status, {}))
        session.write(stream, partial(readings_text, every, session.zone), data)
    return status


def _texts(ids: tuple[str, ...]) -> Iterator[str]:
    """Yield the ids, for - those on standard input."""
    for text in ids:
        if text != "-":
            yield text
            continue
        for line in sys.stdin.buffer:
            found = line.decode("utf-8", "replace").strip()
            if found:
                yield found
