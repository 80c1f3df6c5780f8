"""LIBRARY. Objects of ``import rmqtool``: stores, opened and compared from Python.

``functions`` lead from a path to a store: ``opened`` has its settings and summaries, ``store`` its methods,
``parts`` its messages, queues and index, ``results`` yields rows. ``options`` and ``arguments`` turn what
callers write into requests.

Nothing is printed, and nothing of the process is changed; signals wait while threads are started or ended.
Everything may be used by several threads at once but for what comes row by row: each such iterator belongs to
one thread.
"""

from __future__ import annotations
