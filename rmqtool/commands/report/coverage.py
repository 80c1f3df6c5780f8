"""Coverage of the log by queues and index, by the ends of their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.commands.report.model import Coverage, LogRange
from rmqtool.derived.index_files import IndexFile
from rmqtool.derived.queue_bounds import queue_bounds
from rmqtool.derived.queue_files import QueueFile
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.consumequeue import UNITS
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.formats.consumequeue import UnitFields
    from rmqtool.store import QueueFiles, Store


def coverage_of(store: Store) -> Coverage:
    """Return the coverage by queues and index; files that cannot be read cover nothing, and are findings."""
    topics: dict[str, LogRange] = {}
    try:
        for queue in store.queues(PathKind.CONSUMEQUEUE):
            found = _queue_range(queue, store.commitlog.start)
            if found is None:
                continue
            before = topics.get(found.name, found)
            topics[found.name] = LogRange(
                found.name,
                min(before.start, found.start),
                max(before.stop, found.stop),
                found.entries + (0 if before is found else before.entries),
            )
    except EnvironmentFailureError:
        pass  # a directory that may not be listed: what was found before it counts
    ordered = sorted(topics.values(), key=lambda one: (-one.entries, one.name))
    return Coverage(tuple(_index_ranges(store)), tuple(ordered))


def _queue_range(queue: QueueFiles, log_start: int) -> LogRange | None:
    try:
        low, high = queue_bounds(queue, log_start)
        first, last = _unit(queue, low), _unit(queue, high - 1)
    except EnvironmentFailureError:
        return None
    finally:
        queue.files.close()
    if high <= low or first is None or last is None:
        return None
    stop = last.physical_offset + last.size
    return LogRange(queue.topic or "", first.physical_offset, stop, high - low)


def _unit(queue: QueueFiles, number: int) -> UnitFields | None:
    for segment in queue.files:
        file = QueueFile(segment, UNITS)
        if 0 <= number - file.first_number < file.room:
            return file.unit(number - file.first_number)
    return None


def _index_ranges(store: Store) -> Iterator[LogRange]:
    for file in store.index_files:
        try:
            index = IndexFile(file, store.settings.index_geometry)
        except EnvironmentFailureError:
            continue
        finally:
            file.close()
        if index.has_items:
            header = index.header
            yield LogRange(file.label, header.begin_phy_offset, header.end_phy_offset, index.used)
