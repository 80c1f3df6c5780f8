"""A skeleton of a store for bug reports: every structure at its place, and nothing of what was sent.

`disguise` makes names of names, `records` records of records; one module for each kind of file; `run` walks
the store. Every replacement is a function of a key that lives as long as the run, and of the bytes replaced:
what was equal stays equal, and checksums and hashes fit where they fitted.
"""

from __future__ import annotations

from rmqtool.commands.metadump.run import Skeleton, make_skeleton

__all__ = ["Skeleton", "make_skeleton"]
