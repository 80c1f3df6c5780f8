"""Files of positions: ``checkpoint``, the timer's ``timercheck`` and wheel, and epochs (5.0.0+)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from construct import Int64sb, Struct

from rmqtool.formats.fields import Decoder
from rmqtool.javacompat import masked_crc32, parse_int, parse_long

CHECKPOINT = Struct(
    "physicMsgTimestamp" / Int64sb * "physicMsgTimestamp; ms; last record of the last flushed segment",
    "logicsMsgTimestamp" / Int64sb * "logicsMsgTimestamp; ms; last record put into a consume queue",
    "indexMsgTimestamp" / Int64sb * "indexMsgTimestamp; ms; last item of the last index file that filled",
    "masterFlushedOffset" / Int64sb * "masterFlushedOffset; bytes in the log; what the master has flushed",
    "confirmPhyOffset" / Int64sb * "confirmPhyOffset; bytes in the log; what the replicas have confirmed",
    "logicsPhysicalOffset"
    / Int64sb
    * "logicsPhysicalOffset; bytes in the log; last record put into a consume queue",
)
CHECKPOINT_FILE_SIZE = 4096
_SLACK_MS = 3000
_PAIR = 2


class CheckpointFields(NamedTuple):
    """Fields of a checkpoint; zeros without one."""

    physic_msg_timestamp_ms: int = 0
    logics_msg_timestamp_ms: int = 0
    index_msg_timestamp_ms: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0
    logics_physical_offset: int = 0

    @property
    def minimum_ms(self) -> int:
        """``StoreCheckpoint#getMinTimestamp``, by which recovery goes."""
        return max(min(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms) - _SLACK_MS, 0)


CHECKPOINTS = Decoder(CHECKPOINT, CheckpointFields._make)


TIMER_CHECKPOINT = Struct(
    "lastReadTime" / Int64sb * "lastReadTimeMs; ms; deliveries up to here are done",
    "lastTimerLogFlushPos" / Int64sb * "lastTimerLogFlushPos; bytes in the timer log; flushed up to here",
    "lastTimerQueueOffset" / Int64sb * "lastTimerQueueOffset; units; next of its topic to be read",
    "masterTimerQueueOffset" / Int64sb * "masterTimerQueueOffset; units; how far the master has read",
)


SLOT = struct.Struct(">qqqii")
"""A slot of ``timerwheel``: time in units of timerPrecisionMs, positions of first and last unit, messages."""

TIMER_UNIT = struct.Struct(">i8xi12xq16x")
"""A unit of the timer log: its size, magic and the physical offset of its message, of more."""

TIMER_UNIT_MAGICS = 0xF
"""Bits that the magic of a unit may have (``TimerMessageStore#isMagicOK``)."""

TIMER_UNIT_COLUMNS = {"size": (">i4", 0), "magic": (">i4", 12), "physicalOffset": (">i8", 28)}
"""The same as numpy types and places in the unit."""

WHEEL_BYTES = 2 * 7 * 86_400 * SLOT.size


class TimerCheckpoint(NamedTuple):
    """Progress of the timer."""

    last_read_time_ms: int
    last_timer_log_flush_pos: int
    last_timer_queue_offset: int
    master_timer_queue_offset: int


TIMER_CHECKPOINTS = Decoder(TIMER_CHECKPOINT, TimerCheckpoint._make)


def epochs_of(data: bytes) -> dict[int, int] | None:
    """Return the physical offset at which each epoch begins; empty of a file in whose place the .bak is read.

    The lines are the number of epochs, the CRC-32 of those after it (0: none), and ``EPOCH-OFFSET`` for each
    (``CheckpointFile#read``, ``EpochFileCache.EpochEntrySerializer``, 5.3.3, 5.5.1). None where a number is
    missing: nobody catches that exception, and it ends the start, whatever the .bak has.
    """
    try:
        text = data.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        return {}
    lines = text.removesuffix("\n").split("\n") if text else []
    heads = [parse_int(line) for line in (*lines, "", "")[:2]]
    pairs = [pair for line in lines[2:] if len(pair := line.rstrip("-").split("-")) == _PAIR]
    epochs: dict[int, int] = {}
    for epoch, offset in ((parse_int(first), parse_long(second)) for first, second in pairs):
        if epoch is None or offset is None:
            return None
        epochs[epoch] = offset
    if None in heads:
        return None
    checksum = masked_crc32("".join(f"{line}\n" for line in lines[2:]).encode())
    return epochs if heads[0] == len(pairs) and heads[1] in {0, checksum} else {}
