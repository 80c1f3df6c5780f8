"""Records whose properties changed since they were stored, as far as present queues and index show it.

A unit keeps the hash of the tags, index items keep those of the keys. A rebuild reads the present units with
those it made, and the index only at the places that a unit, or the form of the properties, makes doubtful.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
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
    from rmqtool.reput.pipeline import ReputResult
    from rmqtool.reput.units import QueueUnits
    from rmqtool.store import Store
    from rmqtool.store.segments import FileQueue

_MOST_PLACES = 1 << 10
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


@dataclass
class PresentUnits:
    """The units of present consume queues, compared with those made, each at its queue offset.

    Attributes:
        same: by topic and queue id, how many lead to the same record; a queue that cannot be read has none.
        other_tags: places of records whose present unit has another tags code, as far as so many are kept.
    """

    same: Counter[tuple[str, int]] = field(default_factory=Counter)
    other_tags: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, store: Store, result: ReputResult) -> PresentUnits:
        """Read the units that are there.

        Raises:
            EnvironmentFailureError: a block file of the result cannot be read.
        """
        found, root = cls(), store.roots.get(PathKind.CONSUMEQUEUE)
        if root is None or is_rocksdb(root.paths[0]):
            return found
        for queue, pieces in by_queue([one for one in result.plans if not one.batch], result.blocks):
            key = queue.topic, queue.queue_id
            with suppress(EnvironmentFailureError):  # whoever counts the messages of the queue says so
                if (there := store.queue(*key, PathKind.CONSUMEQUEUE)) is not None:
                    for piece in pieces:
                        found._take(key, there.files, piece)
                    there.files.close()
        return found

    def _take(self, key: tuple[str, int], there: FileQueue, made: QueueUnits) -> None:
        starts, units = made.column("queue_offsets") * UNIT_SIZE, made.column("units")
        for segment in there.between(int(starts.min()), int(starts.max()) + UNIT_SIZE):
            inside = np.flatnonzero((starts >= segment.start) & (starts + UNIT_SIZE <= segment.stop))
            if not len(inside):
                continue
            numbers = (starts[inside] - segment.start) // UNIT_SIZE
            first, stop = int(numbers.min()), int(numbers.max()) + 1
            data = segment.read_at(first * UNIT_SIZE, (stop - first) * UNIT_SIZE, [])
            present = np.frombuffer(data, UNITS.dtype, len(data) // UNIT_SIZE)
            is_read = numbers < first + len(present)
            present, wanted = present[numbers[is_read] - first], units[inside[is_read]]
            is_same = present["physicalOffset"] == wanted["physicalOffset"]
            self.same[key] += int(np.count_nonzero(is_same & (present["size"] == wanted["size"])))
            if key[0] != SCHEDULE_TOPIC and len(self.other_tags) < _MOST_PLACES:
                tags = present["tagsCode"].astype(np.int64)
                wrong = is_same & (tags != wanted["tagsCode"])
                wrong &= (tags >= _INT_MIN) & (tags <= _INT_MAX)  # others are addresses of ext units
                self.other_tags += wanted["physicalOffset"][wrong].tolist()


def tell_changed_properties(
    store: Store, log: FileQueue, present: PresentUnits, findings: FindingLog
) -> None:
    """Add what verify says of these records; index files that cannot be read show nothing."""
    witnesses: dict[int, set[str]] = defaultdict(set)
    for place in present.other_tags[:_MOST_PLACES]:
        witnesses[place].add(CONTRADICTING_UNIT)
    odd = {one.physical_offset for one in findings if one.code is CL_PROPERTIES}
    doubtful = {*witnesses, *(place for place in odd if place is not None)}
    with suppress(EnvironmentFailureError):
        for place in _of_other_keys(store, log, doubtful):
            witnesses[place].add(CONTRADICTING_ITEM)
    tell_contradicted(log, findings, witnesses)


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
