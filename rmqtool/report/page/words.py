"""Text, times and numbers as the page shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.report.escaping import escape_text
from rmqtool.times import time_text

if TYPE_CHECKING:
    from datetime import tzinfo

_LONGEST_NAME = 80
_LONGEST_SENTENCE = 400


def shown(text: str, limit: int = _LONGEST_NAME) -> str:
    """Return an escaped name; the middle of a long one is left out."""
    return shortened(escape_text(text), limit)


def shortened(harmless: str, limit: int = _LONGEST_SENTENCE) -> str:
    """Return text that is escaped already; the middle of a long one is left out."""
    if len(harmless) <= limit:
        return harmless
    return f"{harmless[: limit * 2 // 3]} … {harmless[-(limit // 4) :]}"


class Clock(NamedTuple):
    """Times as the page shows them; ``zone`` None is this machine's."""

    zone: tzinfo | None

    def __call__(self, moment_ms: int | None) -> str:
        """Return a time to the second; nothing for None."""
        if moment_ms is None:
            return ""
        text = time_text(moment_ms, self.zone)
        date, point, rest = text.partition(".")
        return f"{date}{rest[3:]}" if point else text

    def exact(self, moment_ms: int) -> str:
        """Return a time to the millisecond."""
        return time_text(moment_ms, self.zone)


def span(duration_ms: int) -> str:
    """Return a length of time in its two largest units."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    parts = []
    left = duration_ms // 1000
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, seconds)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def share(part: float, whole: float) -> str:
    """Return a share in percent."""
    return f"{100 * part / whole:.1f} %" if whole else ""
