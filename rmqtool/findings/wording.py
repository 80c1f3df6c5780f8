"""Wording of numbers of things."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "", *, spec: str = "d") -> str:
    """Return a number and its noun: ``1 unit``, ``2 units``, ``1 entry has``, ``2 entries have``.

    ``many`` is ``one`` with an ``s`` by default; ``spec`` formats the number, ``,`` for people.
    """
    noun = one if number == 1 else many or f"{one}s"
    return f"{number:{spec}} {noun}"
