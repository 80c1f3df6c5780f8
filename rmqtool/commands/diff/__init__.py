"""``diff``: differences in meaning between two stores, or the same part of two stores.

Sizes and names of files do not matter: records are compared by physical offset, units by topic, queue and
queue offset, index entries as one stream in log order, ext units through the units that name them. `align`
finds the entries of two streams that belong together; the other modules read one structure each.
"""
