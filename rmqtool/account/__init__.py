"""ACCOUNT: the messages that a store has lost, and what proves each loss.

``survey`` looks at a log: the queue offsets that its records carry, and bytes that hold no record. Where that
shows damage, ``records`` reads it to the last record, with what the present queues list (``evidence``):
``disputes`` decides between readings that differ, ``names`` finds files under another's name, ``belief``
compares the fields that no checksum protects with the queues and with their neighbours (``claims``);
``reading`` is what comes of it, for every command. ``lost``
finds the messages that the records of a queue leave out, reports them and adds them up; ``log_losses`` does
so for a whole store, with the ``witnesses`` beside units; ``model`` is the result. Every command that
counts lost messages counts them by these.
"""
