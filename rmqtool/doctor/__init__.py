"""Diagnosis of the broker's side files in ``config/`` after a power failure, and the effect of each choice.

A broker keeps offsets, topics and groups in JSON files, each with the ``.bak`` of the version before. One
that is cut, zero-filled or empty makes it start with nothing, or not at all (RocketMQ issues 9328, 3401,
6096, 1498). `diagnose` returns the remaining copies, the one that a broker takes, and for every choice the
messages that would be delivered again or skipped. Nothing is written here.
"""

from __future__ import annotations
