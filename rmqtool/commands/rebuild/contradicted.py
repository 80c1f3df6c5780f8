"""Records whose properties changed since they were stored, as far as present queues and index show it.

A unit keeps the hash of the tags, index items keep those of the keys. A rebuild reads the present units with
those it made, and the index only at the places that a unit, or the form of the properties, makes doubtful.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.check.contradictions import CONTRADICTING_ITEM, CONTRADICTING_UNIT, tell_contradicted
from rmqtool.derived.index_files import open_index_file
from rmqtool.dispatch.index_keys import index_keys, item_keys
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings.records import CL_PROPERTIES
from rmqtool.formats.consumequeue import UNIT_SIZE, UNITS
from rmqtool.javacompat import index_key_hash
from rmqtool.reput.units import by_queue
from rmqtool.scan.record_at import record_at
from rmqtool.store.features import is_rocksdb
from rmqtool.store.kinds import PathKind
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rmqtool.findings import FindingLog
    from rmqtool.reput.pipeline import ReputPlan, ReputResult
    from rmqtool.reput.units import Units
    from rmqtool.store import Store
    from rmqtool.store.segments import FileQueue

_MOST_PLACES = 1 << 10
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


def tell_changed_properties(store: Store, plan: ReputPlan, result: ReputResult, findings: FindingLog) -> None:
    """Add what verify says of these records; present files that cannot be read show nothing."""
    witnesses: dict[int, set[str]] = defaultdict(set)
    with suppress(EnvironmentFailureError):  # the comparison with what is there says so
        for place in _of_other_tags(store, plan, result):
            witnesses[place].add(CONTRADICTING_UNIT)
    odd = {one.physical_offset for one in findings if one.code is CL_PROPERTIES}
    doubtful = {*witnesses, *(place for place in odd if place is not None)}
    with suppress(EnvironmentFailureError):
        for place in _of_other_keys(store, plan.log, doubtful):
            witnesses[place].add(CONTRADICTING_ITEM)
    tell_contradicted(plan.log, findings, witnesses)


def _of_other_tags(store: Store, plan: ReputPlan, result: ReputResult) -> list[int]:
    """Return the places of records whose present unit has another tags code than the unit made."""
    root = store.roots.get(PathKind.CONSUMEQUEUE)
    if root is None or is_rocksdb(root.paths[0]):
        return []
    made = [one for one in result.plans if not one.batch and one.topic != SCHEDULE_TOPIC]
    found: list[int] = []
    for queue, pieces in by_queue(made, result.blocks):
        there = store.queue(queue.topic, queue.queue_id, PathKind.CONSUMEQUEUE)
        if there is None or len(found) >= _MOST_PLACES:
            continue
        for piece in pieces:
            found += _differing(there.files, piece)
        there.files.close()
    return found[:_MOST_PLACES]


def _differing(there: FileQueue, made: Units) -> Iterator[int]:
    """Yield where records of units lie whose present unit, at its queue offset, has another tags code."""
    starts, units = made.column("queue_offsets") * UNIT_SIZE, made.column("units")
    for segment in there.between(int(starts.min()), int(starts.max()) + UNIT_SIZE):
        inside = np.flatnonzero((starts >= segment.start) & (starts + UNIT_SIZE <= segment.stop))
        if not len(inside):
            continue
        numbers = (starts[inside] - segment.start) // UNIT_SIZE
        first, stop = int(numbers.min()), int(numbers.max()) + 1
        data = segment.read_at(first * UNIT_SIZE, (stop - first) * UNIT_SIZE, [])
        present = np.frombuffer(data, UNITS.dtype, len(data) // UNIT_SIZE)
        inside, numbers = inside[numbers < first + len(present)], numbers[numbers < first + len(present)]
        present, wanted = present[numbers - first], units[inside]
        tags = present["tagsCode"].astype(np.int64)
        wrong = (present["physicalOffset"] == wanted["physicalOffset"]) & (tags != wanted["tagsCode"])
        wrong &= (tags >= _INT_MIN) & (tags <= _INT_MAX)  # others are addresses of ext units
        yield from wanted["physicalOffset"][wrong].tolist()


def _of_other_keys(store: Store, log: FileQueue, places: Collection[int]) -> Iterator[int]:
    """Yield those of some places to which an item leads that has the hash of none of its record's keys."""
    records = {place: record_at(log, place) for place in places}
    hashes = {
        place: {index_key_hash(record.topic, key) for key in item_keys(record.properties)}
        for place, record in records.items()
        if record is not None and index_keys(record.properties)
    }
    wanted = np.array(sorted(hashes), np.int64)
    if not len(wanted):
        return
    for file in store.index_files:
        index = open_index_file(file, store.settings.index_geometry)
        for items in index.item_columns():
            for row in np.flatnonzero(np.isin(items.physical_offsets, wanted)).tolist():
                place = int(items.physical_offsets[row])
                if int(items.key_hashes[row]) not in hashes[place]:
                    yield place
        file.close()
