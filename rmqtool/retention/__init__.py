"""RETENTION: the files that a running broker deletes, by its clock.

``deletion`` foretells them by the times of the files and the fullness of the disk. ``expiry`` judges those of
the past: messages that lay before the log's first byte, of which units and queue offsets are left.
"""
