"""Messages as a producer would send them again: lines of ``replay.ndjson``.

They lack what the broker or a client's library added on the first way: the new message gets its own. Messages
that no user sent are left out, and counted by the reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from rmqtool import rows
from rmqtool.formats.message import INNER_BATCH_FLAG
from rmqtool.javacompat import parse_long
from rmqtool.projection import shared_fields
from rmqtool.rows.bodies import BodyError, decompress
from rmqtool.salvage.making import LOST_PROPERTY
from rmqtool.topics import LMQ_PREFIX, TopicKind, kind_of

GROUP, DELIVER = "__SHARDINGKEY", ("TIMER_DELIVER_MS", "TIMER_OUT_MS", "__STARTDELIVERTIME")

_REFUSED = """
    TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC ORIGIN_GROUP REAL_TOPIC REAL_QID TRAN_MSG PGROUP
    MIN_OFFSET MAX_OFFSET BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME
    UNIQ_KEY MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME
    TRAN_PREPARED_QUEUE_OFFSET DUP_INFO EXTEND_UNIQ_INFO INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL
    ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC
    TIMER_DELIVER_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY
    TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32#
    _SYS_MSG_PRIORITY_ __LITE_TOPIC
"""
_WRITTEN = """
    INNER_MULTI_DISPATCH TIMER_ROLL_LABEL __SHARDINGKEY __transactionId__ TRANSACTION_CHECK_TIMES
    CHECK_IMMUNITY_TIME_IN_SECONDS INNER_NUM INNER_BASE TRANS_OFFSET __STARTDELIVERTIME TRACE_CONTEXT
    PROPERTY_FORWARD_QUEUE_ID REDIRECT
"""
SYSTEM_PROPERTIES = frozenset((_REFUSED + _WRITTEN).split())
"""Names that a proxy refuses for a user's property (``MessageConst#STRING_HASH_SET``, 5.5.1), and others
that brokers and clients write."""


@dataclass(frozen=True, slots=True)
class ReplayMessage:
    """A message to send again.

    Attributes:
        physical_offset: where it lay in the log.
        topic: that it was sent to.
        queue_id: the queue it lay in.
        queue_offset: its place there.
        message_group: of an ordered message; ``__SHARDINGKEY``.
        tags: its tag.
        keys: its keys.
        properties: what its sender added.
        uniq_key: the unique key that it had; the new message gets another.
        born_timestamp_ms: when it was sent.
        store_timestamp_ms: when it was stored.
        deliver_timestamp_ms: when it was to be delivered, of a delayed one.
        delay_level: the level of its delay, if it still has one.
        body: as sent, unpacked.
    """

    type: ClassVar = "replay"
    physical_offset: int
    topic: str
    queue_id: int
    queue_offset: int
    message_group: str | None
    tags: str | None
    keys: list[str]
    properties: dict[str, str]
    uniq_key: str | None
    born_timestamp_ms: int
    store_timestamp_ms: int
    deliver_timestamp_ms: int | None
    delay_level: int | None
    body: bytes


LEFT_OUT = {
    "damaged": "damaged records",
    "broker": "messages of the broker's own topics, such as delayed ones that wait and half messages",
    "transaction": "messages of transactions that were not committed",
    "lost": "tombstones of lost messages",
    "packed": "messages whose bodies cannot be unpacked",
}
"""Kinds of messages that are left out, by the reason."""


class Replayed:
    """Turns rows into lines, and counts the messages left out by the reasons of ``LEFT_OUT``."""

    def __init__(self) -> None:
        self.lines = 0
        self.left_out: Counter[str] = Counter()

    def of(self, row: rows.Row) -> ReplayMessage | None:
        """Return the line of a row with its body as stored; None for one that has none.

        The messages of an inner batch come as rows of their own.
        """
        if not isinstance(row, rows.Message | rows.InnerMessage):
            return None
        if isinstance(row, rows.Message) and row.sys_flag & INNER_BATCH_FLAG and not row.damage:
            return None
        reason = _reason(row)
        if reason is not None:
            self.left_out[reason] += 1
            return None
        try:
            body = decompress(row.body, row.sys_flag) if isinstance(row, rows.Message) else row.body
        except BodyError:
            self.left_out["packed"] += 1
            return None
        self.lines += 1
        return _message(row, body)

    def sentences(self) -> list[str]:
        """Return how many were left out, as sentences."""
        return [f"left out: {count:,} {LEFT_OUT[reason]}" for reason, count in sorted(self.left_out.items())]


def _reason(row: rows.Message | rows.InnerMessage) -> str | None:
    if isinstance(row, rows.Message) and row.damage:
        return "damaged"
    if kind_of(row.topic) is TopicKind.BROKER or row.topic.startswith(LMQ_PREFIX):
        return "broker"
    if isinstance(row, rows.Message) and row.transaction_type in {"prepared", "rollback"}:
        return "transaction"
    return "lost" if LOST_PROPERTY in row.properties else None


def _message(row: rows.Message | rows.InnerMessage, body: bytes) -> ReplayMessage:
    had = row.properties
    deliver = next((had[name] for name in DELIVER if name in had), None)
    own = {
        "message_group": had.get(GROUP),
        "properties": {name: value for name, value in had.items() if name not in SYSTEM_PROPERTIES},
        "deliver_timestamp_ms": None if deliver is None else parse_long(deliver),
        "delay_level": parse_long(had["DELAY"]) if "DELAY" in had else None,
        "body": body,
    }
    return ReplayMessage(**shared_fields(row, ReplayMessage) | own)
