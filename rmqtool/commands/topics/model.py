"""Options of ``topics`` and its report: a row for each topic, and the parts of the log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rmqtool import options
from rmqtool.topics import TopicKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.account.model import LogLosses
    from rmqtool.findings import Findings
    from rmqtool.store import Store


class TopicOrder(StrEnum):
    """Values of ``--sort``: numbers from the greatest down, ``oldest`` and ``name`` from the least up."""

    BYTES = "bytes"
    MESSAGES = "messages"
    NEWEST = "newest"
    OLDEST = "oldest"
    RATE = "rate"
    LARGEST = "largest"
    BACKLOG = "backlog"
    NAME = "name"


class Lag(NamedTuple):
    """Distance of a reader from the end of one queue, in units."""

    topic: str
    queue_id: int
    reader: str
    units: int


@dataclass(frozen=True)
class TopicsRequest:
    """What to add up.

    Attributes:
        store: The evidence.
        lags: Of all readers, for the backlog.
        max_findings: Findings of one code that are kept; the rest is counted.
        split_bytes: What one core reads at a time.
    """

    store: Store
    topics: tuple[str, ...] = options.names(
        "Only these topics, such as '%RETRY%*'; repeatable.", name="topic", flags=("-t", "--topic")
    )
    kinds: frozenset[TopicKind] = options.words(
        TopicKind,
        "Only topics of users, of retries, of dead letters, or of the broker itself; repeatable.",
        name="kind",
    )
    by_queue: bool = options.flag("Print a row for each queue instead of each topic.", name="queues")
    order: TopicOrder = options.word(
        TopicOrder,
        TopicOrder.BYTES,
        "Order of the rows: greatest first; oldest and name: least first.",
        name="sort",
    )
    top: int | None = options.number("At most so many rows; default: all.", flags=("-n", "--top"), least=1)
    lags: Iterable[Lag] = ()
    max_findings: int = 100
    split_bytes: int = 64 << 20

    def admits(self, topic: str) -> bool:
        """Whether a topic is asked for."""
        named = not self.topics or any(fnmatchcase(topic, glob) for glob in self.topics)
        return named and (not self.kinds or kind_of(topic) in self.kinds)


@dataclass(frozen=True, slots=True)
class TopicTotals:
    """The records of one topic, or of one of its queues, that lie in the log.

    Attributes:
        topic: as stored.
        kind: whose it is: see `rmqtool.topics.TopicKind`.
        queue_id: of the queue; None for a whole topic.
        queues: how many queues the records are of.
        messages: records; an inner batch is one.
        bytes: their size in the log.
        share: of the bytes of all records, 0 to 1.
        oldest: least store time, ISO 8601 in UTC.
        newest: greatest store time, likewise.
        oldest_timestamp_ms: the least in epoch milliseconds.
        newest_timestamp_ms: the greatest, likewise.
        messages_per_second: over the span between these two; None where that is nothing.
        largest_bytes: size of the largest record.
        largest_physical_offset: where that lies in the log.
        lost: messages that the log has lost.
        backlog: units that the slowest reader has before it; None where nobody reads.
        slowest_reader: ``group G``, ``delay level N`` or ``timer``.
    """

    type: ClassVar = "topic"
    topic: str
    kind: TopicKind
    queue_id: int | None
    queues: int
    messages: int
    bytes: int
    share: float
    oldest: str
    newest: str
    oldest_timestamp_ms: int
    newest_timestamp_ms: int
    messages_per_second: float | None
    largest_bytes: int
    largest_physical_offset: int
    lost: int = 0
    backlog: int | None = None
    slowest_reader: str | None = None


@dataclass(frozen=True, slots=True)
class LogParts:
    """What the bytes of the log's files are; the parts add up to the files.

    Attributes:
        size_bytes: of all files.
        messages: records.
        message_bytes: their size.
        blank_bytes: BLANK records, each to the end of its file.
        zero_bytes: zeros after the last record of the log.
        stale_bytes: other bytes after it that are no damage, as brokers that write whole pages leave them.
        damaged_bytes: all other bytes in which no record can be followed.
    """

    size_bytes: int
    messages: int
    message_bytes: int
    blank_bytes: int
    zero_bytes: int
    stale_bytes: int
    damaged_bytes: int


@dataclass(frozen=True, slots=True)
class TopicsReport:
    """The topics of a log.

    Attributes:
        store: path of what was read.
        log: what its bytes are.
        rows: topics, or queues, in the order that was requested; iteration yields them.
        topics: how many topics fit the filters, shown or not.
        more: how many rows fit the filters and are not shown.
        findings: what is wrong with the log, as far as its framing tells.
        log_losses: messages that the log has lost, of all topics, where something points to that; else None.
    """

    schema: ClassVar = "rmqtool.topics/1"
    store: str
    log: LogParts
    rows: tuple[TopicTotals, ...]
    topics: int
    more: int
    findings: Findings
    log_losses: LogLosses | None = None

    @property
    def truncated(self) -> bool:
        """Whether there are more rows than these."""
        return self.more > 0

    def __iter__(self) -> Iterator[TopicTotals]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)
