"""What the files of a queue tell by themselves: sizes, names, and the units at their edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.derived.queue_bounds import read_batch_unit, read_unit
from rmqtool.formats import consumequeue, struct_of
from rmqtool.scan.window import Window
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store import QueueFiles, Segment
    from rmqtool.store.settings import Settings

_UNIT_SIZE = struct_of(consumequeue.UNIT).size
_BATCH_UNIT_SIZE = struct_of(consumequeue.BATCH_UNIT).size


def file_doubts(queue: QueueFiles, settings: Settings, log_start: int) -> Iterator[str]:
    """Yield a sentence for everything that makes it possible that messages of a queue are missed.

    Args:
        queue: A consume queue, or a batch consume queue.
        settings: Of the store.
        log_start: Physical offset at which the log begins.
    """
    is_of_batches = queue.kind is PathKind.BATCHCONSUMEQUEUE
    size = settings.batchconsumequeue_file_size if is_of_batches else settings.consumequeue_file_size
    files = queue.files
    for stray in files.strays:
        yield f"{stray.label} {stray.reason}"
    for segment in files:
        if segment.size_bytes != size:
            yield f"{segment.label} has {segment.size_bytes} bytes where the settings ask for {size}"
    for gap in files.gaps(size):
        yield f"between {gap.after.label} and {gap.before.label} files are missing"
    if len(files) and files.start > 0 and log_start == 0:
        yield f"the files before {files.segments[0].label} are missing, though the log goes back to 0"
    yield from _edge_doubts(files.segments, is_of_batches=is_of_batches)


def _edge_doubts(segments: tuple[Segment, ...], *, is_of_batches: bool) -> Iterator[str]:
    """Yield which files lack a unit at their start or end, or lead back in the log."""
    highest = -1
    for segment in segments:
        first, last = _edges(segment, is_of_batches=is_of_batches)
        if (first is None or last is None) and not (segment == segments[-1] and _ends_well(segment, first)):
            yield f"{segment.label} has no unit at its start, or none at its end"
        if first is not None and 0 <= first <= highest:
            yield f"{segment.label} leads to a place of the log that the file before has passed"
        highest = max([highest, *(one for one in (first, last) if one is not None)])


def _edges(segment: Segment, *, is_of_batches: bool) -> tuple[int | None, int | None]:
    """Return where first and last unit of a file lead to; None for an invalid, -1 for a pre-blank one."""
    width = _BATCH_UNIT_SIZE if is_of_batches else _UNIT_SIZE
    read = read_batch_unit if is_of_batches else read_unit
    units = (read(segment, number) for number in (0, max(0, segment.size_bytes // width - 1)))
    first, last = (
        None if size <= 0 else -1 if size == consumequeue.PREBLANK_SIZE else physical_offset
        for physical_offset, size, *_ in units
    )
    return first, last


def _ends_well(segment: Segment, first: int | None) -> bool:
    """Whether the last file of a queue begins with a unit, or holds nothing at all."""
    return first is not None or Window(segment).skip_zeros(0) == segment.size_bytes
