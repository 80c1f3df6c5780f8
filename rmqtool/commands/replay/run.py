"""Replay of a file of messages, without those in the ledger."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.commands.replay.ledger import Ledger, read_ledger
from rmqtool.commands.replay.model import RefusedMessage, ReplayReport, ReplayRequest, TopicReplay
from rmqtool.commands.replay.sender import ProxySender, RefusedMessageError, Sender, address_of, problem_of
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.rows.replay import ReplayMessage
from rmqtool.topics import TopicKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rmqtool.progress import Progress


class Line(NamedTuple):
    """A message and the number of its line, from 1."""

    number: int
    message: ReplayMessage

    @property
    def key(self) -> str:
        """Return its key in the ledger: unique key and place."""
        one = self.message
        return f"{one.uniq_key or ''}@{one.physical_offset}/{one.topic}/{one.queue_id}/{one.queue_offset}"


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the messages of a file.

    Raises:
        EnvironmentFailureError: It cannot be read.
        UsageError: A line is not a message.
    """
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                if text.strip():
                    yield Line(number, _message(path, number, text))
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be read: {failure.strerror}") from failure


def _message(path: Path, number: int, text: bytes) -> ReplayMessage:
    try:
        found: dict[str, Any] = json.loads(text)
        return ReplayMessage(
            physical_offset=int(found["physicalOffset"]),
            topic=_topic(found),
            queue_id=int(found["queueId"]),
            queue_offset=int(found["queueOffset"]),
            message_group=found["messageGroup"],
            tags=found["tags"],
            keys=[str(one) for one in found["keys"]],
            properties={str(name): str(value) for name, value in found["properties"].items()},
            uniq_key=found["uniqKey"],
            born_timestamp_ms=int(found["bornTimestamp"]),
            store_timestamp_ms=int(found["storeTimestamp"]),
            deliver_timestamp_ms=found["deliverTimestamp"],
            delay_level=found["delayLevel"],
            body=base64.b64decode(found["body"], validate=True),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as failure:
        raise UsageError(
            f"{path}: line {number} is not a message to send ({failure}): make the file with dump --format"
            " replay, or with salvage --replay"
        ) from failure


def _topic(found: dict[str, Any]) -> str:
    if found["type"] != ReplayMessage.type or found["bodyEncoding"] != "base64":
        raise ValueError("it is of another type")
    return str(found["topic"])


_REFUSED_SHOWN = 100
_LEFT_OUT = {
    TopicKind.RETRY: "retry topics",
    TopicKind.DEAD_LETTER: "dead-letter topics",
    TopicKind.BROKER: "broker topics",
}


@dataclass
class _Account:
    lines: int = 0
    sent: int = 0
    already: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    refused: list[RefusedMessage] = field(default_factory=list)
    more_refused: int = 0

    def refuse(self, line: Line, target: str, reason: str) -> None:
        if len(self.refused) == _REFUSED_SHOWN:
            self.more_refused += 1
        else:
            self.refused.append(RefusedMessage(line.number, target, line.message.uniq_key, reason))


def replay(
    request: ReplayRequest,
    progress: Progress,
    open_sender: Callable[[ReplayRequest], Sender] = lambda request: ProxySender(
        request.proxy, tls=request.tls
    ),
) -> ReplayReport:
    """Send messages again, or report which would be sent; ``open_sender`` returns their receiver.

    Raises:
        UsageError: A line of the file is not a message, or the proxy's name is not one.
        RefusedError: The ledger is of another replay, or another one is at work with it.
        EnvironmentFailureError: The file cannot be read, the ledger cannot be written, a topic does not
            exist, or the cluster does not answer; sent messages are in the ledger.
    """
    address_of(request.proxy)  # a wrong address fails before anything is read
    keys = read_ledger(request.ledger, request.proxy, request.topic_map)
    account = _Account()
    for line in read_lines(request.path):
        target = _target(request, line, account)
        if target is not None:
            _count(account, line, target, keys)
    topics = {topic: request.topic_map.get(topic, topic) for topic in sorted(account.messages)}
    if not request.send or not topics:
        return _report(request, account, topics, {})
    types = _send_all(request, topics, account, progress, open_sender)
    return _report(request, account, topics, types)


def _target(request: ReplayRequest, line: Line, account: _Account | None) -> str | None:
    """Return the topic that a message goes to; None if it is left out, which is counted."""
    topic = line.message.topic
    if account is not None:
        account.lines += 1
    reason = None
    if request.topics and not any(fnmatchcase(topic, glob) for glob in request.topics):
        reason = "other topics"
    elif topic not in request.topic_map:
        reason = _LEFT_OUT.get(kind_of(topic))
    if reason is not None and account is not None:
        account.left_out[reason] += 1
    return request.topic_map.get(topic, topic) if reason is None else None


def _count(account: _Account, line: Line, target: str, keys: set[str]) -> None:
    if line.key in keys:
        account.already += 1
        return
    problem = problem_of(line.message, target)
    if problem is not None:
        account.refuse(line, target, problem)
        return
    account.messages[line.message.topic] += 1
    account.bytes[line.message.topic] += len(line.message.body)


def _send_all(
    request: ReplayRequest,
    topics: dict[str, str],
    account: _Account,
    progress: Progress,
    open_sender: Callable[[ReplayRequest], Sender],
) -> dict[str, frozenset[str]]:
    """Send the messages that the first reading found sendable; return the types that the targets take."""
    sender = open_sender(request)
    try:
        types = {one: _checked(sender, one) for one in sorted({*topics.values()})}
        for name in (one for one, taken in types.items() if "FIFO" not in taken):
            progress.note(
                f"topic {name} takes no ordered messages: those of one queue are stored one after the other,"
                " in any of its queues; one created with message.type=FIFO keeps them in one"
            )
        with Ledger(request.ledger, request.proxy, request.topic_map) as ledger:
            progress.stage("messages", account.bytes.total())
            pace, done = _Pace(request.rate), 0
            for line in read_lines(request.path):
                target = _target(request, line, None)
                if target is None or line.key in ledger.keys or problem_of(line.message, target):
                    continue
                pace.wait()
                _send(line, target, types[target], sender, ledger, account)
                done += len(line.message.body)
                progress.advance(done)
    except EnvironmentFailureError as failure:
        raise EnvironmentFailureError(
            f"{failure}; {account.sent:,} were sent before; the same command goes on from {request.ledger}"
        ) from failure
    finally:
        sender.close()
    return types


def _checked(sender: Sender, target: str) -> frozenset[str]:
    types = sender.types_of(target)
    if not types & {"NORMAL", "FIFO"}:
        raise EnvironmentFailureError(
            f"topic {target}: takes {', '.join(sorted(types)) or 'no'} messages only; send to one of NORMAL"
            " or FIFO messages with --topic-map"
        )
    return types


def _send(
    line: Line, target: str, types: frozenset[str], sender: Sender, ledger: Ledger, account: _Account
) -> None:
    message = line.message
    group = (message.message_group or f"queue-{message.queue_id}") if "FIFO" in types else None
    try:
        message_id = sender.send(message, target, group)
    except RefusedMessageError as refusal:
        account.refuse(line, target, str(refusal))
        return
    ledger.add(line.key, target, message_id)
    account.sent += 1


class _Pace:
    """Limit of so many a second, with no burst after a pause."""

    def __init__(self, rate: float) -> None:
        self._period_s = 1 / rate
        self._next = time.monotonic()

    def wait(self) -> None:
        now = time.monotonic()
        if self._next > now:
            time.sleep(self._next - now)
        self._next = max(now, self._next) + self._period_s


def _report(
    request: ReplayRequest, account: _Account, topics: dict[str, str], types: dict[str, frozenset[str]]
) -> ReplayReport:
    return ReplayReport(
        file=str(request.path),
        proxy=request.proxy,
        dry_run=not request.send,
        ledger=str(request.ledger),
        lines=account.lines,
        sent=account.sent,
        already=account.already,
        left_out=dict(sorted(account.left_out.items())),
        topics=tuple(
            TopicReplay(
                topic,
                target,
                account.messages[topic],
                account.bytes[topic],
                "FIFO" in types[target] if target in types else None,
            )
            for topic, target in topics.items()
        ),
        refused=tuple(account.refused),
        more_refused=account.more_refused,
    )
