"""The units of queues, as far as they are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.commands.dump.units import dump_queue
from rmqtool.javacompat import tags_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.commands.dump.request import DumpRequest
    from rmqtool.progress import Progress
    from rmqtool.store import PathKind, Store


def dump_queues(store: Store, kind: PathKind, request: DumpRequest, progress: Progress) -> Iterator[rows.Row]:
    """Yield what is wanted of the queues of a kind."""
    wanted, done = request.messages, 0
    progress.stage(kind.value, None)
    for queue in store.queues(kind):
        if wanted.admits_queue(queue.topic, queue.queue_id):
            for row in dump_queue(queue, wanted.from_queue_offset or 0):
                if isinstance(row, rows.Damage) or _admits_unit(request, row):
                    yield row
            done += sum(segment.size_bytes for segment in queue.files)
            progress.advance(done)


def _admits_unit(request: DumpRequest, row: rows.Row) -> bool:
    wanted = request.messages
    if wanted.tag is not None and getattr(row, "tags_code", None) != tags_hash(wanted.tag):
        return False
    if isinstance(row, rows.BatchUnit | rows.ExtUnit):
        time = row.store_timestamp_ms
        if time < (wanted.begin_ms or time) or time > (wanted.end_ms or time):
            return False
    return isinstance(row, rows.ExtUnit) or request.admits_offset(getattr(row, "physical_offset", 0))
