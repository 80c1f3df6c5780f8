"""The record of a run: what was read, what was made, what was found, and by whom; and how it is checked.

A case is a directory of records, ``0001.json`` and so on. Each is a JSON document whose last member is
SHA-256 of all bytes before that member, and each names that of the record before, so that none can be
changed, taken out or put in without its successors telling. What a chain cannot tell is that its last
records are gone, or that all of it was made anew: note the last digest elsewhere.
"""

from __future__ import annotations
