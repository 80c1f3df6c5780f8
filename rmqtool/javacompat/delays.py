"""The setting ``messageDelayLevel``: how long a message of each delay level waits."""

from __future__ import annotations

from typing import NamedTuple

from rmqtool.javacompat.integers import parse_long, wrap_long

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class DelayLevels(NamedTuple):
    """The delay table as it stands after a broker has read the setting."""

    delay_ms: dict[int, int]
    """Delay of every level that was read, level 1 first."""

    max_level: int
    """Level to which higher ones are cut. One more than the table's last if the next piece was malformed."""

    valid: bool
    """Whether the whole setting was read. A broker does not load otherwise."""


def read_delay_levels(text: str) -> DelayLevels:
    """Read ``messageDelayLevel``, for example ``1s 5s 1m 2h``.

    Java: ``ScheduleMessageService#parseDelayLevel`` (4.9.8, 5.3.3), and the same again in
    ``DefaultMessageStore#parseDelayLevel`` (5.3.3).
    Cut at single spaces; an empty piece, an unknown unit or a malformed number ends the reading. Then the
    levels before it stay, and the malformed level still raises the maximum unless it was empty.
    """
    delay_ms: dict[int, int] = {}
    for level, piece in enumerate(_split_java(text), start=1):
        if not piece:
            return DelayLevels(delay_ms, level - 1, valid=False)
        unit = _UNIT_MS.get(piece[-1])
        number = parse_long(piece[:-1])
        if unit is None or number is None:
            return DelayLevels(delay_ms, level, valid=False)
        delay_ms[level] = wrap_long(unit * number)
    return DelayLevels(delay_ms, len(delay_ms), valid=True)


def _split_java(text: str) -> list[str]:
    """Split as ``String#split``: empty pieces at the end are dropped, but an empty text is one piece."""
    stripped = text.rstrip(" ")
    return stripped.split(" ") if stripped or not text else []
