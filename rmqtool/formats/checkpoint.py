"""The ``checkpoint`` file: 4096 bytes, six fields, the rest zero.

Source: ``StoreCheckpoint`` (4.9.8 has the first three; 5.0.0 added the fourth, 5.1.1 the fifth, 5.5.0 the
sixth). Brokers leave the fields alone that they do not know.
"""

from __future__ import annotations

from typing import NamedTuple

from construct import Int64sb, Struct

from rmqtool.formats.fields import Decoder

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
