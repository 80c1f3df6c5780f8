"""PLACES. Where a store keeps its files, with which settings, and how they are read and written.

All that is read comes through `rmqtool.io`, and every entry of a directory is examined before it is opened
(`Store`, `FileQueue`, `Segment`, `StoreFile`). A setting is given, inferred from the files, or the broker's
default, and always says which (`Settings`). ``lock`` finds a running broker without disturbing it.
``staging`` is the only place in the house that writes store files, with ``object_staging`` for those in
object storage; ``layout`` turns what is wrong with names, sizes and places into findings.

Nothing here needs numpy: a look-up must answer within milliseconds of its start.
"""

from __future__ import annotations

from rmqtool.store.files import QueueFiles
from rmqtool.store.kinds import PathKind
from rmqtool.store.names import component_problem, safe_component
from rmqtool.store.root import Store, open_store
from rmqtool.store.segments import FileQueue, Gap, Segment, StoreFile, Stray
from rmqtool.store.setting import Origin, Setting
from rmqtool.store.settings import Settings

__all__ = [
    "FileQueue",
    "Gap",
    "Origin",
    "PathKind",
    "QueueFiles",
    "Segment",
    "Setting",
    "Settings",
    "Store",
    "StoreFile",
    "Stray",
    "component_problem",
    "open_store",
    "safe_component",
]
