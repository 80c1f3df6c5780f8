"""Reader of the lines of ``replay.ndjson``."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.rows.replay import ReplayMessage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Line(NamedTuple):
    """A message and the number of its line, from 1."""

    number: int
    message: ReplayMessage

    @property
    def key(self) -> str:
        """Return its key in the ledger: unique key and place."""
        one = self.message
        return f"{one.uniq_key or ''}@{one.physical_offset}/{one.topic}/{one.queue_id}/{one.queue_offset}"


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the messages of a file.

    Raises:
        EnvironmentFailureError: It cannot be read.
        UsageError: A line is not a message.
    """
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                if text.strip():
                    yield Line(number, _message(path, number, text))
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be read: {failure.strerror}") from failure


def _message(path: Path, number: int, text: bytes) -> ReplayMessage:
    try:
        found: dict[str, Any] = json.loads(text)
        return ReplayMessage(
            physical_offset=int(found["physicalOffset"]),
            topic=_topic(found),
            queue_id=int(found["queueId"]),
            queue_offset=int(found["queueOffset"]),
            message_group=found["messageGroup"],
            tags=found["tags"],
            keys=[str(one) for one in found["keys"]],
            properties={str(name): str(value) for name, value in found["properties"].items()},
            uniq_key=found["uniqKey"],
            born_timestamp_ms=int(found["bornTimestamp"]),
            store_timestamp_ms=int(found["storeTimestamp"]),
            deliver_timestamp_ms=found["deliverTimestamp"],
            delay_level=found["delayLevel"],
            body=base64.b64decode(found["body"], validate=True),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as failure:
        raise UsageError(
            f"{path}: line {number} is not a message to send ({failure}): make the file with dump --format"
            " replay, or with salvage --replay"
        ) from failure


def _topic(found: dict[str, Any]) -> str:
    if found["type"] != ReplayMessage.type or found["bodyEncoding"] != "base64":
        raise ValueError("it is of another type")
    return str(found["topic"])
