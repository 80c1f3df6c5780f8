"""ROWS that commands yield: one class for each ``type`` of the ndjson objects, and rows of records.

A field has its name in JSON, in snake case, with ``_ms`` where the number is milliseconds. None is an absent
value. ``file`` is a path relative to the store, ``position`` bytes from its start.

Here are the rows of a log, ``derived`` has the others; ``messages`` makes rows from a walk over the log, and
filters them; ``log_splits`` reads a large log by kernels, on all cores, and makes rows of the rest;
``bodies`` unpacks bodies, ``meanings`` explains the broker's own messages. ``report`` decides how rows look.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from rmqtool.findings import Finding, FindingCode, Severity, Structure
from rmqtool.projection import shared_fields

__all__ = [
    "BatchUnit",
    "Blank",
    "Chain",
    "Checkpoint",
    "Columns",
    "ConfigEntry",
    "Damage",
    "EntryUnit",
    "ExtUnit",
    "FieldBytes",
    "IndexHeader",
    "InnerMessage",
    "Item",
    "LayoutField",
    "Lines",
    "Message",
    "Preblank",
    "Row",
    "Slot",
    "Unit",
]

if TYPE_CHECKING:
    from rmqtool.rows.derived import (
        BatchUnit,
        Chain,
        Checkpoint,
        Columns,
        ConfigEntry,
        EntryUnit,
        ExtUnit,
        FieldBytes,
        IndexHeader,
        Item,
        LayoutField,
        OtherRow,
        Preblank,
        Slot,
        Unit,
    )
else:

    def __getattr__(name: str) -> object:
        """Load the rows of other files on first use (`rmqtool.rows.derived` says why)."""
        if name not in __all__:
            raise AttributeError(f"module 'rmqtool.rows' has no attribute {name!r}")
        derived = import_module("rmqtool.rows.derived")
        row_class = _OF_A_LOG | derived.OtherRow if name == "Row" else getattr(derived, name)
        globals()[name] = row_class
        return row_class


@dataclass(frozen=True, slots=True)
class Message:
    """A record of the commit log; hosts are ``ip:port`` or ``[ip6]:port``, the body as stored.

    ``explanation`` is the meaning of a message of the broker's own: `rmqtool.rows.meanings`;
    ``damage`` has the codes of the record's findings.
    """

    type: ClassVar = "message"
    file: str
    position: int
    physical_offset: int
    total_size: int
    magic: str
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    sys_flag: int
    transaction_type: str
    born_timestamp_ms: int
    born_host: str
    store_timestamp_ms: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    topic: str
    body_length: int
    body: bytes
    properties: dict[str, str]
    tags: str | None
    keys: list[str]
    uniq_key: str | None
    tags_code: int
    msg_id: str
    explanation: dict[str, object] | None
    damage: list[str]


@dataclass(frozen=True, slots=True)
class InnerMessage:
    """A message of an inner batch, number ``index`` of the record at ``physical_offset``.

    ``batch_position`` is bytes from the start of the batch, decompressed; fields that the message does not
    have are the record's, as for a client.
    """

    type: ClassVar = "inner-message"
    file: str
    position: int
    physical_offset: int
    index: int
    batch_position: int
    total_size: int
    queue_id: int
    flag: int
    queue_offset: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: str
    store_timestamp_ms: int
    store_host: str
    topic: str
    body_length: int
    body: bytes
    properties: dict[str, str]
    tags: str | None
    keys: list[str]
    uniq_key: str | None
    tags_code: int
    msg_id: str


@dataclass(frozen=True, slots=True)
class Blank:
    """The record that closes a full file of the log."""

    type: ClassVar = "blank"
    file: str
    position: int
    physical_offset: int
    total_size: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Something wrong at one place; ``structure`` is the part of the store that it counts for.

    ``severity_override`` is a severity other than the code's usual one.
    """

    type: ClassVar = "damage"
    file: str
    position: int | None
    physical_offset: int | None
    length: int | None
    code: FindingCode
    message: str
    structure: Structure
    severity_override: Severity | None = None

    @property
    def severity(self) -> Severity:
        """Return how bad it is."""
        return self.severity_override or self.code.severity

    def finding(self) -> Finding:
        """Return it as a finding, which decides the exit status."""
        return Finding(**shared_fields(self, Finding), structure_override=self.structure)


@dataclass(frozen=True, slots=True)
class Lines:
    """Rows of messages that are ndjson already, complete lines in UTF-8."""

    type: ClassVar = "lines"
    data: bytes

    @property
    def text(self) -> str:
        """Return the lines as text."""
        return self.data.decode()


_OF_A_LOG = Message | InnerMessage | Lines | Blank | Damage

if TYPE_CHECKING:
    Row = _OF_A_LOG | OtherRow
