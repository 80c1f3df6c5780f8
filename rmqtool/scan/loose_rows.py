"""What a search through raw bytes says of a record: one row each, never an object."""

from __future__ import annotations

from enum import IntFlag

import numpy as np

from rmqtool.formats import message

SECTOR_BYTES = 512
"""What a disk overwrites as a whole, or not at all."""

DLEDGER_BYTES = 48
"""The head of an entry of DLedger, which stands before each of its records."""

LOOK_BYTES = DLEDGER_BYTES + message.HEAD_OFFSETS[0]["physicalOffset"] + 8
"""What is looked at after a record: whether the next one says that it lies there."""


class Found(IntFlag):
    """What is known of a record found somewhere."""

    FRAME = 1  # its lengths do not add up, or the image ends before it does
    BODY = 2  # the body is not what BODYCRC says
    SIGNATURE = 4  # the record is not what its property __CRC32# says
    SIGNED = 8  # it is what its property __CRC32# says
    TEXT = 16  # topic or properties are no text, or these are no list of properties
    CHAINED = 32  # after it stands the record that says to lie there, or a BLANK
    ENDS = 64  # after it stand zeros, or the image ends
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
