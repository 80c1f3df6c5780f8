"""WALK: bytes of log to messages and gaps.

``records`` reads one record at a time in plain Python, for look-ups and dumps; `rmqtool.kernels.walk` does
the same for whole windows at memory speed, and ``walk`` drives it over a segment. Both follow
``CommitLog#checkMessageAndReturnSize`` and are tested against each other.

Where a broker's reput gives up, an examiner continues at the next intact record: ``record_walk`` in plain
Python, ``gap_walk`` by the kernels. Both yield what lies between as a `records.Gap`, to which ``classify``
gives its name: the only judge of that, for every command. ``loose`` finds the records in any bytes, whatever
place they claim.

``log_pass`` reads a whole log: cut into splits, which an engine walks into sinks, and stitched; for a
broker's reput as for an examiner. ``file_pass`` does so for one file, for sinks that also want its gaps,
as the search for messages that a `records.Prefilter` keeps.

A record counts as *intact* only if its PHYSICALOFFSET is the place it lies at: valid but stale bytes (after
end mark, in dirty tails, in pooled buffers) are normal in a store.
"""
