"""REPLAY: messages sent again, to a cluster of 5.x brokers through its proxy.

The order of a file is kept: each message is sent when the one before is stored. A sent message is in the
ledger before the next is sent; a crash between the two sends one message twice, and so may a time-out of the
network: *at least once*.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rmqtool import options
from rmqtool.commands.replay.sender import ProxySender, RefusedMessageError, address_of, problem_of
from rmqtool.errors import EnvironmentFailureError, ExitStatus, RefusedError, UsageError, writing
from rmqtool.findings import FailOn
from rmqtool.rows.replay import ReplayMessage
from rmqtool.topics import TopicKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rmqtool.progress import Progress

_SCHEMA = "rmqtool.replay-ledger/1"
_MODE = 0o644  # minus umask


def read_ledger(path: Path, proxy: str, topic_map: Mapping[str, str]) -> set[str]:
    """Return the keys of the sent messages; none if the ledger does not exist."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return set()
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be read: {failure.strerror}") from failure
    return _keys(path, data, proxy, topic_map)


def _keys(path: Path, data: bytes, proxy: str, topic_map: Mapping[str, str]) -> set[str]:
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    if not lines:
        return set()
    try:
        head, *sent = map(json.loads, lines)
        keys = {str(one["key"]) for one in sent}
        was = head["schema"], head["proxy"], head["topicMap"]
    except (ValueError, KeyError, TypeError, RecursionError) as failure:
        raise RefusedError(
            f"{path}: is not a ledger of a replay; pass another file with --ledger"
        ) from failure
    if was != (_SCHEMA, proxy, dict(topic_map)):
        raise RefusedError(
            f"{path}: is of a replay to {was[1]} with the topics {was[2]}; give the same again, or another"
            " file with --ledger"
        )
    return keys


class Ledger:
    """A ledger open for writing, by this replay alone. A line torn by a crash is cut off.

    Raises:
        RefusedError: Another replay is at work on it, or it is of another one.
        EnvironmentFailureError: It cannot be written.
    """

    def __init__(self, path: Path, proxy: str, topic_map: Mapping[str, str]) -> None:
        self._path = path
        with writing(self._path), ExitStack() as opened:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _MODE)
            opened.callback(self.close)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as failure:
                raise RefusedError(f"{path}: another replay is at work with this ledger") from failure
            data = path.read_bytes()
            self.keys = _keys(path, data, proxy, topic_map)
            os.ftruncate(self._descriptor, data.rfind(b"\n") + 1)
            if b"\n" not in data:
                self._write({"schema": _SCHEMA, "proxy": proxy, "topicMap": dict(topic_map)})
            opened.pop_all()

    def add(self, key: str, topic: str, message_id: str) -> None:
        """Record for good that a message was sent."""
        with writing(self._path):
            self._write({"key": key, "topic": topic, "messageId": message_id})
        self.keys.add(key)

    def close(self) -> None:
        """Release the ledger for others."""
        os.close(self._descriptor)

    def _write(self, line: dict[str, Any]) -> None:
        data = memoryview(json.dumps(line).encode() + b"\n")
        while data:
            data = data[os.write(self._descriptor, data) :]
        os.fsync(self._descriptor)


@dataclass(frozen=True)
class ReplayRequest:
    """A request to send the messages of a file again; ``topic_map`` has the new topics by the old."""

    path: Path
    proxy: str
    ledger: Path
    send: bool = options.flag("Send; without it, only show what would be sent.")
    topics: tuple[str, ...] = options.names(
        "Only these topics; repeatable.", name="topic", flags=("-t", "--topic")
    )
    topic_map: Mapping[str, str] = field(default_factory=dict)
    rate: float = 100.0
    tls: bool = options.flag("Encrypt the connection.")


@dataclass(slots=True)
class TopicReplay:
    """The messages that go to one topic.

    Attributes:
        topic: of the messages.
        target: where they go.
        messages: how many, without those in the ledger.
        bytes: of their bodies.
        ordered: whether the target takes ordered messages, so that it keeps the order of each queue; null if
            the cluster was not contacted.
    """

    topic: str
    target: str
    messages: int = 0
    bytes: int = 0
    ordered: bool | None = None


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message that was not taken.

    Attributes:
        line: of the file, from 1.
        topic: where it should go.
        uniq_key: the unique key that it had.
        reason: in the words of the client or the cluster.
    """

    line: int
    topic: str
    uniq_key: str | None
    reason: str


@dataclass(slots=True)
class ReplayReport:
    """The outcome.

    Attributes:
        file: of messages.
        proxy: of the cluster.
        dry_run: whether nothing was sent.
        ledger: path of it.
        lines: messages in the file.
        sent: how many were sent.
        already: how many were in the ledger before.
        left_out: how many are not to be sent, by the reason.
        topics: the messages by topic and target.
        refused: messages that were not taken, the first hundred.
        more_refused: how many more.
    """

    schema: ClassVar = "rmqtool.replay/1"
    file: str
    proxy: str
    dry_run: bool
    ledger: str
    lines: int = 0
    sent: int = 0
    already: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    topics: list[TopicReplay] = field(default_factory=list)
    refused: list[RefusedMessage] = field(default_factory=list)
    more_refused: int = 0

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return 1 if a message was refused, else 0."""
        failed = self.refused and FailOn(fail_on) is not FailOn.NEVER
        return ExitStatus.NEGATIVE if failed else ExitStatus.CLEAN


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
    """Yield the messages of a file."""
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


def replay(request: ReplayRequest, progress: Progress) -> ReplayReport:
    """Send messages again, or report which would be sent."""
    address_of(request.proxy)  # a wrong address fails before anything is read
    keys = read_ledger(request.ledger, request.proxy, request.topic_map)
    report = ReplayReport(str(request.path), request.proxy, not request.send, str(request.ledger))
    topics: dict[str, TopicReplay] = {}
    left_out: Counter[str] = Counter()
    for line in read_lines(request.path):
        report.lines += 1
        topic = line.message.topic
        reason = _left_out(request, topic)
        target = request.topic_map.get(topic, topic)
        if reason is not None:
            left_out[reason] += 1
        elif line.key in keys:
            report.already += 1
        elif (problem := problem_of(line.message, target)) is not None:
            _refuse(report, line, target, problem)
        else:
            found = topics.setdefault(topic, TopicReplay(topic, target))
            found.messages += 1
            found.bytes += len(line.message.body)
    report.left_out = dict(sorted(left_out.items()))
    report.topics = [topics[topic] for topic in sorted(topics)]
    if request.send and topics:
        _send_all(request, report, progress)
    return report


def _left_out(request: ReplayRequest, topic: str) -> str | None:
    """Return why messages of a topic are not sent; None if they are."""
    if request.topics and not any(fnmatchcase(topic, glob) for glob in request.topics):
        return "other topics"
    return None if topic in request.topic_map else _LEFT_OUT.get(kind_of(topic))


def _refuse(report: ReplayReport, line: Line, target: str, reason: str) -> None:
    if len(report.refused) == _REFUSED_SHOWN:
        report.more_refused += 1
    else:
        report.refused.append(RefusedMessage(line.number, target, line.message.uniq_key, reason))


def _send_all(request: ReplayRequest, report: ReplayReport, progress: Progress) -> None:
    """Send the messages that the first reading found sendable."""
    sender = ProxySender(request.proxy, tls=request.tls)
    try:
        types = {one: _checked(sender, one) for one in sorted({one.target for one in report.topics})}
        for one in report.topics:
            one.ordered = "FIFO" in types[one.target]
        for name in (one for one, taken in types.items() if "FIFO" not in taken):
            progress.note(
                f"topic {name} takes no ordered messages: those of one queue are stored one after the other,"
                " in any of its queues; one created with message.type=FIFO keeps them in one"
            )
        with closing(Ledger(request.ledger, request.proxy, request.topic_map)) as ledger:
            progress.stage("messages", sum(one.bytes for one in report.topics))
            pace, done = _Pace(request.rate), 0
            for line in read_lines(request.path):
                message = line.message
                target = request.topic_map.get(message.topic, message.topic)
                is_left_out = _left_out(request, message.topic) or line.key in ledger.keys
                if is_left_out or problem_of(message, target):
                    continue
                pace.wait()
                _send(line, target, types[target], sender, ledger, report)
                done += len(message.body)
                progress.advance(done)
    except EnvironmentFailureError as failure:
        raise EnvironmentFailureError(
            f"{failure}; {report.sent:,} were sent before; the same command goes on from {request.ledger}"
        ) from failure
    finally:
        sender.close()


def _checked(sender: ProxySender, target: str) -> frozenset[str]:
    types = sender.types_of(target)
    if not types & {"NORMAL", "FIFO"}:
        raise EnvironmentFailureError(
            f"topic {target}: takes {', '.join(sorted(types)) or 'no'} messages only; send to one of NORMAL"
            " or FIFO messages with --topic-map"
        )
    return types


def _send(
    line: Line, target: str, types: frozenset[str], sender: ProxySender, ledger: Ledger, report: ReplayReport
) -> None:
    message = line.message
    group = (message.message_group or f"queue-{message.queue_id}") if "FIFO" in types else None
    try:
        message_id = sender.send(message, target, group)
    except RefusedMessageError as refusal:
        _refuse(report, line, target, str(refusal))
        return
    ledger.add(line.key, target, message_id)
    report.sent += 1


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
