"""``repair``: mend a store in place, by renames alone, so that all of it can be undone.

Only what cannot lose data is done: queues and index rebuilt from the log, checkpoint, ``abort``, files that
are no part of the log, settings. The log itself is never changed.
"""
