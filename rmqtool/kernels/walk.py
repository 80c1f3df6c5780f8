"""Kernels for records: check one, walk a chain of them, find the next intact one after damage.

Arguments have one meaning in all kernels of this package. Positions are indices into ``buffer``, a window on
one segment: ``window_stop`` ends the bytes at hand, ``segment_stop`` the segment (it may lie beyond the
window). ``base`` is the physical offset of index 0. ``cut`` body bytes of the record at hand are left out of
the window (long records; 0 otherwise): indices up to the body are plain, ranges after it are shifted down.
``rows`` is ``(k,)`` of ``MESSAGE_ROW``, ``values`` ``(k, 8, 2)``: the ranges of the values of ``Property``.
``rules`` are by ``Rules``, the file's framing among them: walks go from frame to frame, and ``at`` is where
one begins. ``kept`` is the bytes of the array that the thread has kept, 0 without ``Rules.KEPT_ARRAY``.

Origin: ``CommitLog#checkMessageAndReturnSize`` without reading bodies, as reput calls it (4.9.8, 5.3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats import message
from rmqtool.formats.message import Outcome
from rmqtool.kernels.bytes import as_int, equals, parse_int
from rmqtool.kernels.jit import empty, entry, inlined, kernel
from rmqtool.kernels.properties import has_inner_batch, inner_batch, pack_names, scan_properties, value_of
from rmqtool.kernels.rows import (
    BODY_CRC_AT,
    BODY_LENGTH_AT,
    GAP_ROW,
    HEAD_SIZES,
    MAGIC_AT,
    MISMATCH_ROW,
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    STORE_TIMESTAMP_AT,
    SYS_FLAG_AT,
    VARIANT_SHIFT,
    Property,
    Rules,
    no_messages,
    rules_of,
)
from rmqtool.releases import LENIENT
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int64s, Row, Rows


# Kernels freeze constants; `jit` keeps that fresh.
_NAMES, _NAME_BOUNDS = pack_names([name.name for name in Property])
_WIDEST_HOST = np.array([8, 20, 20, 20])  # both hosts are read through an array
_MAGIC_V1, _MAGIC_V2 = message.MAGIC_V1, message.MAGIC_V2
_FIRST_OF_MAGIC = _MAGIC_V1 >> 24 & 0xFF  # of either
_SCHEDULE_TOPIC = np.frombuffer(SCHEDULE_TOPIC.encode(), np.uint8)


@kernel
def read_i16(buffer: Buffer, at: int) -> int:
    """Read a big-endian signed 16-bit integer."""
    p = np.uint64(at)
    return as_int(np.int16((np.uint16(buffer[p]) << np.uint16(8)) | np.uint16(buffer[p + np.uint64(1)])))


@kernel
def read_i32(buffer: Buffer, at: int) -> int:
    """Read a big-endian signed 32-bit integer."""
    p = np.uint64(at)
    word = (
        np.uint32(buffer[p]) << np.uint32(24)
        | np.uint32(buffer[p + np.uint64(1)]) << np.uint32(16)
        | np.uint32(buffer[p + np.uint64(2)]) << np.uint32(8)
        | np.uint32(buffer[p + np.uint64(3)])
    )
    return as_int(np.int32(word))


@kernel
def read_i64(buffer: Buffer, at: int) -> int:
    """Read a big-endian signed 64-bit integer."""
    high, low = read_i32(buffer, at), read_i32(buffer, at + 4)
    return as_int((np.int64(high) << np.int64(32)) | (np.int64(low) & np.int64(0xFFFFFFFF)))


@inlined
def head_of(row: Row) -> tuple[int, int]:
    """Return the position of a message's first byte in its window, and its host variant."""
    variant = (row.sys_flag >> VARIANT_SHIFT) & 3
    return row.body_start - HEAD_SIZES[variant], variant


@inlined
def frame_stop(row: Row) -> int:
    """Return the physical offset after a message's frame."""
    return as_int(row.log_offset + row.total_size)


@kernel
def is_schedule_topic(buffer: Buffer, start: int, stop: int) -> bool:
    """Whether the bytes are exactly SCHEDULE_TOPIC_XXXX (``TopicValidator.RMQ_SYS_SCHEDULE_TOPIC``)."""
    return equals(buffer, start, stop, _SCHEDULE_TOPIC)


@inlined
def _check_start(
    buffer: Buffer, at: int, window_stop: int, segment_stop: int, rules: Int64s
) -> tuple[int, int, int]:
    """Check what a frame begins with; return an outcome (RECORD: go on), TOTALSIZE and magic."""
    if segment_stop - at < 8:
        return Outcome.BAD_LENGTH, 0, 0
    if window_stop - at < 8:
        return Outcome.NEED, 0, 0
    is_end = read_i32(buffer, at + rules[Rules.END_MAGIC_AT]) == rules[Rules.END_MAGIC]
    size_at = at + (rules[Rules.END_SIZE_AT] if is_end else rules[Rules.LEAD])
    room = segment_stop - (at if is_end else size_at)
    if room < 8:
        return Outcome.BAD_LENGTH, 0, 0
    if window_stop - size_at < 8 and not is_end:
        return Outcome.NEED, 0, 0
    total_size = read_i32(buffer, size_at)
    if rules[Rules.CHECKS_ROOM] and room - 4 < as_int(np.int32(total_size - 4)):
        return Outcome.BAD_LENGTH, total_size, 0
    if rules[Rules.REFUSES_NEGATIVE_SIZE] and total_size < 0:
        return Outcome.BAD_LENGTH, total_size, 0
    if is_end:
        return Outcome.FILE_END, total_size, as_int(rules[Rules.END_MAGIC])
    magic = read_i32(buffer, size_at + MAGIC_AT)
    if magic != _MAGIC_V1 and not (magic == _MAGIC_V2 and rules[Rules.KNOWS_V2]):
        return Outcome.BAD_MAGIC, total_size, magic
    return Outcome.RECORD, total_size, magic


@inlined
def _check_head(
    buffer: Buffer, at: int, window_stop: int, segment_stop: int, array: int, row: Row
) -> tuple[int, int]:
    """Read the fixed part but TOTALSIZE into ``row``; return outcome and the index after it."""
    if segment_stop - at < SYS_FLAG_AT + 4:
        return Outcome.BAD_LENGTH, at
    if window_stop - at < SYS_FLAG_AT + 4:
        return Outcome.NEED, at
    sys_flag = read_i32(buffer, at + SYS_FLAG_AT)
    variant = (sys_flag >> VARIANT_SHIFT) & 3
    size = HEAD_SIZES[variant]
    if segment_stop - at < size or array < _WIDEST_HOST[variant]:
        return Outcome.BAD_LENGTH, at
    if window_stop - at < size:
        return Outcome.NEED, at
    row.sys_flag = sys_flag
    row.body_crc = read_i32(buffer, at + BODY_CRC_AT)
    row.queue_id = read_i32(buffer, at + QUEUE_ID_AT)
    row.queue_offset = read_i64(buffer, at + QUEUE_OFFSET_AT)
    row.physical_offset = read_i64(buffer, at + PHYSICAL_OFFSET_AT)
    row.store_timestamp_ms = read_i64(buffer, at + STORE_TIMESTAMP_AT[variant])
    row.body_length = max(read_i32(buffer, at + BODY_LENGTH_AT[variant]), 0)
    row.body_start = at + size
    return Outcome.RECORD, at + size


@inlined
def _check_topic(
    buffer: Buffer, at: int, width: int, window_stop: int, segment_stop: int, array: int, row: Row
) -> int:
    """Read where the topic lies, after a length of ``width`` bytes, into ``row``."""
    if at + width > segment_stop:
        return Outcome.BAD_LENGTH
    if at + width > window_stop:
        return Outcome.NEED
    length = read_i16(buffer, at) if width == 2 else np.int64(np.int8(buffer[at]))
    if length < 0 or length > array or at + width + length + 2 > segment_stop:
        return Outcome.BAD_LENGTH
    row.topic_start = at + width
    row.topic_stop = row.topic_start + length
    return Outcome.NEED if row.topic_stop + 2 > window_stop else Outcome.RECORD


@inlined
def _check_properties(buffer: Buffer, window_stop: int, segment_stop: int, array: int, row: Row) -> int:
    """Read the length of the properties into ``row``; a negative one counts as 0."""
    length = max(read_i16(buffer, row.topic_stop), 0)
    stop = row.topic_stop + 2 + length
    if length > array or stop > segment_stop:
        return Outcome.BAD_LENGTH
    row.properties_length = length
    return Outcome.NEED if stop > window_stop else Outcome.RECORD


@inlined
def _check_numbers(buffer: Buffer, rules: Int64s, row: Row, values: Int64s, complete: bool) -> bool:
    """Whether the properties that are parsed as numbers are numbers; the inner batch only if ``complete``."""
    if not rules[Rules.REQUIRES_NUMBERS]:
        return True
    if values[Property.DELAY, 0] >= 0 and is_schedule_topic(buffer, row.topic_start, row.topic_stop):
        if not parse_int(buffer, *value_of(values, Property.DELAY))[0]:
            return False
    if complete and rules[Rules.KNOWS_INNER_BATCH] and has_inner_batch(values):
        return inner_batch(buffer, values)[0]
    return True


@kernel
def check_record(
    buffer: Buffer,
    at: int,
    window_stop: int,
    segment_stop: int,
    base: int,
    cut: int,
    rules: Int64s,
    kept: int,
    row: Row,
    values: Int64s,
) -> int:
    """Return the ``Outcome`` of a frame; fills ``row`` and its ``values`` for RECORD and MISMATCH.

    ``row`` has TOTALSIZE wherever a record begins, else 0. A 0 on disk is not a size to skip.
    """
    row.total_size = 0
    outcome, total_size, magic = _check_start(buffer, at, window_stop, segment_stop, rules)
    if outcome != Outcome.RECORD:
        return outcome
    row.lead = rules[Rules.LEAD]
    at += row.lead
    row.total_size = total_size
    array = max(total_size, kept)
    outcome, position = _check_head(buffer, at, window_stop, segment_stop, array, row)
    if outcome != Outcome.RECORD:
        return outcome
    row.log_offset = base + at
    position += row.body_length - cut
    width = 2 if magic == _MAGIC_V2 else 1
    outcome = _check_topic(buffer, position, width, window_stop, segment_stop - cut, array, row)
    if outcome != Outcome.RECORD:
        return outcome
    outcome = _check_properties(buffer, window_stop, segment_stop - cut, array, row)
    if outcome != Outcome.RECORD:
        return outcome
    start = row.topic_stop + 2
    stop = start + row.properties_length
    row.read_length = stop + cut - at
    row.stray_pieces = scan_properties(buffer, start, stop, _NAMES, _NAME_BOUNDS, values)
    if not _check_numbers(buffer, rules, row, values, row.read_length == total_size):
        return Outcome.BAD_NUMBER
    if row.read_length == total_size:
        return Outcome.RECORD
    return Outcome.MISMATCH if total_size else Outcome.BAD_LENGTH


@kernel
def walk_records(
    buffer: Buffer,
    at: int,
    stop: int,
    window_stop: int,
    segment_stop: int,
    base: int,
    cut: int,
    rules: Int64s,
    kept: int,
    rows: Rows,
    values: Int64s,
    passed: Rows,
) -> tuple[int, int, int, int, int]:
    """Walk the chain of records from ``at`` until something other than a record comes.

    Records that begin at ``stop`` or later are not taken; with ``cut``, only one is. ``rows`` and ``values``
    are filled, and ``passed``, of ``MISMATCH_ROW``, with records whose lengths do not add up: as a broker
    does, the walk goes on after the bytes that were read. Without room for any, the first one ends the walk.

    Returns:
        The ``Outcome`` that ended the walk (never RECORD), its index, how many rows and how many
        of ``passed`` there are, and the array then kept.
    """
    count = mismatches = 0
    while at < stop:
        if count == len(rows) or (mismatches and mismatches == len(passed)):
            return Outcome.FULL, at, count, mismatches, kept
        outcome = check_record(
            buffer, at, window_stop, segment_stop, base, cut, rules, kept, rows[count], values[count]
        )
        if kept < rows[count].total_size <= rules[Rules.KEPT_ARRAY]:
            kept = as_int(rows[count].total_size)
        if outcome == Outcome.RECORD:
            at = frame_stop(rows[count]) - base
            count += 1
        elif outcome == Outcome.MISMATCH and len(passed):
            lying = passed[mismatches]
            lying.log_offset, lying.total_size = base + at, frame_stop(rows[count]) - base - at
            lying.read_length = rules[Rules.LEAD] + rows[count].read_length
            at += lying.read_length
            mismatches += 1
        else:
            return outcome, at, count, mismatches, kept
        if cut:
            break
    return Outcome.STOP, at, count, mismatches, kept


@entry(lambda: (np.empty(1, np.uint8), 0, 0, 0, 0, 0, rules_of(LENIENT), *no_messages()[1:3]))
@kernel
def find_record(
    buffer: Buffer,
    at: int,
    stop: int,
    window_stop: int,
    segment_stop: int,
    base: int,
    rules: Int64s,
    rows: Rows,
    values: Int64s,
) -> tuple[int, int]:
    """Find the first intact frame or end mark at ``at`` or after it.

    Intact means: the magic is right, PHYSICALOFFSET is the record's place, and the lengths add up; an end
    mark states the rest of the segment.

    Returns:
        RECORD or FILE_END with its index; NEED with the index from which more bytes are needed; STOP.
    """
    lead, end_at = rules[Rules.LEAD], rules[Rules.END_MAGIC_AT]
    end_byte = np.uint8(rules[Rules.END_MAGIC] >> 24 & 0xFF)
    while at < stop:
        if segment_stop - at < 8:
            return Outcome.STOP, stop
        if window_stop - at < min(lead + 8, segment_stop - at):
            return Outcome.NEED, at
        has_room = lead + 8 <= segment_stop - at
        if buffer[at + end_at] == end_byte or (has_room and buffer[at + lead + MAGIC_AT] == _FIRST_OF_MAGIC):
            outcome, total_size, _ = _check_start(buffer, at, window_stop, segment_stop, rules)
            if outcome == Outcome.FILE_END and total_size == segment_stop - at:
                return Outcome.FILE_END, at
            place = at + lead
            if outcome == Outcome.RECORD and segment_stop - place >= SYS_FLAG_AT:
                if window_stop - place < SYS_FLAG_AT:
                    return Outcome.NEED, at
                if read_i64(buffer, place + PHYSICAL_OFFSET_AT) == base + place:
                    outcome = check_record(
                        buffer, at, window_stop, segment_stop, base, 0, rules, 0, rows[0], values[0]
                    )
                    if outcome in (Outcome.RECORD, Outcome.NEED):
                        return outcome, at
        at += 1
    return Outcome.STOP, stop


@kernel
def _tell_head(buffer: Buffer, at: int, base: int, rules: Int64s, gap: Row) -> None:
    """Note what a gap that begins at ``at`` has in place of a frame."""
    place = at + rules[Rules.LEAD]
    gap.own = read_i64(buffer, place + PHYSICAL_OFFSET_AT) == base + place
    gap.is_end = read_i32(buffer, at + rules[Rules.END_MAGIC_AT]) == rules[Rules.END_MAGIC]
    if gap.is_end:
        gap.total_size, gap.magic = read_i32(buffer, at + rules[Rules.END_SIZE_AT]), rules[Rules.END_MAGIC]
    else:
        gap.total_size, gap.magic = read_i32(buffer, place), read_i32(buffer, place + MAGIC_AT)


_LARGEST_HEAD = max(message.HEAD_SIZES)
_NO_DAMAGE = (Outcome.NEED.value, Outcome.STOP.value, Outcome.FULL.value)


@entry(
    lambda: (
        *(np.empty(1, np.uint8), 0, 0, 0, 0, 0, 0, rules_of(LENIENT), 0),
        *no_messages()[1:3],
        *empty(MISMATCH_ROW, GAP_ROW),
    )
)
@kernel
def walk_over_damage(
    buffer: Buffer,
    at: int,
    stop: int,
    window_stop: int,
    segment_stop: int,
    base: int,
    cut: int,
    rules: Int64s,
    kept: int,
    rows: Rows,
    values: Int64s,
    passed: Rows,
    gaps: Rows,
) -> tuple[int, int, int, int, int, int]:
    """Walk as ``walk_records``; after damage continue at the next intact record if the window has all of it.

    ``gaps``, of ``GAP_ROW``, is filled; without room for any, as with ``cut``, damage ends the walk. One of
    ``gaps`` and ``passed`` is ``(0,)``.

    Returns:
        Results of ``walk_records``, and the number of gaps.
    """
    count = gaps_there = 0
    while True:
        outcome, at, walked, mismatches, kept_now = walk_records(
            buffer,
            at,
            stop,
            window_stop,
            segment_stop,
            base,
            cut,
            rules,
            kept,
            rows[count:],
            values[count:],
            passed,
        )
        count += walked
        room = window_stop - at
        if (
            outcome in _NO_DAMAGE
            or cut
            or gaps_there == len(gaps)
            or room < rules[Rules.LEAD] + _LARGEST_HEAD
        ):
            return outcome, at, count, mismatches, kept_now, gaps_there
        size_at = at + rules[Rules.END_SIZE_AT]
        if outcome == Outcome.FILE_END and read_i32(buffer, size_at) == segment_stop - at:
            return outcome, at, count, mismatches, kept_now, gaps_there
        met, after = find_record(
            buffer, at + 1, stop, window_stop, segment_stop, base, rules, rows[count:], values[count:]
        )
        if met not in (Outcome.RECORD, Outcome.FILE_END):
            return outcome, at, count, mismatches, kept_now, gaps_there
        gap = gaps[gaps_there]
        gap.row, gap.start, gap.stop = count, base + at, base + after
        gap.reason = Outcome.MISMATCH if outcome == Outcome.FILE_END else outcome
        _tell_head(buffer, at, base, rules, gap)
        gap.data_start = min(base + _first_nonzero(buffer, at, after), base + stop)
        gaps_there += 1
        at = after


@kernel
def _first_nonzero(buffer: Buffer, at: int, stop: int) -> int:
    while at < stop and buffer[at] == 0:
        at += 1
    return at
