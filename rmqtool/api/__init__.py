"""LIBRARY. What ``import rmqtool`` offers: stores that are opened, asked and compared from Python.

``opening`` leads from a path to a store: ``opened`` is what it is, ``reads`` and ``store`` what can be asked
of it, ``queue`` and ``index`` its derived files, ``results`` what comes row by row. ``arguments``,
``reading`` and ``asking`` turn what callers write into what ``commands`` take.

Nothing is printed, no signal is caught, and nothing of the process is changed. Everything may be used by
several threads at once but for what comes row by row: each such iterator belongs to one thread.
"""

from __future__ import annotations

from rmqtool.api.arguments import open_engine
from rmqtool.api.index import Index
from rmqtool.api.opening import decode_id, open
from rmqtool.api.queue import Queue
from rmqtool.api.results import Answer, Differences, Rows
from rmqtool.api.store import Store

__all__ = [
    "Answer",
    "Differences",
    "Index",
    "Queue",
    "Rows",
    "Store",
    "decode_id",
    "open",
    "open_engine",
]
