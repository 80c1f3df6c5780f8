"""Access to the storage that holds a store: every listing, status and read goes through a `Location`.

That is a name in a `Source`: `LocalFiles`, or `rmqtool.io.objects.ObjectFiles`, by way of pyarrow, which only
a URL loads. Both raise `EnvironmentFailureError` (without permission `DeniedError`), remote ones also
`SourceFailureError`. No other package opens a store's file by path or descriptor
(``tests/house/test_one_seam.py``). Local outputs, and files beside the store, do not pass here; objects of
results do (`rmqtool.io.object_store`).
"""

from __future__ import annotations

from rmqtool.io.local import LocalFiles
from rmqtool.io.location import (
    Location,
    ReadOnlyFile,
    UnreadableRange,
    is_glob,
    local_name,
    location_of,
    nothing_fits,
    places_of,
    sha256_of,
)
from rmqtool.io.source import DirectoryEntry, FileKind, Handle, Source, Status

__all__ = [
    "DirectoryEntry",
    "FileKind",
    "Handle",
    "LocalFiles",
    "Location",
    "ReadOnlyFile",
    "Source",
    "Status",
    "UnreadableRange",
    "is_glob",
    "local_name",
    "location_of",
    "nothing_fits",
    "places_of",
    "sha256_of",
]
