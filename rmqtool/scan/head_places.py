"""Where the numbers of a record's head lie, as kernels take them: bytes from its start.

Arrays are by host variant, as the rest of the head moves with the length of the hosts.
"""

from __future__ import annotations

import numpy as np

from rmqtool.formats import message

_AT = message.HEAD_OFFSETS
_PORT_BYTES = 4

MAGIC_AT, BODY_CRC_AT, QUEUE_ID_AT, FLAG_AT, QUEUE_OFFSET_AT, PHYSICAL_OFFSET_AT, SYS_FLAG_AT = (
    _AT[0][name]
    for name in ("magic", "bodyCrc", "queueId", "flag", "queueOffset", "physicalOffset", "sysFlag")
)
BORN_TIMESTAMP_AT, BORN_HOST_AT = _AT[0]["bornTimestamp"], _AT[0]["bornHost"]
STORE_TIMESTAMP_AT = np.array([at["storeTimestamp"] for at in _AT])
STORE_HOST_AT = np.array([at["storeHost"] for at in _AT])
RECONSUME_TIMES_AT = np.array([at["reconsumeTimes"] for at in _AT])
PREPARED_OFFSET_AT = np.array([at["preparedTransactionOffset"] for at in _AT])
BODY_LENGTH_AT = np.array([at["bodyLength"] for at in _AT])
# A port ends its host.
BORN_PORT_AT, STORE_PORT_AT = STORE_TIMESTAMP_AT - _PORT_BYTES, RECONSUME_TIMES_AT - _PORT_BYTES
HEAD_SIZES = np.array(message.HEAD_SIZES)
BORN_V6, STORE_V6, VARIANT_SHIFT = message.BORN_HOST_V6, message.STORE_HOST_V6, message.VARIANT_SHIFT
"""SYSFLAG says which variant it is: ``(sysFlag >> VARIANT_SHIFT) & 3``."""
