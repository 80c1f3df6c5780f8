"""Rows of the files beside the log, of ``dump --hex`` and ``--layout``, and messages as columns.

They are loaded on first use: a look-up shows messages only, and defining these classes takes longer than its
search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Buffer, Int32s, Int64s


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of a consume queue."""

    type: ClassVar = "unit"
    file: str
    position: int
    topic: str | None
    queue_id: int | None
    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int


@dataclass(frozen=True, slots=True)
class Preblank(Unit):
    """A unit that fills the first file of a queue below its first offset."""

    type: ClassVar = "preblank"


@dataclass(frozen=True, slots=True)
class BatchUnit:
    """A unit of a batch consume queue."""

    type: ClassVar = "batch-unit"
    file: str
    position: int
    topic: str | None
    queue_id: int | None
    physical_offset: int
    size: int
    tags_code: int
    store_timestamp_ms: int
    msg_base_offset: int
    batch_size: int
    compacted_offset: int


@dataclass(frozen=True, slots=True)
class ExtUnit:
    """A unit of ``consumequeue_ext``; consume queue units hold its ``address`` as tags code."""

    type: ClassVar = "ext-unit"
    file: str
    position: int
    topic: str | None
    queue_id: int | None
    address: int
    size: int
    tags_code: int
    store_timestamp_ms: int
    bit_map: bytes


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """The header of an index file."""

    type: ClassVar = "index-header"
    file: str
    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_phy_offset: int
    end_phy_offset: int
    hash_slot_count: int
    index_count: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of an index file that is in use."""

    type: ClassVar = "slot"
    file: str
    slot: int
    item: int


@dataclass(frozen=True, slots=True)
class Chain:
    """The items that a slot leads to, newest first; ``ends`` says how the chain ends."""

    type: ClassVar = "chain"
    file: str
    slot: int
    items: list[int]
    ends: str


@dataclass(frozen=True, slots=True)
class Item:
    """An item of an index file; ``time_diff`` in seconds; no slot for an illegal hash."""

    type: ClassVar = "item"
    file: str
    item: int
    slot: int | None
    key_hash: int
    physical_offset: int
    time_diff: int
    previous: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint."""

    type: ClassVar = "checkpoint"
    physic_msg_timestamp_ms: int
    logics_msg_timestamp_ms: int
    index_msg_timestamp_ms: int
    master_flushed_offset: int
    confirm_phy_offset: int
    logics_physical_offset: int


@dataclass(frozen=True, slots=True)
class EntryUnit:
    """A unit of the index of DLedger's entries; ``pos`` is the address of the entry, not of its message."""

    type: ClassVar = "entry-unit"
    file: str
    position: int
    magic: int
    pos: int
    size: int
    index: int
    term: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One member of a table in a JSON file of the broker; no table for a member of the document itself.

    Of the Java properties of a member of DLedger, each is one.
    """

    type: ClassVar = "config-entry"
    file: str
    table: str | None
    name: str | None
    value: object


@dataclass(frozen=True, slots=True)
class FieldBytes:
    """One field of the row before, with its bytes, for ``dump --hex``; no value where it is bytes only.

    ``offset`` counts from the row's first byte; ``size`` is that of the field where ``raw`` is cut short.
    """

    type: ClassVar = "bytes"
    file: str
    position: int
    name: str
    java_name: str
    raw: bytes
    value: int | str | None
    offset: int
    size: int
    unit: str


@dataclass(frozen=True, slots=True)
class LayoutField:
    """One field of a format, for ``dump --layout``; no offset after a field of variable length."""

    type: ClassVar = "field"
    structure: str
    name: str
    java_name: str
    offset: int | None
    size: int | None
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Columns:
    """Messages of one file as columns, laid out as in Arrow; `rmqtool.kernels.columns` names the rows.

    Attributes:
        file: The file of all of them.
        count: Number of rows.
        longs: ``(Long, n)`` int64.
        numbers: ``(Number, n)`` int32.
        texts: By ``Text``, uint8.
        stops: ``(Text, p + 1)`` int32, where texts end in their row of ``texts``.
        list_stops: ``(2, n + 1)`` int32, after how many keys and properties those of a message end.
        words: By ``Word``, the values of the numbers of words, as stored.
        damage: Codes of findings by number of the message.
        remarks: Sentences about steps that failed.
    """

    type: ClassVar = "columns"
    file: str
    count: int
    longs: Int64s
    numbers: Int32s
    texts: Sequence[Buffer]
    stops: Int32s
    list_stops: Int32s
    words: tuple[tuple[bytes, ...], ...]
    damage: dict[int, list[str]]
    remarks: tuple[str, ...]


OtherRow = (
    Columns
    | Unit
    | BatchUnit
    | ExtUnit
    | IndexHeader
    | Slot
    | Chain
    | Item
    | Checkpoint
    | EntryUnit
    | ConfigEntry
    | FieldBytes
    | LayoutField
)
"""Rows that are not those of a log."""
