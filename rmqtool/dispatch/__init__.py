"""RULES: from messages to the structures of a store: consume queue units, index entries.

Pure: numpy arrays in, numpy arrays out; no files. ``policy`` holds the broker's switches, ``index_keys`` the
keys of index entries, and the rule for tags that a store follows; ``queues`` are the queues met so far,
with totals of each. The kernels are `rmqtool.kernels.dispatch`, `rmqtool.kernels.queues` and
`rmqtool.kernels.units`.
"""

from __future__ import annotations
