"""ACCOUNT: the messages that a store has lost, and what proves each loss.

``survey`` reads a log: the queue offsets that its records carry, and bytes that hold no record. ``lost``
finds the messages that the records of a queue leave out, reports them and adds them up; ``log_losses`` does
so for a whole store, with the ``witnesses`` beside units; ``model`` is the result. Every command that
counts lost messages counts them by these.
"""
