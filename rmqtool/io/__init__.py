"""BYTES. The one seam between this package and the storage that holds a store.

All reads of a store, listings, kinds and sizes included, go through a `Location`: a name in a `Source`. A
source lists a directory, returns the status of a name, and opens a file for ranged reads:
`LocalFiles`, the files of this machine, or `rmqtool.io.objects.ObjectFiles`, those of object stores and HDFS
by way of pyarrow, which is loaded when a URL is given. A new kind of source is a class with the methods of
`Source`, and nothing above changes: there, no file of a store is named by a `pathlib.Path` or read
by a descriptor (``tests/house/test_one_seam.py``).

Files that the package writes on this machine, and files that the user names beside the store, do not pass
here; objects of results do (`rmqtool.io.object_store`).
"""

from __future__ import annotations

from rmqtool.io.local import LocalFiles
from rmqtool.io.location import Location, is_glob, local_name, location_of, nothing_fits, places_of
from rmqtool.io.reading import ReadOnlyFile, UnreadableRange, sha256_of
from rmqtool.io.source import Entry, Handle, Kind, Source, Status

__all__ = [
    "Entry",
    "Handle",
    "Kind",
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
