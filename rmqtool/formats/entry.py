"""Entries of DLedger's log, and units of their index (dledger 0.2.3 to 0.3.3.4)."""

from __future__ import annotations

from typing import NamedTuple

from construct import Int32sb, Int64sb, Struct

from rmqtool.formats.fields import Decoder

ENTRY = Struct(
    "magic" / Int32sb * "magic; -; 1, of an entry with a body",
    "size" / Int32sb * "size; bytes; of the whole entry",
    "index" / Int64sb * "index; entries; number of the entry, one more than that of the entry before",
    "term" / Int64sb * "term; -; in which its leader was elected; it never falls",
    "pos" / Int64sb * "pos; bytes in the log; the entry's own address",
    "channel" / Int32sb * "channel; -; reserved, 0",
    "chainCrc" / Int32sb * "chainCrc; -; not filled, 0",
    "bodyCrc" / Int32sb * "bodyCrc; -; not filled, 0",
    "bodyLength" / Int32sb * "body length; bytes; of the message that follows",
)
"""Header of an entry, which precedes its message (``DLedgerEntryCoder#encode``)."""


class Entry(NamedTuple):
    """Header of an entry."""

    magic: int
    size: int
    index: int  # type: ignore[assignment]  # of a tuple
    term: int
    pos: int
    channel: int
    chain_crc: int
    body_crc: int
    body_length: int


ENTRIES = Decoder(ENTRY, Entry._make)

ENTRY_MAGIC = 1
ENTRY_END_MAGIC = -1
ENTRY_END = Struct(
    "magic" / Int32sb * "magic; -; -1",
    "size" / Int32sb * "size; bytes; what was left of the file",
)
"""End mark of a full file, zeros after it (``MmapFileList#preAppend``)."""

ENTRY_UNIT = Struct(
    "magic" / Int32sb * "magic; -; that of the entry",
    "pos" / Int64sb * "pos; bytes in the log; the entry's address",
    "size" / Int32sb * "size; bytes; of the whole entry",
    "index" / Int64sb * "index; entries; number of the entry, and of this unit",
    "term" / Int64sb * "term; -; that of the entry",
)
"""Unit of ``dledger-ID/index/`` (``DLedgerEntryCoder#encodeIndex``)."""


class EntryUnit(NamedTuple):
    """Unit of the index of entries."""

    magic: int
    pos: int
    size: int
    index: int  # type: ignore[assignment]  # of a tuple
    term: int


ENTRY_UNITS = Decoder(ENTRY_UNIT, EntryUnit._make)
