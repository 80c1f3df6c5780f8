"""BYTES. The one seam between the house and whatever holds a store.

Everything that is read of a store, its listings, kinds and sizes included, goes through a `Location`: a name
in a `Source`. A source lists a directory, says what a name stands for, and opens a file for ranged reads:
`LocalFiles`, the files of this machine, or `rmqtool.io.objects.ObjectFiles`, those of object stores and HDFS
by way of pyarrow, which is loaded when a URL is given. A new kind of source is a class with the methods of
`Source`, and nothing above this room changes: there, no file of a store is named by a `pathlib.Path` or read
by a descriptor (``tests/house/test_one_seam.py``).

What we write on this machine, and what the user names beside the store, is no concern of this room; whole
objects of results are written here (`rmqtool.io.object_writes`), as whoever reads them knows how to ask.
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
