"""Reasons to leave out a record, and replacements of lost messages."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Holes(StrEnum):
    """Values of ``--holes``: what takes the place of lost messages."""

    TOMBSTONE = "tombstone"  # a message that says so, at the lost one's queue offset
    REPEAT = "repeat"  # nothing in the log; the queue's unit repeats the one before it
    FILLER = "filler"  # nothing: queue offsets after them shift
    CUT = "cut"  # the log ends at the first of them


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
