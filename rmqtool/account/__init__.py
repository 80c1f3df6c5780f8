"""ACCOUNT: the messages that a store has lost, and the proof of each loss, as data and words.

``survey`` reads a log: the queue offsets of its records, and bytes that hold no record. Where that shows
damage, it takes the records that ``rmqtool.genuine`` bears out. ``proofs`` has those beside units.
``lost`` finds the messages that the records of a queue leave out, reports them and adds them up;
``log_losses`` does so for a whole store. Every command that counts lost messages counts them by these.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rmqtool.derived.index_files import index_headers
from rmqtool.derived.queues import queues_of
from rmqtool.errors import EnvironmentFailureError, RmqtoolError
from rmqtool.findings import Finding, Severity, codes, counted
from rmqtool.store.kinds import UNIT_QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.scan.record_walk import LogEnd
    from rmqtool.store import Store
    from rmqtool.store.files import StoreFiles


class AccountError(RmqtoolError):
    """Bytes or messages do not add up: a defect of ours; nothing is published."""


class QueueLosses(NamedTuple):
    """Messages of one queue that a store's log has lost, by their proof.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        first_queue_offset: of the first message that is there or proven.
        end_queue_offset: after the last one.
        there: messages whose records the log has.
        listed: lost messages that a unit leads to, or led to.
        unlisted: lost messages that are known by the queue offsets before and after them.
        consumed: lost messages beyond the log's end that a consumer has read, by its offset.
    """

    topic: str
    queue_id: int
    first_queue_offset: int
    end_queue_offset: int
    there: int
    listed: int
    unlisted: int
    consumed: int

    @property
    def messages(self) -> int:
        """Return how many are lost."""
        return self.listed + self.unlisted + self.consumed


class MessageStates(NamedTuple):
    """All messages of a log, each in one state; of those that are there, a record counts once.

    Attributes:
        there: records that the log has, and keeps.
        unconfirmed: records that it has after the confirm offset of controller mode: replicas may lack them.
        cut: records that it has and that the next start cuts off; None where no start was predicted.
        damaged: messages of whose record something is left: bytes lie where their unit leads to, or a record
            that is not as stored.
        readable: of the damaged, those of such records: they are not lost.
        gone: lost messages of which the log has nothing.
        open: lost messages beyond the log's end, if units alone lead there: a truncation leaves such, too.
        before: messages before the log's first byte to which units or index items still lead: expired, or
            removed with their file, which nothing in the store decides; they are not among the lost.
    """

    there: int
    unconfirmed: int
    cut: int | None
    damaged: int
    gone: int
    open: int
    before: int = 0
    readable: int = 0

    @property
    def lost(self) -> int:
        """Return how many the log has lost."""
        return self.damaged - self.readable + self.gone + self.open

    def predicted(self, cut: int, damaged: int = 0, readable: int = 0) -> MessageStates:
        """Return the same where the next start cuts off some of those that are there.

        ``damaged`` are those records among them that are not as stored, and ``readable`` their messages.
        """
        return self._replace(
            there=self.there - cut + damaged,
            cut=cut,
            damaged=self.damaged - readable,
            readable=self.readable - readable,
        )


class LogLosses(NamedTuple):
    """Messages that a log has lost: something proves them, and it has no record of them.

    Attributes:
        messages: how many.
        listed: those that units prove.
        unlisted: those that are known by the queue offsets before and after them.
        consumed: those that consumers have read, by their offsets, and that nothing else names.
        indexed: those of an unknown queue, to whose places index items alone lead.
        beyond: of all these, those beyond the last record: the log was longer once.
        beyond_bytes: from that record's end to that of the last of them; None where nothing measured it.
        queues: those with lost messages, by topic and queue id.
        states: these and all others, by state; None where the log was not read for that.
        before: messages before the log's first byte, as in ``states``; they are not among the lost.
    """

    messages: int
    listed: int
    unlisted: int
    consumed: int
    indexed: int
    beyond: int
    beyond_bytes: int | None
    queues: tuple[QueueLosses, ...]
    states: MessageStates | None = None
    before: int = 0

    @property
    def undecided(self) -> int:
        """Return how many only units beyond the log's end name: a truncation leaves such, too."""
        return 0 if self.states is None else self.states.open

    def by_topic(self) -> dict[str, int]:
        """Return how many are lost of each topic; of those that only the index knows, none is."""
        topics = Counter[str]()
        for queue in self.queues:
            topics[queue.topic] += queue.messages
        return dict(topics)

    def check(self) -> None:
        """Prove that the account adds up, by witness, by queue, by topic and by state."""
        by_witness = self.listed + self.unlisted + self.consumed + self.indexed
        by_topic = sum(self.by_topic().values()) + self.indexed
        if not self.messages == by_witness == by_topic or self.beyond > self.messages:
            raise AccountError(
                f"{self.messages} lost messages are {by_witness} by witness, {by_topic} by topic"
            )
        states = self.states
        if states is not None and (states.lost != self.messages or min(states.there, states.gone) < 0):
            raise AccountError(f"{self.messages} lost messages are {states.lost} by state: {states}")
        if states is not None and (states.before != self.before or self.before < 0):
            raise AccountError(f"{self.before} messages before the log are {states.before} by state")
        for queue in self.queues:
            if not 0 < queue.messages <= queue.end_queue_offset - queue.first_queue_offset:
                raise AccountError(f"more messages are lost than the queue has had: {queue}")


NO_LOSSES = LogLosses(0, 0, 0, 0, 0, 0, None, ())


def lost_words(messages: int, undecided: int = 0) -> str:
    """Return how many messages the log has lost, in the words of every command.

    Args:
        messages: all of them.
        undecided: of these, those that only units beyond the log's end name.
    """
    lost = f"{counted(messages - undecided, 'message is', 'messages are', spec=',')} lost from the log"
    may_be = f"{counted(undecided, 'message', spec=',')} may be lost: only units point past the log's end"
    if not undecided:
        return lost
    return may_be if undecided == messages else f"{lost}, and {may_be}"


def losses_words(losses: LogLosses | None) -> str:
    """Return how many messages of a log are lost, and how many are there and damaged; empty without any."""
    if losses is None:
        return ""
    said = [lost_words(losses.messages, losses.undecided)] if losses.messages else []
    readable = 0 if losses.states is None else losses.states.readable
    said += (
        [f"{counted(readable, 'message is', 'messages are', spec=',')} there but damaged"] if readable else []
    )
    return " and ".join(said)


class CountsBefore(Protocol):
    """Structure that counts the messages before a log's first byte."""

    @property
    def before(self) -> int | None:
        """Return how many; None if they are not counted."""


def before_words(losses: CountsBefore | None) -> str:
    """Return how many messages lie before the log's first byte, as the end of a sentence; empty if none."""
    if losses is None or not losses.before:
        return ""
    messages = counted(losses.before, "message", spec=",")
    return f", queues or index list {messages} before the log's first byte"


def is_borne_out(store: StoreFiles, end: int, latest_ms: int | None) -> bool:
    """Return whether index or checkpoint, too, know of messages beyond a log: then it has lost its end.

    Units alone may be left from a truncation, and unreadable data proves nothing. ``end`` is the physical
    offset after the log's last record, ``latest_ms`` the highest store time of its records, if known.
    """
    with suppress(EnvironmentFailureError):
        if any(header.end_phy_offset >= end for header in index_headers(store.index_files)):
            return True
    from rmqtool.derived.positions import read_checkpoint  # few logs have no index

    with suppress(EnvironmentFailureError):
        checkpoint = None if latest_ms is None else read_checkpoint(store.checkpoint, [])
        if checkpoint is not None and latest_ms is not None:
            return max(checkpoint.physic_msg_timestamp_ms, checkpoint.logics_msg_timestamp_ms) > latest_ms
    return False


def is_end_borne_out(store: StoreFiles, end: LogEnd) -> bool:
    """Return the same by the last record alone, where the log was not read."""
    return is_borne_out(store, end.end, end.last_ms)


def lists_beyond(
    store: Store, log_start: int, log_end: int, ends: Mapping[tuple[str, int], int] | None = None
) -> bool:
    """Return whether units lead beyond a log, by the ends of the queues.

    ``ends`` is where the log's records end queues, if known; those that do end there list no more.
    """
    for kind in UNIT_QUEUE_KINDS:
        for queue in queues_of(store, kind):
            end = (ends or {}).get((queue.topic or "", queue.queue_id or 0))
            is_known = end is not None and queue.ends_by(end)
            if not is_known and queue.messages_from(max(log_start, log_end)):
                return True
            queue.close()
    return False


def indexes_beyond(store: Store, log_end: int) -> bool:
    """Return whether the index knows of messages beyond a log, by the headers of its files."""
    headers = index_headers(store.index_files)
    return any(header.end_phy_offset >= log_end and header.index_count > 1 for header in headers)


def cut_finding(losses: LogLosses, end: int, *, sure: bool) -> Finding:
    """Return that a log was longer once; ``sure``: neither a kill nor a truncation explains its ``end``."""
    messages = counted(losses.beyond, "message", spec=",")
    witnesses = {losses.indexed: "the index still lists", losses.consumed: "consumers have read"}
    witness = witnesses.get(losses.beyond, "the queues still list")
    return Finding(
        code=codes.CL_LOST,
        physical_offset=end,
        length=losses.beyond_bytes,
        expected=losses.beyond,
        observed=0,
        message=f"{witness} {messages} past the log's end, {end}",
        severity_override=None if sure else Severity.WARNING,
    )
