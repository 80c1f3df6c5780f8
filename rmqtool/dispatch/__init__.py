"""RULES: messages to what the store must contain: consume queue units, index entries.

Pure: numpy arrays in, numpy arrays out; no files. ``policy`` holds the broker's switches, ``queues`` the
queues met so far, ``kernels`` turns a batch of messages into units and index entries, ``append`` is the
consume queue's append rule and ``putkey`` the index file's.
"""

from __future__ import annotations
