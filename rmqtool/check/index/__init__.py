"""Checks of the index: each file's shape, and all of them as one stream against the log's entries."""

from __future__ import annotations
