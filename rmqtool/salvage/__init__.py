"""SALVAGE: a new log from a damaged one, on which a broker starts.

``rmqtool.account`` reads every intact record of a copy, and decides where readings of it differ; ``copies``
puts several copies of one log together. ``losses``
counts lost messages, ``layout`` puts records in their place (``placement``, ``light``), and ``planning``
makes the plan (``model``): every byte of the new log, and of each queue what the log has of it and what it
has lost (``queues``), which is proven before it is used. ``gathering`` goes from stores to a plan. ``making``
encodes records, ``writing`` writes the new log, ``derived`` makes queues and index over it, and ``sidecars``
adds checkpoint, config, compacted topics and reports.

Records keep their bytes and their place, always. Nothing is signed again: a record that does not match its
checksum goes to ``lost+found/``, and a message that says so stands in its place.
"""

from __future__ import annotations
