"""The timer's checkpoint, ``config/timercheck``, and its wheel (5.0.0+), as far as they are read.

Source: ``TimerCheckpoint`` (5.3.3); the version of the metrics follows.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from construct import Int64sb, Struct

from rmqtool.formats.fields import Decoder

TIMER_CHECKPOINT = Struct(
    "lastReadTime" / Int64sb * "lastReadTimeMs; ms; deliveries up to here are done",
    "lastTimerLogFlushPos" / Int64sb * "lastTimerLogFlushPos; bytes in the timer log; flushed up to here",
    "lastTimerQueueOffset" / Int64sb * "lastTimerQueueOffset; units; next of its topic to be read",
    "masterTimerQueueOffset" / Int64sb * "masterTimerQueueOffset; units; how far the master has read",
)


SLOT = struct.Struct(">qqqii")
"""A slot of ``timerwheel``: time in units of timerPrecisionMs, positions of first and last unit, messages."""

WHEEL_BYTES = 2 * 7 * 86_400 * SLOT.size


class TimerCheckpoint(NamedTuple):
    """Progress of the timer."""

    last_read_time_ms: int
    last_timer_log_flush_pos: int
    last_timer_queue_offset: int
    master_timer_queue_offset: int


TIMER_CHECKPOINTS = Decoder(TIMER_CHECKPOINT, TimerCheckpoint._make)
