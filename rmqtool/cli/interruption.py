"""What an interrupt leaves: the end of the sentence about it, found out when it has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import RmqtoolError
from rmqtool.io import Location, location_of
from rmqtool.store.results import read_result

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.store.scratch import Target

_NOTHING = "nothing was written"


def left_of_rows(path: Path | None = None) -> str:
    """Say what is left of rows that are written as they are found: nothing in a file.

    Args:
        path: Of their file; None is standard output.
    """
    return "what was written so far is incomplete" if path is None else _NOTHING


def left_of_result(out: Target | None, name: str) -> str:
    """Say what is left of a result that appears complete or not at all.

    Args:
        out: Where it appears; None where nothing is written.
        name: Of a file that it has.
    """
    if out is None:
        return ""
    return f"the result in {out} is complete" if _is_whole(out, name) else _NOTHING


def left_of_results(out: Target | None, name: str) -> str:
    """Say what is left of the results of many stores, each of which appears by itself.

    Args:
        out: Receives a directory for each; None where nothing is written.
        name: Of a file that each has.
    """
    if out is None:
        return ""
    try:
        # of an object store, another look than the one that the run began with
        entries = location_of(out.text if isinstance(out, Location) else out).entries()
    except RmqtoolError:
        return f"what is complete in {out}, --resume does not make again"
    if any(_is_whole(out / entry.name, name) for entry in entries):
        return f"what is complete lies in {out}, and --resume makes the rest"
    return _NOTHING


def _is_whole(out: Target, name: str) -> bool:
    try:
        return read_result(out, name) is not None
    except RmqtoolError:  # something is there, which is not known to be whole
        return False
