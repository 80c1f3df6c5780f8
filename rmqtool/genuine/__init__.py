"""GENUINE: which records of a damaged log are a store's own, and what they say truly.

``records`` reads a copy of a log to its last record, with checksums; ``evidence`` has what the present queues
list, and the chains of records in each; ``beyond`` decides which units beyond the log's end can prove a
message. ``disputes`` decides between readings that differ, ``plausibility`` compares the fields that no
checksum protects with the queues and with their neighbours. ``reading`` is the result, for every command, and
finds files under another's name.
"""
