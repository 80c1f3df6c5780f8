"""Request and report of a replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rmqtool import options
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


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
