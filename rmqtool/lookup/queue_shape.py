"""What the files of a queue tell by themselves: sizes, names, and the units at their edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool.derived.queue_files import QueueFile
from rmqtool.formats.consumequeue import PREBLANK_SIZE, UNITS
from rmqtool.scan.window import Window
from rmqtool.store.kinds import KINDS, PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store import QueueFiles, Segment
    from rmqtool.store.settings import Settings


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
    yield from _edge_doubts(files.segments, queue.kind)


def _edge_doubts(segments: tuple[Segment, ...], kind: PathKind) -> Iterator[str]:
    """Yield which files lack a unit at their start or end, or lead back in the log."""
    highest = -1
    for segment in segments:
        first, last = _edges(segment, kind)
        if (first is None or last is None) and not (segment == segments[-1] and _ends_well(segment, first)):
            yield f"{segment.label} has no unit at its start, or none at its end"
        if first is not None and 0 <= first <= highest:
            yield f"{segment.label} leads to a place of the log that the file before has passed"
        highest = max([highest, *(one for one in (first, last) if one is not None)])


def _edges(segment: Segment, kind: PathKind) -> tuple[int | None, int | None]:
    """Return where first and last unit of a file lead to; None for an invalid, -1 for a pre-blank one."""
    file: QueueFile[Any] = QueueFile(segment, KINDS[kind].units or UNITS)
    first, last = (
        None if unit.size <= 0 else -1 if unit.size == PREBLANK_SIZE else int(unit.physical_offset)
        for unit in (file.unit(0), file.unit(max(0, file.room - 1)))
    )
    return first, last


def _ends_well(segment: Segment, first: int | None) -> bool:
    """Whether the last file of a queue begins with a unit, or holds nothing at all."""
    return first is not None or Window(segment).skip_zeros(0) == segment.size_bytes
