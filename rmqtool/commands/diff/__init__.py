"""``diff``: what two stores, or the same part of two stores, say differently.

What is compared is meaning, whatever the sizes and names of files: records by physical offset, units by
topic, queue and queue offset, index entries as one stream in log order, ext units through the units that
name them.
`align` finds the entries of two streams that belong together; the other modules read one structure each.
"""
