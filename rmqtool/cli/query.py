"""``rmqtool query``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rmqtool import rows
from rmqtool.cli.bodies import BodyChoice, body_options
from rmqtool.cli.completers import complete_queue, complete_topic
from rmqtool.cli.help import Command
from rmqtool.cli.key_file import read_keys
from rmqtool.cli.options import A_PATH, AN_OFFSET, shared_options, time_options
from rmqtool.cli.session import Session
from rmqtool.cli.times import parse_optional_time
from rmqtool.commands.query import Explanation, Query, QueryRequest
from rmqtool.errors import EnvironmentFailureError, ExitStatus, UsageError
from rmqtool.findings import FailOn
from rmqtool.findings.wording import counted
from rmqtool.report.sinks import open_sink

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.commands.query import KeyQuestion
    from rmqtool.report.console import Console
    from rmqtool.report.sinks import Sink
    from rmqtool.store import Store

_SCHEMA = "rmqtool.query/1"
_NAMED = 5
_QUESTIONS = {
    "key": "--key",
    "unique_key": "--unique-key",
    "tag": "--tag",
    "keys_file": "--keys-file",
    "msg_id": "--msg-id",
    "offset": "--offset",
    "queue_offset": "--queue-offset",
}
_WITHOUT_TOPIC = {"--msg-id", "--offset", "--keys-file"}
_OF_ONE_PLACE = {"--offset", "--queue-offset"}


_EXAMPLES = """\
# the messages of a key
rmqtool query $STORE -t TopicTest -k order-1
# why is it not found
rmqtool query $STORE -t Orders -k order-1 --explain
# the messages of a tag
rmqtool query $STORE -t TopicTest --tag TagA
# the message at a physical offset
rmqtool query $STORE --offset 334
# five messages from a queue offset on
rmqtool query $STORE -t TopicTest --queue 0 --queue-offset 3 -m 5
# by time, when the index cannot be trusted
rmqtool query $STORE -t Orders -b 2020-01-01 -e now --scan
# many keys at once
seq 0 9 | sed s/^/order-/ | rmqtool query $STORE -t TopicTest --keys-file -
"""


@click.command("query", cls=Command, examples=_EXAMPLES)
@click.argument("store_path", type=A_PATH, metavar="STORE")
@click.option("-t", "--topic", metavar="T", shell_complete=complete_topic, help="The stored topic.")
@click.option("-k", "--key", metavar="K", help="Messages of the topic with this key.")
@click.option("--unique-key", metavar="U", help="Messages of the topic with this unique key.")
@click.option("--tag", metavar="TAG", help="Messages of the topic with this tag, all of TAGS.")
@click.option(
    "--keys-file",
    type=click.Path(path_type=str),
    metavar="FILE",
    help='Many keys in one pass, "-" reads standard input: one a line, or {"topic", "key"} objects.',
)
@click.option("-i", "--msg-id", metavar="ID", help="The message of an offset id or a unique id.")
@click.option("--offset", type=AN_OFFSET, metavar="PHY", help="The message at a physical offset.")
@click.option(
    "--queue", "queue_id", type=int, metavar="Q", shell_complete=complete_queue, help="A queue of the topic."
)
@click.option("--queue-offset", type=AN_OFFSET, metavar="N", help="The message at a queue offset.")
@time_options
@click.option(
    "-m",
    "--max",
    "max_messages",
    type=AN_OFFSET,
    metavar="N",
    help="At most so many messages, of each key; 0 for all; default: the broker's 64, with --queue-offset 1.",
)
@click.option("--scan", is_flag=True, help="Walk the log instead of trusting index or queues.")
@click.option("--collisions", is_flag=True, help="Also hash hits of other keys: the broker's own answer.")
@click.option("--explain", is_flag=True, help="Tell every step, and why something was not found.")
@body_options
@shared_options("text", "json", "ndjson", "csv")
def query_command(
    store_path: Path,
    explain: bool,
    **options: Any,  # noqa: ANN401 - what click makes of the other options
) -> ExitStatus:
    """Find messages by key, tag, id, offset or time.

    \b
      --topic T --key K                        by one of the keys
      --topic T --unique-key U                 by the client's unique key
      --topic T --tag TAG                      by tag
      --topic T --keys-file FILE               by many keys
      --msg-id ID                              by offset id or unique id
      --offset PHY                             by physical offset
      --topic T --queue Q --queue-offset N     by queue offset
      --topic T [--queue Q] --begin … --end …  by store time

    Every message is read and compared before it is shown. Standard error says which structure answered; with
    --explain, every step to it (with --format json the document holds the steps, too).
    """  # noqa: D301 - click's mark of lines that stay as they are
    session = Session(options)
    _check_company(options)
    store = session.open_store(store_path)
    _check_log(store)
    request = _request(session, options, store.settings.max_msgs_num_batch)
    session.note_broker(store)
    session.note_settings(store)
    bodies, explanation = BodyChoice.of(options), Explanation(wanted=explain)
    query = Query(store, request, session.console, explanation)
    with session.output(store) as stream:
        sink = open_sink(
            session.format,
            stream,
            schema=_SCHEMA,
            body=bodies.mode,
            unpacked=bodies.unpack,
            zone=session.zone,
            keyed=request.keys is not None,
            warn=session.console.warn,
        )
        answered = _write(query, sink, bodies, session.console)
        status = _status(query, session.fail_on, found=bool(answered))
        if answered or explain:
            sink.finish(
                status, {"explain": [step.to_json() for step in explanation.steps]} if explain else None
            )
    _tell(session.console, query, explanation)
    if request.keys is not None:
        _tell_missing(session.console, [one for one in request.keys if one not in answered])
    if not answered:
        asked = f"{_question(options)} in {store.place.path}{_advice(request, explain=explain)}"
        _tell_nothing(session.console, query, explanation, asked)
    return status


def _write(query: Query, sink: Sink, bodies: BodyChoice, console: Console) -> dict[KeyQuestion | None, None]:
    """Write the answers; return the questions that have one."""
    answered: dict[KeyQuestion | None, None] = {}
    for message, question in query.answers():
        for row in bodies.applied([message], console):
            if isinstance(row, rows.Damage):
                query.findings.add(row.finding())
            sink.add(row, None if question is None else question.key)
        answered[question] = None
    return answered


def _status(query: Query, fail_on: FailOn, *, found: bool) -> ExitStatus:
    if query.unanswered is not None:
        return ExitStatus.FAILED
    status = query.findings.exit_status(fail_on)
    if found or status is not ExitStatus.CLEAN or fail_on is FailOn.NEVER:
        return status
    return ExitStatus.NEGATIVE


def _tell(console: Console, query: Query, explanation: Explanation) -> None:
    for step in explanation.steps if explanation.wanted else ():
        console.note(f"explain: {step.message}")
    for reason, count in explanation.left_out.items():
        console.note(f"explain: {count} more of the kind {reason.value}")
    if query.unanswered is not None:
        console.error(query.unanswered)


def _tell_nothing(console: Console, query: Query, explanation: Explanation, asked: str) -> None:
    for sentence in () if explanation.wanted else explanation.advice:
        console.note(f"hint: {sentence}")
    if query.unanswered is None:
        console.error(f"no message {asked}")


def _tell_missing(console: Console, missing: list[KeyQuestion]) -> None:
    if missing:
        named = ", ".join(one.key for one in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        console.note(f"no message for {counted(len(missing), 'key')}: {named}{more}")


def _advice(request: QueryRequest, *, explain: bool) -> str:
    """Say what else could be tried."""
    ways = [] if explain else ["--explain tells why"]
    if not request.scan and request.offset is None:
        ways.append("--scan walks the log itself")
    return f"; {', '.join(ways)}" if ways else ""


def _check_log(store: Store) -> None:
    if not len(store.commitlog):
        raise EnvironmentFailureError(
            f"{store.place.path}: no commit log there to read messages from; give the store root"
        )


def _request(session: Session, options: dict[str, Any], broker_max: int) -> QueryRequest:
    wanted = options["max_messages"]
    if wanted is None:
        wanted = 1 if options["queue_offset"] is not None else broker_max
    keys = None if options["keys_file"] is None else read_keys(options["keys_file"], options["topic"])
    return QueryRequest(
        topic=options["topic"],
        key=options["key"],
        unique_key=options["unique_key"],
        tag=options["tag"],
        keys=keys,
        msg_id=options["msg_id"],
        offset=options["offset"],
        queue_id=options["queue_id"],
        queue_offset=options["queue_offset"],
        begin_ms=parse_optional_time(options["begin"], session.zone),
        end_ms=parse_optional_time(options["end"], session.zone),
        max_messages=wanted or None,
        scan=options["scan"],
        collisions=options["collisions"],
    )


def _check_company(options: dict[str, Any]) -> None:
    """Check that there is one question, with the options that it needs, and none that it cannot use."""
    questions = [option for name, option in _QUESTIONS.items() if options[name] is not None]
    if len(questions) > 1:
        raise UsageError(f"{' and '.join(questions)} are {len(questions)} questions; ask one at a time")
    asked = questions[0] if questions else None
    has_time = options["begin"] is not None or options["end"] is not None
    if asked is None and not has_time:
        words = ", ".join(list(_QUESTIONS.values()))
        raise UsageError(f"ask for something: {words} or --begin")
    if options["topic"] is None and asked not in _WITHOUT_TOPIC:
        raise UsageError(f"{asked or '--begin'} needs --topic")
    if asked == "--queue-offset" and options["queue_id"] is None:
        raise UsageError("--queue-offset needs --queue")
    if options["queue_id"] is not None and asked not in {"--queue-offset", None}:
        raise UsageError(f"--queue says nothing with {asked}")
    if has_time and asked in _OF_ONE_PLACE:
        raise UsageError(f"--begin and --end say nothing with {asked}")
    if options["collisions"] and (asked not in {"--key", "--unique-key", "--tag"} or options["scan"]):
        raise UsageError("--collisions needs --key, --unique-key or --tag, and the index")


def _question(options: dict[str, Any]) -> str:
    words = {"topic": "--topic", "queue_id": "--queue", **_QUESTIONS, "begin": "--begin", "end": "--end"}
    asked = [f"{word} {options[name]}" for name, word in words.items() if options[name] is not None]
    return f"for {' '.join(asked)}"


COMMANDS = {"query": query_command}
