"""The ``checkpoint`` file: 4096 bytes, six fields, the rest zero.

Source: ``StoreCheckpoint`` (4.9.8 has the first three; 5.0.0 added the fourth, 5.1.1 the fifth, 5.5.0 the
sixth). Brokers leave the fields alone that they do not know.
"""

from __future__ import annotations

from construct import Int64sb, Struct

from rmqtool.formats.fields import fixed_size

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
CHECKPOINT_SIZE: int = fixed_size(CHECKPOINT)
CHECKPOINT_FILE_SIZE = 4096
