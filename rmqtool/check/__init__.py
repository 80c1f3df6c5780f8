"""Checks of `verify`, each of a part of a store.

``run`` checks the layout, ``stages`` the other levels: ``log`` (every record, and the log as a whole),
``queues`` and ``index`` (compared with what the log requires), ``side_files`` (checkpoint, consumers'
offsets, ``config/``). ``derived`` makes the tasks of the checks of derived files, ``expected`` hands out
the units and index entries that the log requires; ``model`` has request and report.
"""

from __future__ import annotations
