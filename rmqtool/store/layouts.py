"""Layouts of a log and of queues, and the deeds that each allows: one table, one refusal for each deed.

A layout that becomes readable for one deed stays refused for the others, until its row names them.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from rmqtool.findings import Structure


class Deed(Enum):
    """Something that a command does with a store; the value ends the refusal, after the layout's name."""

    READ_LOG = ": the log there is not read, and there is no other to {purpose}"
    READ_QUEUES = ": its queues are not read"
    READ_LIGHT_QUEUES = ": its light queues are not read"
    COMPARE = ", so nothing was compared with the log"
    PREDICT = "; a start of such a store is not predicted"
    REBUILD = (
        ": that part of the log is not read, and a result without it would hide its messages; leave queues"
        " and index as they are"
    )
    INSTALL = ", which is not rebuilt"
    SALVAGE = (
        ": a salvage does not read that part of the log, and a result would hide its messages; to salvage"
        " commitlog/ alone, copy it into a directory of its own"
    )
    CONVERT = ", which convert does not take"


class Layout(NamedTuple):
    """Deeds that a command can do beside it; ``unread`` is the part that counts as not read, if one does.

    With ``is_shown``, commands that show a store's content show this part's, too.
    """

    can: frozenset[Deed]
    unread: Structure | None = None
    is_shown: bool = False


_OF_FILES = frozenset({Deed.READ_LOG, Deed.COMPARE, Deed.REBUILD, Deed.SALVAGE})
_QUEUES = frozenset({Deed.READ_QUEUES, Deed.READ_LIGHT_QUEUES})

DLEDGER_LOG = Layout(frozenset(Deed), is_shown=True)
UNREAD_DLEDGER_LOG = Layout(_QUEUES, Structure.UNREAD_LOG)
LOG_ON_OTHER_PATHS = Layout(_QUEUES, Structure.UNREAD_LOG)
QUEUES_IN_ROCKSDB = Layout(_OF_FILES, Structure.UNREAD)
LIGHT_QUEUES_IN_ROCKSDB = Layout(_OF_FILES | {Deed.READ_QUEUES}, Structure.UNREAD)
QUEUES_TWICE = Layout(_OF_FILES | _QUEUES | {Deed.CONVERT})
"""Queues in files, and in a database that a broker keeps beside them and that no file replaces."""
BESIDE = Layout(frozenset(Deed))
"""Parts that leave log and queues as they are: timers, compaction, settings in a database."""

DATABASES_OF_QUEUES = frozenset({QUEUES_IN_ROCKSDB, LIGHT_QUEUES_IN_ROCKSDB, QUEUES_TWICE})
