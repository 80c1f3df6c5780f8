"""Checks of the commit log.

``check_split`` is the sink of a split, ``segment_scan`` stitches the splits of a file and finds what may be a
stale tail, ``reader`` is the pass that an engine runs; ``checks`` concludes what the log holds and lacks.
"""

from __future__ import annotations
