"""What messages of the broker's own topics are about, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool.report.escaping import escape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.rows import Message

_NAMED = 8
"""Queue offsets that are named; a batch of op messages has thousands."""


def system_text(row: Message, time: Callable[[int], str]) -> str | None:
    """Say what a message of the broker's own is about; None for any other.

    Args:
        row: The message.
        time: Writes a time in ms.
    """
    found = row.explanation
    return None if found is None else escape_text(_SENTENCES[str(found["kind"])](found, time))


def _meant_for(found: dict[str, Any]) -> str:
    queue_id = "?" if found["queueId"] is None else found["queueId"]
    return f"{found['topic'] or '?'}/{queue_id}"


def _half(found: dict[str, Any], _: Callable[[int], str]) -> str:
    return f"half message for {_meant_for(found)}"


def _op(found: dict[str, Any], _: Callable[[int], str]) -> str:
    offsets = found["queueOffsets"]
    more = f" and {len(offsets) - _NAMED} more" if len(offsets) > _NAMED else ""
    return f"ends the half messages of queue offset {', '.join(map(str, offsets[:_NAMED])) or '?'}{more}"


def _delay(found: dict[str, Any], time: Callable[[int], str]) -> str:
    return f"delay level {found['level']} for {_meant_for(found)}{_due(found, time)}"


def _timer(found: dict[str, Any], time: Callable[[int], str]) -> str:
    return f"timer message for {_meant_for(found)}{_due(found, time)}"


def _due(found: dict[str, Any], time: Callable[[int], str]) -> str:
    due = found["deliverTimestamp"]
    return "" if due is None else f", due {time(due)}"


def _retry(found: dict[str, Any], _: Callable[[int], str]) -> str:
    return f"to be consumed again by group {found['group']}, {_origin(found)}"


def _dead_letter(found: dict[str, Any], _: Callable[[int], str]) -> str:
    return f"dead letter of group {found['group']}, {_origin(found)}"


def _origin(found: dict[str, Any]) -> str:
    return f"first of topic {found['topic'] or '?'}, {found['reconsumeTimes']} times failed"


def _multi_dispatch(found: dict[str, Any], _: Callable[[int], str]) -> str:
    queues = found["queues"]
    offsets = ("?" if one["queueOffset"] is None else str(one["queueOffset"]) for one in queues)
    return f"also in {','.join(one['topic'] for one in queues)} at {','.join(offsets)}"


_SENTENCES: dict[str, Callable[[dict[str, Any], Callable[[int], str]], str]] = {
    "half": _half,
    "op": _op,
    "delay": _delay,
    "timer": _timer,
    "retry": _retry,
    "dead-letter": _dead_letter,
    "multi-dispatch": _multi_dispatch,
}
