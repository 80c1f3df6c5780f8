"""Which recovery runs, and which file of the log it begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.derived.checkpoint import loaded_checkpoint
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.checkpoint import Checkpoint
from rmqtool.formats.message import HEAD_SIZES, MAGIC_V1, MAGIC_V2, decode_head
from rmqtool.recovery.model import Recovery, Refusal
from rmqtool.releases import CleanStart, Release
from rmqtool.store.reading import ReadOnlyFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rmqtool.store.segments import Segment

_FILES_RECOVERED = 3  # CommitLog#recoverNormally up to 5.3.1


def read_checkpoint(path: Path) -> Checkpoint | Refusal:
    """Read the checkpoint as a broker does: missing is zero, short is extended by zeros."""
    if not path.exists():
        return Checkpoint()
    try:
        return loaded_checkpoint(ReadOnlyFile(path))
    except EnvironmentFailureError:
        return Refusal("checkpoint", "cannot be opened as a file")


def first_file(
    segments: Sequence[Segment], unclean: bool, checkpoint: Checkpoint, max_end: int, release: Release
) -> tuple[int, Recovery]:
    """Return the number of the file that recovery begins with, and why.

    Args:
        segments: the log's files, at least one.
        unclean: whether ``abort`` is there.
        checkpoint: its times.
        max_end: largest ``maxPhysicOffset`` of any consume queue.
        release: whose rules apply.
    """
    if unclean:
        number, reason = _abnormal(segments, checkpoint, release)
    elif release.clean_start is CleanStart.THIRD_LAST:
        number, reason = max(len(segments) - _FILES_RECOVERED, 0), "the third last file, or the first"
    else:
        number, reason = _behind_queues(segments, max_end)
    first = segments[number]
    return number, Recovery("abnormal" if unclean else "normal", first.label, first.start, reason)


def _behind_queues(segments: Sequence[Segment], max_end: int) -> tuple[int, str]:
    """Java: ``CommitLog#recoverNormally`` (5.3.2, 5.3.3)."""
    for number in range(len(segments) - 1, 0, -1):
        if segments[number].start <= max_end:
            return number, f"the newest file that begins at or before {max_end}, where the consume queues end"
    return 0, f"the consume queues end at {max_end}: the first file"


def _abnormal(segments: Sequence[Segment], checkpoint: Checkpoint, release: Release) -> tuple[int, str]:
    for number in range(len(segments) - 1, -1, -1):
        if _matches(segments[number], checkpoint.minimum_ms, release):
            return number, f"the newest file whose first record was stored by {checkpoint.minimum_ms}"
    return 0, f"no file begins with a record stored by {checkpoint.minimum_ms}: the first file"


def _matches(segment: Segment, minimum_ms: int, release: Release) -> bool:
    """Java: ``CommitLog#isMappedFileMatchedRecover`` (4.9.8, 5.3.3) with ``messageIndexSafe`` off."""
    head = decode_head(segment.read_at(0, max(HEAD_SIZES), []))
    magics = (MAGIC_V1, MAGIC_V2) if release.records.knows_v2 else (MAGIC_V1,)
    if head is None or head.magic not in magics:
        return False
    return head.store_timestamp_ms != 0 and head.store_timestamp_ms <= minimum_ms
