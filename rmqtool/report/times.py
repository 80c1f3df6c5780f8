"""Sizes for people."""

from __future__ import annotations

_STEPS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(size_bytes: float) -> str:
    """Return a number of bytes with a unit, three digits or so."""
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    value = float(size_bytes)
    for step in _STEPS:
        value /= 1024
        if value < 1024 or step == _STEPS[-1]:
            return f"{value:.1f} {step}"
    raise AssertionError("the last step returns")
