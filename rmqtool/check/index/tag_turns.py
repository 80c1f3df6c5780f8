"""Turns of an index from messages without tag items to those with them, or back.

Brokers of 5.4.0 and later put an item for TAGS after those of the keys, older ones do not, and all append to
the last file that is not full. So each message is judged by itself, and both kinds are healthy.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.findings import Finding
from rmqtool.findings.index import IX_TAG_MIX
from rmqtool.findings.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Int64s
    from rmqtool.check.expected import EntryRows, ExpectedEntries


class _Turn(NamedTuple):
    has_tag_items: bool
    physical_offset: int


def tag_mix(expected: ExpectedEntries, tagged: set[int], spoiled: Int64s) -> Finding | None:
    """Return the finding of an index that brokers before and since 5.4.0 wrote; None if all is of one kind.

    ``tagged`` are the windows with an entry of tags that has an item; ``spoiled`` are physical offsets of
    messages with a wrong item, which may stand for the tag's.
    """
    if not tagged:
        return None
    every = _turns(expected, tagged, spoiled)
    turns = [next(alike) for _, alike in groupby(every, lambda turn: turn.has_tag_items)]
    if len(turns) < 2:
        return None
    offset = turns[1].physical_offset
    if len(turns) == 2 and turns[1].has_tag_items:
        how = f"from log offset {offset} on messages have tag items, and none before"
    else:
        how = f"tag items start or stop {counted(len(turns) - 1, 'time')}, first at log offset {offset}"
    message = f"{how}: brokers before and since 5.4.0 wrote this index"
    return Finding(code=IX_TAG_MIX, physical_offset=offset, message=message)


def _turns(expected: ExpectedEntries, tagged: set[int], spoiled: Int64s) -> Iterator[_Turn]:
    """Yield, window by window, where messages change; neighbours from two windows may be alike."""
    for window in range(len(expected.spans)):
        unseen = expected.unseen(window)
        if len(unseen) < expected.spans[window].count and (window in tagged or len(unseen)):
            yield from _turns_of(expected.rows(window), unseen, spoiled)


def _turns_of(rows: EntryRows, unseen: Int64s, spoiled: Int64s) -> Iterator[_Turn]:
    seen = np.ones(len(rows.of_tags), np.bool_)
    seen[unseen] = False
    tags = np.flatnonzero(rows.of_tags)
    tags = tags[~np.isin(rows.physical_offsets[tags], spoiled)]
    # A message without any item shows nothing; one that has no keys either may be of an older broker.
    has_keys = (tags > 0) & (rows.physical_offsets[tags] == rows.physical_offsets[tags - 1])
    tags = tags[seen[tags] | (has_keys & seen[tags - 1])]
    changes = np.flatnonzero(np.concatenate([[True], np.diff(seen[tags].astype(np.int8)) != 0])[: len(tags)])
    for row in tags[changes].tolist():
        yield _Turn(bool(seen[row]), int(rows.physical_offsets[row]))
