"""Consume queue units: the 20-byte unit, the batch unit (5.0.0+) and the unit of ``consumequeue_ext``.

Sources: ``ConsumeQueue#putMessagePositionInfo``, ``BatchConsumeQueue#putBatchMessagePositionInfo``,
``ConsumeQueueExt.CqExtUnit#write`` (4.9.8, 5.3.3).
"""

from __future__ import annotations

from typing import NamedTuple

from construct import Bytes, Const, Int16sb, Int32sb, Int64sb, Rebuild, Struct, len_, this

from rmqtool.formats.fields import Decoder, fixed_size

UNIT = Struct(
    "physicalOffset" / Int64sb * "offset; bytes in the log; where the record lies",
    "size" / Int32sb * "size; bytes; TOTALSIZE of the record",
    "tagsCode" / Int64sb * "tagsCode; -; hash of TAGS, deliver time in ms, or address of an ext unit",
)


class UnitFields(NamedTuple):
    """A unit of a consume queue."""

    physical_offset: int
    size: int
    tags_code: int


UNITS = Decoder(UNIT, UnitFields._make)
UNIT_SIZE = UNITS.size

PREBLANK_SIZE = 0x7FFFFFFF
"""SIZE of a pre-blank unit, ``(0, 0x7FFFFFFF, 0)``: fills the first file below the first offset."""
PREBLANK = UnitFields(0, PREBLANK_SIZE, 0)

BATCH_UNIT = Struct(
    "physicalOffset" / Int64sb * "offset; bytes in the log; where the record lies",
    "size" / Int32sb * "size; bytes; TOTALSIZE of the record",
    "tagsCode" / Int64sb * "tagsCode; -; hash of TAGS",
    "storeTimestamp" / Int64sb * "storeTime; ms; STORETIMESTAMP of the record",
    "msgBaseOffset" / Int64sb * "msgBaseOffset; units; queue offset of the batch's first message",
    "batchSize" / Int16sb * "batchSize; messages; how many the record holds",
    "compactedOffset" / Int32sb * "INVALID_POS; -; -1",
    "reserved" / Int32sb * "reserved; -; 0",
)


class BatchUnitFields(NamedTuple):
    """A unit of a batch consume queue."""

    physical_offset: int
    size: int
    tags_code: int
    store_timestamp_ms: int
    msg_base_offset: int
    batch_size: int
    compacted_offset: int
    reserved: int


BATCH_UNITS = Decoder(BATCH_UNIT, BatchUnitFields._make)
BATCH_UNIT_SIZE = BATCH_UNITS.size
BATCH_COMPACTED_OFFSET = -1

EXT_HEAD = Struct(
    "size" / Int16sb * "size; bytes; of this unit, 20 and the bit map",
    "tagsCode" / Int64sb * "tagsCode; -; hash of TAGS, or deliver time in ms",
    "storeTimestamp" / Int64sb * "msgStoreTime; ms; STORETIMESTAMP of the record",
    "bitMapSize" / Int16sb * "bitMapSize; bytes; 0 without SQL filters",
)


class ExtHead(NamedTuple):
    """A unit of an ext queue, without its bit map."""

    size: int
    tags_code: int
    store_timestamp_ms: int
    bit_map_size: int


EXT_HEADS = Decoder(EXT_HEAD, ExtHead._make)
EXT_HEAD_SIZE = EXT_HEADS.size

EXT_UNIT = Struct(
    "size"
    / Rebuild(Int16sb, EXT_HEAD_SIZE + len_(this.bitMap))
    * "size; bytes; of this unit, 20 and the bit map",
    *EXT_HEAD.subcons[1:3],
    "bitMapSize" / Rebuild(Int16sb, len_(this.bitMap)) * "bitMapSize; bytes; 0 without SQL filters",
    "bitMap" / Bytes(this.bitMapSize) * "filterBitMap; -; which SQL filters match",
)

EXT_END_SIZE = -1
"""SIZE in the place of a unit that the file has no room for."""
EXT_END = Struct("size" / Const(EXT_END_SIZE, Int16sb) * "size; -; -1: the next unit opens the next file")
EXT_SIZE_BYTES: int = fixed_size(EXT_END)
EXT_END_ROOM = 4
"""``ConsumeQueueExt.END_BLANK_DATA_LENGTH``: a unit must leave this many bytes of its file."""

EXT_ADDRESS_BASE = -(1 << 63)
"""An ext address is this and the unit's byte offset in the ext queue (``ConsumeQueueExt#decorate``)."""
EXT_ADDRESS_MAX = -(1 << 31) - 1
"""``ConsumeQueueExt#isExtAddr``: a tagsCode up to here is an address."""
