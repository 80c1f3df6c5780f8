"""LIBRARY. What ``import rmqtool`` offers: stores that are opened, asked and compared from Python.

``opening`` leads from a path to a store: ``opened`` is what it is, ``reads`` and ``store`` what can be asked
of it, ``queue`` and ``index`` its derived files, ``results`` what comes row by row. ``arguments``,
``engines``, ``reading`` and ``asking`` turn what callers write into what ``commands`` take.

Nothing is printed, no signal is caught, and nothing of the process is changed. Everything may be used by
several threads at once but for what comes row by row: each such iterator belongs to one thread.
"""

from __future__ import annotations
