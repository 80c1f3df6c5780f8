"""Readers of the files that are made from the log: index files, and the bounds of queues."""

from __future__ import annotations
