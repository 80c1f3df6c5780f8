"""VERIFY: a verdict on a store, and why.

``model`` is what is asked and what is said; ``run`` goes through the levels; ``log_checks`` speaks of the
commit log; ``tasks`` are what ``queue_checks`` and ``index_checks`` get: the files that are there, and the
units and index entries that the log demands.
"""

from __future__ import annotations
