"""``repair``: changes a store in place, by renames alone, so that all of it can be undone.

It does nothing that can lose data: it replaces queues and index with ones rebuilt from the log, checkpoint
and settings, and sets aside ``abort`` and stray files of the log's directory. It never changes the log
itself.
"""
