"""ACCOUNT: what a store has lost, message by message, and what proves it.

``survey`` looks at a log: which queue offsets its records carry, and which bytes hold none. ``absent`` finds
the messages of a queue that are missing there, ``log_losses`` those of a whole store, and ``lost`` tells lost
messages one by one and adds them up; ``model`` is what comes of it. Every command that counts lost messages
counts them by these.
"""
