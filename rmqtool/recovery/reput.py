"""Reput of a 4.9 broker while it starts, and what it does at damage.

Origin: ``DefaultMessageStore#start``, ``ReputMessageService#doReput``,
``MappedFileQueue#findMappedFileByOffset`` (4.9.8); see ``rmqtool.reput.chain`` for the two counters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.recovery.derived import DispatchStallError
from rmqtool.recovery.drafts import DispatchDraft
from rmqtool.recovery.model import Reput
from rmqtool.reput.chain import Region
from rmqtool.scan.gaps import Outcome
from rmqtool.scan.walk import SegmentWalk

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from rmqtool.recovery.derived import Derived
    from rmqtool.reput.dispatcher import Dispatcher
    from rmqtool.store.segments import Segment


def catch_up(
    segments: Sequence[Segment],
    log_end: int,
    rules: npt.NDArray[np.int64],
    derived: Derived,
    dispatcher: Dispatcher,
) -> Reput:
    """Dispatch from the end of the consume queues to physical offset ``log_end``; changes ``derived``."""
    start = max(derived.max_physical_offset, segments[0].start)
    done = DispatchDraft()
    log_offset = start
    while log_offset < log_end:
        segment = next((one for one in segments if one.start <= log_offset < one.stop), None)
        if segment is None:
            return Reput(start, log_offset, done.finish())
        try:
            log_offset = _region(
                segment, log_offset, min(segment.stop, log_end), rules, derived, dispatcher, done
            )
        except DispatchStallError as stall:
            return Reput(start, int(stall.args[0]), done.finish())
    return Reput(start, None, done.finish())


def _region(
    segment: Segment,
    log_offset: int,
    stop: int,
    rules: npt.NDArray[np.int64],
    derived: Derived,
    dispatcher: Dispatcher,
    done: DispatchDraft,
) -> int:
    walk = SegmentWalk(segment, rules)
    for batch in walk.batches(log_offset, stop):
        derived.take(dispatcher, batch, done)
    segment.close()
    region = Region()
    region.add(walk.mismatches)
    if walk.outcome == Outcome.BLANK:
        return region.rolled(walk.log_offset, segment, segment.size_bytes)
    return region.after(stop)
