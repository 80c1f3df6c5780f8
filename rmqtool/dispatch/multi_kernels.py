"""Further queues of one message: LMQ and multi dispatch.

Source: ``ConsumeQueue#multiDispatchLmqQueue`` (4.9.8, 5.3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.policy import Switch, Trait
from rmqtool.dispatch.queue_kernels import find_queue, put_unit
from rmqtool.dispatch.rows import NO_EXT_UNIT, UNKNOWN_QUEUE_OFFSET, DispatchOutcome
from rmqtool.javacompat.kernels import parse_long
from rmqtool.javacompat.kernels.integers import as_int
from rmqtool.jit import kernel
from rmqtool.scan.rows import Property
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Buffer, Int64s, Row, Rows


_DONE, _NEW_QUEUE = DispatchOutcome.DONE.value, DispatchOutcome.NEW_QUEUE.value
_STALLED = DispatchOutcome.STALLED.value
_LMQ, _SKIPS_SLASH = Switch.LMQ.value, Switch.SKIPS_SLASH.value
_PASSES = Switch.PASSES_STALLS.value
_EXCLUDED, _UNSAFE = Trait.EXCLUDED.value, Trait.UNSAFE.value
_QUEUES, _OFFSETS = Property.INNER_MULTI_DISPATCH.value, Property.INNER_MULTI_QUEUE_OFFSET.value
_LMQ_PREFIX = np.frombuffer(LMQ_PREFIX.encode(), np.uint8)
_COMMA, _SLASH, _SPACE = 0x2C, 0x2F, 0x20
_NO_EXT_UNIT, _UNKNOWN = NO_EXT_UNIT, UNKNOWN_QUEUE_OFFSET


@kernel
def _is_wide_space(code: int) -> bool:
    """Whether three bytes are a space beyond ASCII to ``Character#isWhitespace`` (JDK 17)."""
    general = 0xE28080 <= code <= 0xE2808A and code != 0xE28087  # U+2000 to U+200A, not U+2007
    return general or code in (0xE19A80, 0xE280A8, 0xE280A9, 0xE2819F, 0xE38080)


@kernel
def is_blank(buffer: Buffer, start: int, stop: int) -> bool:
    """As ``StringUtils#isBlank``; an absent value is blank."""
    while start < stop:
        byte = buffer[start]
        if byte == _SPACE or 0x09 <= byte <= 0x0D or 0x1C <= byte <= 0x1F:
            start += 1
            continue
        if stop - start < 3:
            return False
        code = as_int(byte) << 16 | as_int(buffer[start + 1]) << 8 | as_int(buffer[start + 2])
        if not _is_wide_space(code):
            return False
        start += 3
    return True


@kernel
def _pieces_stop(buffer: Buffer, start: int, stop: int) -> int:
    """Return where a value ends without its last commas: ``String#split`` drops empty last pieces."""
    while stop > start and buffer[stop - 1] == _COMMA:
        stop -= 1
    return stop


@kernel
def _count_pieces(buffer: Buffer, start: int, stop: int) -> int:
    if start == stop:
        return 0
    pieces = 1
    for i in range(start, stop):
        pieces += buffer[i] == _COMMA
    return pieces


@kernel
def _piece_stop(buffer: Buffer, start: int, stop: int) -> int:
    while start < stop and buffer[start] != _COMMA:
        start += 1
    return start


@kernel
def _contains_slash(buffer: Buffer, start: int, stop: int) -> bool:
    for i in range(start, stop):
        if buffer[i] == _SLASH:
            return True
    return False


@kernel
def _is_lmq(buffer: Buffer, start: int, stop: int) -> bool:
    if stop - start < len(_LMQ_PREFIX):
        return False
    for i in range(len(_LMQ_PREFIX)):
        if buffer[start + i] != _LMQ_PREFIX[i]:
            return False
    return True


@kernel
def multi_dispatch(
    buffer: Buffer,
    row: Row,
    values: Int64s,
    tags_code: int,
    switches: Int64s,
    slots: npt.NDArray[np.int32],
    queues: Rows,
    names: Buffer,
    units: Rows,
    count: int,
    missing: Int64s,
) -> tuple[int, int]:
    """Put the units of the extra queues; return outcome and the new count.

    Empty names and offsets inside the lists are pieces; a name that cannot be a directory puts no unit.
    """
    name = values[_QUEUES, 0]
    names_stop = _pieces_stop(buffer, name, values[_QUEUES, 1])
    offset = values[_OFFSETS, 0]
    offsets_stop = _pieces_stop(buffer, offset, values[_OFFSETS, 1])
    pieces = _count_pieces(buffer, name, names_stop)
    if pieces != _count_pieces(buffer, offset, offsets_stop):
        return _DONE, count
    outcome = _DONE
    for _ in range(pieces):
        name_stop = _piece_stop(buffer, name, names_stop)
        offset_stop = _piece_stop(buffer, offset, offsets_stop)
        if not (switches[_SKIPS_SLASH] and _contains_slash(buffer, name, name_stop)):
            ok, queue_offset = parse_long(buffer, offset, offset_stop)
            if not ok:
                outcome, queue_offset = _STALLED, _UNKNOWN
                if not switches[_PASSES]:
                    break
            queue_id = 0 if switches[_LMQ] and _is_lmq(buffer, name, name_stop) else row.queue_id
            queue = find_queue(buffer, name, name_stop, queue_id, slots, queues, names)
            if queue < 0:
                missing[0], missing[1], missing[2] = name, name_stop, queue_id
                return _NEW_QUEUE, count
            if not queues[queue].traits & (_UNSAFE | _EXCLUDED):
                put_unit(units, count, queues[queue].canonical, queue_offset, row, tags_code, _NO_EXT_UNIT, 1)
                count += 1
        name, offset = name_stop + 1, offset_stop + 1
    return outcome, count
