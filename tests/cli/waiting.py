"""Waiting for what another process writes."""

from __future__ import annotations

import select


def readable(descriptor: int, seconds: float) -> bool:
    """Wait until something can be read; by poll, as select takes no descriptor above 1,023."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(max(0.0, seconds) * 1000))
