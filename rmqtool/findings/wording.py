"""How sentences speak of numbers of things."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "", *, spec: str = "d") -> str:
    """Return a number and what it counts: ``1 unit``, ``2 units``, ``1 entry has``, ``2 entries have``.

    Args:
        number: how many.
        one: what a single one is called, with its verb where the sentence has one.
        many: what several are called; ``one`` with an ``s`` if not given.
        spec: how the number is formatted; ``,`` for people.
    """
    noun = one if number == 1 else many or f"{one}s"
    return f"{number:{spec}} {noun}"
