"""What messages of the broker's own topics are about, in words.

Source: ``TransactionalMessageUtil``, ``TopicValidator``, ``MixAll``, ``MessageConst`` (4.9.8, 5.3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.report.escaping import escape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.commands.rows import Message

_RETRY, _DEAD = "%RETRY%", "%DLQ%"


def system_text(row: Message, time: Callable[[int], str]) -> str | None:
    """Say what a message of the broker's own is about; None for any other.

    Args:
        row: The message.
        time: Writes a time in ms.
    """
    properties = row.properties
    about = f"{properties.get('REAL_TOPIC', '?')}/{properties.get('REAL_QID', '?')}"
    if row.topic == "RMQ_SYS_TRANS_HALF_TOPIC":
        said = f"half message for {about}"
    elif row.topic == "RMQ_SYS_TRANS_OP_HALF_TOPIC":
        said = f"ends the half messages of queue offset {row.body[:64].decode('ascii', 'replace')}"
    elif row.topic == "SCHEDULE_TOPIC_XXXX" and "DELAY" in properties:
        said = f"delay level {properties['DELAY']} for {about}, due {time(row.tags_code)}"
    elif row.topic.startswith(_RETRY):
        said = f"to be consumed again by group {row.topic.removeprefix(_RETRY)}, {_origin(row)}"
    elif row.topic.startswith(_DEAD):
        said = f"dead letter of group {row.topic.removeprefix(_DEAD)}, {_origin(row)}"
    elif "INNER_MULTI_DISPATCH" in properties:
        offsets = properties.get("INNER_MULTI_QUEUE_OFFSET", "?")
        said = f"also in {properties['INNER_MULTI_DISPATCH']} at {offsets}"
    else:
        return None
    return escape_text(said)


def _origin(row: Message) -> str:
    return f"first of topic {row.properties.get('RETRY_TOPIC', '?')}, {row.reconsume_times} times failed"
