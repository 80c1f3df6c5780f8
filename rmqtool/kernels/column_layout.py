"""Layout of the arrays that the kernels of columns fill."""

from __future__ import annotations

from enum import IntEnum


class Long(IntEnum):
    """Columns of int64: rows of their matrix."""

    POSITION = 0
    PHYSICAL_OFFSET = 1
    QUEUE_OFFSET = 2
    BORN_TIMESTAMP = 3
    STORE_TIMESTAMP = 4
    PREPARED_OFFSET = 5
    TAGS_CODE = 6


class Number(IntEnum):
    """Columns of int32; a word stands as its number."""

    TOTAL_SIZE = 0
    BODY_CRC = 1
    QUEUE_ID = 2
    FLAG = 3
    SYS_FLAG = 4
    RECONSUME_TIMES = 5
    BODY_LENGTH = 6
    MAGIC = 7  # 1 is V2
    TOPIC = 8  # this and the next two: a word, by its number
    BORN_HOST = 9
    STORE_HOST = 10


class Text(IntEnum):
    """Texts that follow each other in one array, one per row, or one per key or property."""

    BODY = 0
    TAGS = 1  # empty where there are none, as the unique key
    UNIQ_KEY = 2
    MSG_ID = 3
    KEY = 4
    NAME = 5
    VALUE = 6


class Word(IntEnum):
    """Columns with few values, each of which is kept once."""

    TOPIC = 0
    BORN_HOST = 1  # as stored: address and port
    STORE_HOST = 2


class Take(IntEnum):
    """Columns that can be left out; any other costs next to nothing and is always written."""

    TOPIC = 0
    BORN_HOST = 1
    STORE_HOST = 2
    TAGS_CODE = 3
    BODY = 4
    TAGS = 5
    UNIQ_KEY = 6
    MSG_ID = 7
    KEYS = 8
    PROPERTIES = 9


class ColumnCount(IntEnum):
    """Places in the array of counts so far."""

    ROWS = 0
    KEYS = 1
    PROPERTIES = 2
    WORDS = 3  # and the next two, by `Word`


class Stopped(IntEnum):
    """Reasons why no more messages were taken."""

    DONE = 0
    FULL = 1
    ODD = 2  # the message at hand is for plain Python
