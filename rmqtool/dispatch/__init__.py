"""RULES: from messages to the structures of a store: consume queue units, index entries.

Pure: numpy arrays in, numpy arrays out; no files. ``policy`` holds the broker's switches and the table of
queues, ``index_keys`` the keys of index entries, and the rule for tags that a store follows. The kernels are
`rmqtool.kernels.dispatch`, `rmqtool.kernels.queues` and `rmqtool.kernels.units`.
"""

from __future__ import annotations
