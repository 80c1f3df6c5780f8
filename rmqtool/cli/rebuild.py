"""``rmqtool rebuild`` and ``rmqtool rebuild-index``: one command, for all parts or for the index alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rmqtool.cli.case_record import case_option
from rmqtool.cli.help import Command
from rmqtool.cli.options import (
    A_STORE,
    StorePath,
    adding,
    check_lost,
    engine_of,
    engine_options,
    given_options,
    is_fleet,
    lost_lines,
    lost_option,
    note_engine,
    request_options,
    shared_options,
)
from rmqtool.cli.session import Session, result_state_sentence, results_state_sentence, rows_state_sentence
from rmqtool.commands.rebuild.request import RebuildRequest
from rmqtool.errors import ExitStatus, UsageError
from rmqtool.report.outcome_text import rebuild_text
from rmqtool.store.results import REBUILD_REPORT

if TYPE_CHECKING:
    from rmqtool.commands.rebuild.report import RebuildReport

_EXAMPLES = """\
# consume queues and index in a new directory, on all cores of this machine
rmqtool rebuild $STORE --out rebuilt --engine local
# would a rebuild change anything
rmqtool rebuild $STORE --compare --engine local
# plan and count, write nothing
rmqtool rebuild $STORE --dry-run --engine local
# which messages would consumers miss, and why
rmqtool rebuild $STORE --dry-run --lost lost.ndjson --engine local
# all intact records of a damaged log, when there is no room to copy the log
rmqtool rebuild $STORE --salvage --out salvaged --engine local
# one topic only, for inspection
rmqtool rebuild $STORE --topic TopicTest --out part --engine local
# several brokers, a directory for each; continues after an interrupt
rmqtool rebuild $STORE $OTHER --out all --resume --engine local
"""
_INDEX_EXAMPLES = """\
# a new index, beside the store
rmqtool rebuild-index $STORE --out rebuilt --engine local
# does the present index match the log
rmqtool rebuild-index $STORE --compare --engine local
"""

_OPTIONS = (
    click.argument("paths", nargs=-1, required=True, type=A_STORE, metavar="STORE..."),
    click.option(
        "--out",
        type=A_STORE,
        metavar="DIR",
        help="Result directory, or its URL; must be new or empty. Each of several stores gets one in it.",
    ),
    click.option("--resume", is_flag=True, help="Skip the stores whose result is in --out already."),
    request_options(RebuildRequest, without=("salvage",)),
    engine_options("spark"),
    case_option,
    shared_options("text", "json"),
)


_rebuild_options = adding(_OPTIONS)


@click.command("rebuild", cls=Command, examples=_EXAMPLES)
@_rebuild_options
@lost_option("every message missing from the result")
@request_options(RebuildRequest, only=("salvage",))
def rebuild_command(paths: tuple[StorePath, ...], **options: Any) -> ExitStatus:  # noqa: ANN401 - click's options
    """Rebuild consumequeue/ and index/ from the commit log.

    The result appears in --out complete or not at all, exactly as a broker would have left it, with the
    report rebuild.json. The store is only read. --compare and --dry-run need no --out. Several stores, or a
    glob in quotes, are one run: see rmqtool help fleets.
    """
    return _rebuild(paths, frozenset({"consumequeue", "index"}), options)


@click.command("rebuild-index", cls=Command, examples=_INDEX_EXAMPLES)
@_rebuild_options
def rebuild_index_command(paths: tuple[StorePath, ...], **options: Any) -> ExitStatus:  # noqa: ANN401 - click's options
    """Rebuild index/ from the commit log.

    The result appears in --out complete or not at all, exactly as a broker would have left it, with the
    report rebuild.json. The store is only read. --compare and --dry-run need no --out. Several stores, or a
    glob in quotes, are one run: see rmqtool help fleets.
    """
    return _rebuild(paths, frozenset({"index"}), options | {"lost": None, "salvage": False})


def _rebuild(paths: tuple[StorePath, ...], parts: frozenset[str], options: dict[str, Any]) -> ExitStatus:
    session = Session(options)
    left = results_state_sentence if is_fleet(paths) else result_state_sentence
    session.leaves(partial(left, options["out"], REBUILD_REPORT))
    words = _words(session, parts, options)
    if is_fleet(paths):
        from rmqtool.cli.rebuild_stores import rebuild_stores

        return rebuild_stores(session, paths, words, options)
    if options["resume"]:
        raise UsageError("--resume is for several stores: a single result appears as a whole, or not at all")
    return _run(session, paths[0], words, options)


def _words(session: Session, parts: frozenset[str], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options as `Store.rebuild` takes them."""
    until = session.moment("--until-timestamp", options["until_timestamp"])
    return given_options(RebuildRequest, options) | {"parts": parts, "until_timestamp": until}


def _run(session: Session, path: StorePath, words: dict[str, Any], options: dict[str, Any]) -> ExitStatus:
    engine = engine_of(options)
    store = session.open(path, reads_queues=True)
    session.note_settings(store)
    note_engine(options, engine, session.console)
    if check_lost(options) is None and options["lost"] is not None:
        session.leaves(rows_state_sentence)
    session.begin_case(store)
    with session.output(store, whole=True) as stream, lost_lines(options, store) as tell_lost:
        report = store.rebuild(
            options["out"], lost=tell_lost, engine=engine, progress=session.console, **words
        )
        status = report.exit_status(session.fail_on)
        session.show(report, status, stream, rebuild_text)
    _say_what_next(session, report)
    return status


def _say_what_next(session: Session, report: RebuildReport) -> None:
    if report.install_hint:
        say = session.console.note if report.is_installable else session.console.warn
        say(report.install_hint)


COMMANDS = {"rebuild": rebuild_command, "rebuild-index": rebuild_index_command}
