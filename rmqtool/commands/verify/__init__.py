"""VERIFY: a verdict on a store, and why.

``model`` is what is asked and what is said; ``run`` looks at the layout, ``contents`` goes through the other
levels; ``log_trails`` reads the commit log, ``log_checks`` speaks of it, ``log_so_far`` of a part of it;
``tasks`` are what ``queue_checks`` and ``index_checks`` get: the files that are there, and the
units and index entries that the log demands.
"""

from __future__ import annotations
