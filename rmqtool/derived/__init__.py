"""Readers of the files that brokers derive from the log, the only ones of the package.

``queue_files`` reads units of consume queues and batch consume queues; ``ext_files`` those of ext queues;
``index_files`` header, slots, items and chains; ``queue_bounds`` minimum and maximum offset of a queue.
Records of one length come from the schemas (`rmqtool.formats.Decoder`), as rows without numpy or as columns
with it.
"""

from __future__ import annotations
