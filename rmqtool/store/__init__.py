"""Files and settings of a store, and the only code that writes store files.

Files are read through `rmqtool.io` and examined before they are opened. Each setting says whether it was
given, inferred from files, or is the broker's default (`Settings`). `staging` writes files, `object_staging`
those in object storage. Nothing here imports numpy: look-ups must start within milliseconds.
"""

from __future__ import annotations

from rmqtool.store.broker_conf import Origin, Setting
from rmqtool.store.files import QueueFiles
from rmqtool.store.kinds import PathKind
from rmqtool.store.names import component_problem, safe_component
from rmqtool.store.root import Store, open_store
from rmqtool.store.segments import FileGap, FileQueue, Segment, StoreFile, Stray
from rmqtool.store.settings import Settings

__all__ = [
    "FileGap",
    "FileQueue",
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
