"""A broker's reput in plain Python, written from the Java and from nothing of ours but ``javacompat``.

The judge of the kernels and of the pipeline where no real broker can be asked: damage, hostile values, any
cutting into splits. ``messages`` reads a record through a byte buffer as Java does, ``queues`` and ``index``
hold the files in memory, ``reput`` goes through the log. One message at a time, nothing clever.
"""

from __future__ import annotations
