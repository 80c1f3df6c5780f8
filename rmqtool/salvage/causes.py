"""Why a true record is not given back."""

from __future__ import annotations

from enum import IntEnum


class Cause(IntEnum):
    """Why a true record is not given back."""

    NONE = 0
    BODY = 1  # its body is not what its checksum says
    STALE = 2  # older bytes behind a rewritten tail, or of another life of the file
    FIELDS = 3  # what it says of its queue is contradicted
    CHOICE = 4  # the user's choice: topic, time or offset
    ROOM = 5  # it leaves no room for what must stand beside it
    PROPERTIES = 6  # its properties are torn, or its own __CRC32# fails though the body holds


DAMAGED_CAUSES = (Cause.BODY, Cause.PROPERTIES)
