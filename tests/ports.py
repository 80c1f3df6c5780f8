"""Ports of loopback, for servers that have to be told theirs."""

from __future__ import annotations

import random
import socket

_FIRST, _EPHEMERAL = 10_000, 32_768
"""From the second on the system gives ports to whoever connects somewhere, at any time."""
_ATTEMPTS = 50


def free_ports(count: int = 1) -> int:
    """Return the first of so many ports in a row that nobody has.

    Raises:
        OSError: There are none.
    """
    chance = random.SystemRandom()  # several processes choose at the same time
    for _ in range(_ATTEMPTS):
        first = chance.randrange(_FIRST, _EPHEMERAL - count)
        if all(_is_free(first + number) for number in range(count)):
            return first
    raise OSError(f"no {count} free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
