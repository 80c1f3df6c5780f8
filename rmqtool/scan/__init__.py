"""WALK: bytes of log to messages and damage.

``records`` reads one record at a time in plain Python, for look-ups and dumps; ``kernels`` does the same for
whole windows at memory speed, and ``walk`` drives them over a segment. Both follow
``CommitLog#checkMessageAndReturnSize`` and are tested against each other.

A record counts as *true* only if its PHYSICALOFFSET is the place it lies at: valid but stale bytes (behind
BLANK, in dirty tails, in pooled buffers) are normal in a store.
"""

from __future__ import annotations
