"""One thing is not several."""

from __future__ import annotations

import pytest

from rmqtool.findings import counted


@pytest.mark.parametrize(
    ("number", "words", "sentence"),
    [
        (1, ("unit",), "1 unit"),
        (0, ("unit",), "0 units"),
        (2, ("unit",), "2 units"),
        (1, ("entry has", "entries have"), "1 entry has"),
        (3, ("entry has", "entries have"), "3 entries have"),
    ],
)
def test_a_noun_agrees_with_its_number(number: int, words: tuple[str, ...], sentence: str) -> None:
    assert counted(number, *words) == sentence


def test_large_numbers_for_people_are_grouped() -> None:
    assert counted(12345, "byte", spec=",") == "12,345 bytes"
