"""Checks of the commit log.

``check_split`` checks a split and goes on at the next true record after damage, ``record_runs`` is what a
split then consists of, ``segment_scan`` puts the splits of a file together, ``reader`` has an engine do it;
``checks`` says what it means, ``so_far`` what a part of it means when the run is interrupted.
"""

from __future__ import annotations
