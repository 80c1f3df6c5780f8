"""Rows of records that a search through raw bytes found, one each."""

from __future__ import annotations

from enum import IntFlag

import numpy as np

from rmqtool.formats import message

SECTOR_BYTES = 512
"""A disk overwrites so many bytes as a whole, or none of them."""

DLEDGER_BYTES = 48
"""The head of an entry of DLedger, which stands before each of its records."""

LOOK_BYTES = DLEDGER_BYTES + message.HEAD_OFFSETS[0]["physicalOffset"] + 8
"""Bytes read after a record, to see whether the next one names that place."""


class Found(IntFlag):
    """Marks of a record found somewhere."""

    FRAME = 1  # the lengths do not add up, or the image ends before it does
    BODY = 2  # the body does not match BODYCRC
    SIGNATURE = 4  # the record does not match its property __CRC32#
    SIGNED = 8  # it matches its property __CRC32#
    TEXT = 16  # topic or properties are not text, or the latter not a list
    CHAINED = 32  # a record that names this place follows, or a BLANK
    ENDS = 64  # zeros follow, or the image ends
    CROSSES = 128  # topic and properties, which no checksum protects, lie in more than one sector


FOUND_ROW = np.dtype(
    [
        ("position", np.int64),  # bytes from the image's start
        ("log_offset", np.int64),  # PHYSICALOFFSET
        ("store_timestamp_ms", np.int64),
        ("host", np.int64),  # STOREHOST as a number
        ("total_size", np.int32),
        ("blank", np.int32),  # TOTALSIZE of the BLANK after it, 0 if there is none
        ("crc", np.uint32),  # CRC-32 of the whole record; 0 where its lengths do not add up
        ("marks", np.uint16),  # Found
        ("image", np.uint16),  # number of the image
    ],
    align=True,
)
