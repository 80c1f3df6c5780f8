"""``rmqtool query``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqtool import rows
from rmqtool.cli.options import (
    A_STORE,
    StorePath,
    body_option,
    command_line,
    conditions,
    is_fleet,
    request_options,
)
from rmqtool.cli.session import Session, command, status_of
from rmqtool.commands.query import KeyQuestion, QueryRequest
from rmqtool.errors import EnvironmentFailureError, ExitStatus, UnansweredError, UsageError
from rmqtool.findings import FindingLog, counted, some
from rmqtool.options import DECOMPRESS_HELP, UNPACK_HELP, declared_options
from rmqtool.projection import json_value
from rmqtool.report.output import Format, write_records
from rmqtool.report.sinks import TRUNCATED, RowSink, open_sink
from rmqtool.rows.messages import MessageFilter
from rmqtool.store.layouts import Deed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Set

    from rmqtool.api.results import Answer
    from rmqtool.api.store import Store
    from rmqtool.projection import BodyMode
    from rmqtool.report.console import Console


_SCHEMA = "rmqtool.query/2"
_ANSWERS = {"max", "scan", "collisions", "consumed_by"}
_CONDITIONS = {option.name for option in declared_options(QueryRequest)} - _ANSWERS | {"keys_file"}
_FIRST = "--topic --key --msg-id --begin --end --max --explain --body --format"
_EXAMPLES = """\
# the messages of a key
rmqtool query $STORE -t TopicTest -k order-1
# the same in any topic
rmqtool query $STORE -k order-1
# why is a message not found
rmqtool query $STORE -t Orders -k order-1 --explain
# the messages of a tag
rmqtool query $STORE -t TopicTest --tag TagA
# the message at a physical offset
rmqtool query $STORE --offset 334
# five messages from a queue offset on
rmqtool query $STORE -t TopicTest --queue 0 --queue-offset 3 -m 5
# which of several copies has it, and are they the same
rmqtool query $STORE $OTHER -t TopicTest -k order-1
# has a group consumed it
rmqtool query $STORE -k order-1 --consumed-by billing
# messages by time, without trusting the index
rmqtool query $STORE -t Orders -b 2020-01-01 -e now --scan
# many keys in one run
seq 0 9 | sed s/^/order-/ | rmqtool query $STORE -t TopicTest --keys-file -
"""


@command("query", "text json ndjson csv", _EXAMPLES, first=_FIRST)
@click.argument("store_paths", type=A_STORE, metavar="STORE...", nargs=-1, required=True)
@request_options(QueryRequest)
@click.option(
    "--keys-file",
    type=click.Path(path_type=str),
    metavar="FILE",
    help='Many keys in one pass: one a line, or {"topic", "key"} objects; - reads standard input.',
)
@click.option("--explain", is_flag=True, help="Print every step, and why nothing was found.")
@body_option
@click.option("--decompress", is_flag=True, help=DECOMPRESS_HELP)
@click.option("--unpack-batches", is_flag=True, help=UNPACK_HELP)
def query_command(
    session: Session,
    store_paths: tuple[StorePath, ...],
    explain: bool,
    keys_file: str | None,
    body: BodyMode | None,
    decompress: bool,
    unpack_batches: bool,
) -> ExitStatus:
    """Find messages by key, tag, ID, offset or time.

    \b
      [--topic T] --key K                      by one of the keys
      [--topic T] --unique-key U               by the client's unique key
      --topic T --tag TAG                      by tag
      --topic T --keys-file FILE               by many keys
      --msg-id ID                              by offset ID or unique ID
      --offset PHY                             by physical offset
      --topic T --queue Q --queue-offset N     by queue offset
      --topic T [--queue Q] --begin … --end …  by store time

    Every message is read and compared before it is shown. Of several stores, a line says what each has of a
    message, and where.
    """  # noqa: D301 - click's mark of lines that stay as they are
    request = session.request(QueryRequest)
    if is_fleet(store_paths):
        alone: dict[str, object] = {
            "explain": explain,
            "consumed-by": request.consumed_by,
            "unpack-batches": unpack_batches,
        }
        return _query_copies(session, store_paths, keys_file, alone)
    store = session.open(store_paths[0])
    keys = None if keys_file is None else read_keys(keys_file, request.topic)
    given = session.given(QueryRequest)
    is_limited = bool(conditions({"max"}))
    if not is_limited and request.queue_offset is None:
        given |= {"max": store.files.settings.max_msgs_num_batch}
    answer = store.query(keys=keys, explain=explain, progress=session.console, **given)
    session.note_state(store)
    with session.output(store) as stream:
        sink = open_sink(
            session.format,
            stream,
            schema=_SCHEMA,
            body=body,
            zone=session.zone,
            keyed=keys is not None,
            judged=request.consumed_by is not None,
            warn=session.console.warn,
        )
        shown = partial(_with_bodies, session.console, decompress=decompress, unpack_batches=unpack_batches)
        answered, unanswered = _write(answer, sink, shown)
        if unanswered is None:
            negative = not answered or answer.missing_group is not None
            unread = not answered and not store.files.can(Deed.READ_LOG)
            status = status_of(answer.findings, session.fail_on, negative=negative, unread=unread)
        else:
            status = ExitStatus.FAILED
        if answered or explain:
            is_chosen = session.format is Format.NDJSON and is_limited
            sink.finish(status, _facts(answer, explain=explain, is_cut=answer.is_truncated and not is_chosen))
    _tell(session.console, answer, explain=explain)
    if answered and answer.missing_group is not None:
        session.console.error(answer.missing_group)
    if keys is not None:
        lost_keys = {question for keys_of in answer.lost.values() for question in keys_of}
        _tell_missing(session.console, [question for question in keys if question not in answered], lost_keys)
    if not answered or unanswered is not None:
        lost = f": lost from the log at {some(map(str, answer.lost))}" if answer.lost else ""
        session.console.error(
            unanswered or f"no message for {conditions(_CONDITIONS)} in {store.location}{lost}"
        )
        for sentence in () if explain else answer.hints:
            session.console.note(f"hint: {sentence}")
        has_structure = unanswered is None
        request = replace(request, scan=answer.scans)
        for line in _next(store, request, explain=explain, has_structure=has_structure, lost=bool(lost)):
            session.console.note(line)
    return status


def _query_copies(
    session: Session, paths: tuple[StorePath, ...], keys_file: str | None, alone: dict[str, object]
) -> ExitStatus:
    """Say what each of several stores has of every message that answers."""
    from rmqtool.cli.fleet import stores_of
    from rmqtool.commands.query.copies import MessageCopy, message_copies
    from rmqtool.report.row_text import copies_text

    for name in (name for name, value in alone.items() if value):
        raise UsageError(f"--{name} is for one store: name one copy")
    given = session.given(QueryRequest)
    stores, failures = stores_of(session, paths)
    keys = None if keys_file is None else read_keys(keys_file, session.request(QueryRequest).topic)
    answers, findings = dict[str, list[rows.Message]](), FindingLog()
    for path, why in failures.items():
        session.console.error(f"{path}: {why.removeprefix(f'{path}: ')}")
    for store in stores:
        session.console.note(f"{store.location}:")
        answer = store.query(keys=keys, progress=session.console, **given)
        try:
            answers[store.location] = [message for _, message in answer.pairs()]
        except UnansweredError as failure:
            failures[store.location] = str(failure)
            session.console.error(f"{store.location}: {failure}")
        findings.merge(answer.findings)
        for place in answer.lost:
            session.console.error(f"{store.location}: lost from the log at {place}")
    copies = message_copies(answers)
    status = ExitStatus.FAILED if failures else status_of(findings, session.fail_on, negative=not copies)
    with session.output(*stores, whole=True) as stream:
        data = partial(write_records, copies, "rmqtool.query-copies/1", MessageCopy, lambda: (status, {}))
        session.write(stream, partial(copies_text, copies), data)
    if not copies:
        session.console.error(
            f"no message for {conditions(_CONDITIONS)} in any of {counted(len(stores), 'store')}"
        )
    return status


def _facts(answer: Answer, *, explain: bool, is_cut: bool) -> dict[str, object]:
    """Return the members of the document beside its rows."""
    facts: dict[str, object] = {TRUNCATED: is_cut}
    return facts | ({"explain": json_value(answer.steps)} if explain else {})


def _write(
    answer: Answer, sink: RowSink, shown: Callable[[rows.Row], Iterable[rows.Row]]
) -> tuple[dict[KeyQuestion | None, None], str | None]:
    """Write the answers; return the questions that have one, and why nothing could answer, if so."""
    answered: dict[KeyQuestion | None, None] = {}
    try:
        for question, message in answer.marked():
            for row in shown(message):
                if isinstance(row, rows.Damage) and row is not message:
                    answer.findings.add(row.finding())
                consumption = answer.consumption(row) if isinstance(row, rows.Message) else None
                sink.add(row, None if question is None else question.key, consumption)
            answered[question] = None
    except UnansweredError:
        return answered, answer.unanswered
    return answered, None


def _with_bodies(
    console: Console, message: rows.Row, *, decompress: bool, unpack_batches: bool
) -> Iterable[rows.Row]:
    """Return a message as ``--unpack-batches`` and ``--decompress`` have it, from the body as stored."""
    every: Iterable[rows.Row] = [message]
    if unpack_batches:
        from rmqtool.rows.batches import with_inner_messages

        every = with_inner_messages(every, MessageFilter())
    if decompress:
        from rmqtool.rows.bodies import decompressed

        every = decompressed(every, console)
    return every


def _tell(console: Console, answer: Answer, *, explain: bool) -> None:
    for step in answer.steps if explain else ():
        console.note(f"explain: {step.message}")
    for reason, count in answer.left_out.items():
        console.note(f"explain: {count} more of the kind {reason.value}")


def _tell_missing(console: Console, missing: list[KeyQuestion], lost: Set[KeyQuestion]) -> None:
    """Name the keys without a message, those of lost messages first."""
    missing = sorted(missing, key=lambda question: question not in lost)
    if missing:
        named = some(f"{one.key}{' (lost)' * (one in lost)}" for one in missing)
        among = f", {len(lost)} of them of lost messages" if lost else ""
        console.note(f"no message for {counted(len(missing), 'key')}{among}: {named}")


def _next(
    store: Store, request: QueryRequest, *, explain: bool, has_structure: bool, lost: bool
) -> Iterator[str]:
    """Yield what else could be tried, each with its command line."""
    root = store.files.place.root
    if not has_structure and root is not None and root != store.files.place.path:
        yield f"query the whole store:\n  {command_line(store_paths=root)}"
    if has_structure and not explain:
        yield f"to see why:\n  {command_line('--explain')}"
    if lost:
        yield f"to look for it in a replica:\n  {command_line(store_paths='REPLICA')}"
    elif not request.scan and not request.collisions and request.offset is None:
        yield f"to walk the log itself:\n  {command_line('--scan')}"


_LARGEST_BYTES = 256 << 20
_SHOWN = 60


def read_keys(name: str, topic: str | None) -> tuple[KeyQuestion, ...]:
    """Read the keys of a file (``-``: standard input) in order, each once, of ``topic`` if it names none."""
    lines = [line.rstrip("\r") for line in _read(name).split("\n")]
    first = next((line for line in lines if line.strip()), "")
    questions = tuple(dict.fromkeys(_parsed(name, lines, topic, objects=_is_object(first))))
    if not questions:
        raise UsageError(f"{name}: holds no key")
    return questions


def _parsed(name: str, lines: list[str], topic: str | None, *, objects: bool) -> Iterator[KeyQuestion]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _of_object(line, topic) if objects else _of_line(line, topic)
            except ValueError as failure:
                raise UsageError(f"{name} line {number}: {failure}: {line[:_SHOWN]!r}") from failure


def _read(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(_LARGEST_BYTES)
        else:
            with Path(name).open("rb") as file:
                data = file.read(_LARGEST_BYTES)
    except OSError as failure:
        raise EnvironmentFailureError(f"{name}: cannot be read: {failure.strerror}") from failure
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        raise UsageError(f"{name}: is not UTF-8 text at byte {failure.start}") from failure


def _is_object(line: str) -> bool:
    """Whether a line is an object that names a key; a key may itself be JSON."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and bool({"key", "uniqueKey"} & value.keys())


def _of_line(line: str, topic: str | None) -> KeyQuestion:
    if topic is None:
        raise ValueError("a key alone needs --topic")
    return KeyQuestion(topic, line, either=True)


def _of_object(line: str, topic: str | None) -> KeyQuestion:
    try:
        value = json.loads(line)
    except RecursionError as failure:
        raise ValueError("nested too deeply") from failure
    if not isinstance(value, dict):
        raise ValueError("is not an object, unlike the first line")  # noqa: TRY004 - said of a line, not of a type
    unique = "uniqueKey" in value
    key, of_topic = value.get("uniqueKey" if unique else "key"), value.get("topic", topic)
    if not isinstance(key, str) or not isinstance(of_topic, str):
        raise ValueError('needs "topic" and "key" (or "uniqueKey"), both texts')  # noqa: TRY004 - as above
    return KeyQuestion(of_topic, key, unique, either=not unique)
