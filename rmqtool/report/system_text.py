"""Explanations of messages of the broker's own topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool.report.escaping import escape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.rows import Message

_NAMED = 8
"""Queue offsets that are named; a batch of op messages has thousands."""


def system_text(row: Message, time: Callable[[int], str]) -> str | None:
    """Return the explanation of a message of the broker's own; None for any other. ``time`` formats ms."""
    found = row.explanation
    return None if found is None else escape_text(_SENTENCES[str(found["kind"])](found, time))


def _meant_for(found: dict[str, Any]) -> str:
    queue_id = "?" if found["queueId"] is None else found["queueId"]
    return f"{found['topic'] or '?'}/{queue_id}"


def _half(found: dict[str, Any], _: Callable[[int], str]) -> str:
    return f"half message for {_meant_for(found)}"


def _op(found: dict[str, Any], _: Callable[[int], str]) -> str:
    if "physicalOffset" in found:
        return f"ends the half message at physical offset {_known(found['physicalOffset'])}"
    return f"ends the half messages of queue offset {_offsets(found)}"


def _offsets(found: dict[str, Any]) -> str:
    offsets = found["queueOffsets"]
    more = f" and {len(offsets) - _NAMED} more" if len(offsets) > _NAMED else ""
    return f"{', '.join(map(str, offsets[:_NAMED])) or '?'}{more}"


def _known(value: object) -> str:
    return "?" if value is None else str(value)


def _popped(found: dict[str, Any]) -> str:
    return f"{_meant_for(found)} by group {_known(found['group'])}"


def _check_point(found: dict[str, Any], time: Callable[[int], str]) -> str:
    due = found["reviveTimestamp"]
    until = "" if due is None else f", hidden until {time(due)}"
    suspended = ", suspended" if found.get("suspended") else ""
    first, count = _known(found["queueOffset"]), _known(found["count"])
    return f"{count} popped from queue offset {first} of {_popped(found)}{until}{suspended}"


def _acknowledged(found: dict[str, Any], _: Callable[[int], str]) -> str:
    return f"acknowledges queue offset {_offsets(found)} of {_popped(found)}"


def _delay(found: dict[str, Any], time: Callable[[int], str]) -> str:
    return f"delay level {found['level']} for {_meant_for(found)}{_due(found, time)}"


def _timer(found: dict[str, Any], time: Callable[[int], str]) -> str:
    rolled = f", rolled: {found['rollLabel']}" if "rollLabel" in found else ""
    return f"timer message for {_meant_for(found)}{_due(found, time)}{rolled}"


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
    "pop-check-point": _check_point,
    "pop-ack": _acknowledged,
    "multi-dispatch": _multi_dispatch,
}
