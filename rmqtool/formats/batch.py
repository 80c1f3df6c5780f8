"""What the body of an inner batch holds (5.x, topics of queue type BatchCQ): messages as clients encode them.

Sources: ``MessageDecoder#encodeMessage``, ``MessageDecoder#decodeMessage`` (5.3.3).

::

    Body => InnerMessage …
    InnerMessage => TOTALSIZE MAGICCODE BODYCRC FLAG BODYLENGTH BODY PROPERTIESLENGTH PROPERTIES

The sender leaves MAGICCODE and BODYCRC 0. The reader skips the first three fields and relies on the two
lengths; brokers count the messages of a batch by TOTALSIZE (``MessageDecoder#countInnerMsgNum``).
"""

from __future__ import annotations

import struct

from construct import Bytes, Int16sb, Int32sb, Rebuild, Struct, len_, this

from rmqtool.formats.fields import fixed_size, struct_of

INNER_BATCH_FLAG = 0x80
"""Bit of SYSFLAG: the body is a batch (``MessageSysFlag.INNER_BATCH_FLAG``, 4.9.4+, 5.0.0+)."""

_HEAD = (
    "totalSize" / Int32sb * "TOTALSIZE; bytes; length of the whole inner message",
    "magic" / Int32sb * "MAGICCODE; -; 0",
    "bodyCrc" / Int32sb * "BODYCRC; -; 0",
    "flag" / Int32sb * "FLAG; -; the user's own",
)

INNER_HEAD = Struct(*_HEAD, "bodyLength" / Int32sb * "BODY length; bytes; -")
"""Everything before the body."""

INNER_MESSAGE = Struct(
    *_HEAD,
    "bodyLength" / Rebuild(Int32sb, len_(this.body)) * "BODY length; bytes; -",
    "body" / Bytes(this.bodyLength) * "BODY; bytes; as the application sent it",
    "propertiesLength" / Rebuild(Int16sb, len_(this.properties)) * "PROPERTIES length; bytes; -",
    "properties" / Bytes(this.propertiesLength) * "PROPERTIES; UTF-8; name 0x01 value 0x02 …",
)

INNER_HEAD_SIZE: int = fixed_size(INNER_HEAD)
INNER_HEAD_STRUCT: struct.Struct = struct_of(INNER_HEAD)
INNER_PROPERTIES_LENGTH: struct.Struct = struct.Struct(">h")
