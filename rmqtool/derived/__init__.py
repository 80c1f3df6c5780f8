"""READERS of the files that are made from the log; everyone who reads one reads it here.

``queue_files`` units of consume queues and batch consume queues; ``ext_files`` those of ext queues;
``index_files`` header, slots, items and chains; ``checkpoint``; ``queue_bounds`` minimum and maximum offset
of a queue. What has one length comes out of the schemas (`rmqtool.formats.Decoder`), as rows without numpy or
as columns with it, which is imported when columns are asked for.
"""

from __future__ import annotations
