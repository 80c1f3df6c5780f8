"""Small items are put together, large ones stay alone, none is lost."""

from __future__ import annotations

import pytest

from rmqtool.engine import together


@pytest.mark.parametrize(
    ("items", "groups"),
    [
        ([], []),
        (["ab"], [["ab"]]),
        (["a", "bc", "d", "ef"], [["a", "bc"], ["d", "ef"]]),
        (["abcd", "", "e"], [["abcd"], ["", "e"]]),
    ],
)
def test_groups_have_the_least_size_but_for_the_last(items: list[str], groups: list[list[str]]) -> None:
    assert list(together(items, len, 3)) == groups
