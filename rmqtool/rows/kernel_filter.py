"""What messages must be like, in the form that kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.scan.plain_kernels import GLOBS_APART, RowFilter
from rmqtool.scan.prefilter import EARLIEST_MS, LATEST_MS

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.rows.messages import MessageFilter


@dataclass(frozen=True)
class KernelFilter:
    """A ``MessageFilter`` for kernels.

    Attributes:
        numbers: By ``RowFilter``, int64.
        topic: Globs of ``*`` and ``?``, ``GLOBS_APART`` between them, uint8; not looked at if none is wanted.
        tag: The tag, uint8.
        key: The key or unique key, uint8.
    """

    numbers: npt.NDArray[np.int64]
    topic: npt.NDArray[np.uint8]
    tag: npt.NDArray[np.uint8]
    key: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, messages: MessageFilter, odd_flags: int) -> KernelFilter:
        """Return a filter; messages with one of ``odd_flags`` in SYSFLAG are not plain.

        Raises:
            UnicodeEncodeError: A text is no UTF-8.
        """
        numbers = np.zeros(len(RowFilter), np.int64)
        numbers[RowFilter.BEGIN_MS] = EARLIEST_MS if messages.begin_ms is None else messages.begin_ms
        numbers[RowFilter.END_MS] = LATEST_MS if messages.end_ms is None else messages.end_ms
        numbers[RowFilter.QUEUE_OFFSET] = (
            EARLIEST_MS if messages.from_queue_offset is None else messages.from_queue_offset
        )
        numbers[RowFilter.HAS_QUEUE] = messages.queue_id is not None
        numbers[RowFilter.QUEUE_ID] = messages.queue_id or 0
        numbers[RowFilter.HAS_TOPIC] = messages.topic is not None
        numbers[RowFilter.HAS_TAG] = messages.tag is not None
        numbers[RowFilter.HAS_KEY] = messages.key is not None
        numbers[RowFilter.ODD_FLAGS] = odd_flags
        globs = bytes([GLOBS_APART]).join(topic.encode() for topic in messages.topics)
        texts = (globs, (messages.tag or "").encode(), (messages.key or "").encode())
        return cls(numbers, *(np.frombuffer(text, np.uint8) for text in texts))
