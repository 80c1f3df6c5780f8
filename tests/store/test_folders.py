"""Names of folders for many stores: short, and each another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.store.results import folder_names
from tests.strategies import examples


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/data/a", "/data/b"], ["a", "b"]),
        (["/data/a/store", "/data/b/store", "/data/c"], ["a-store", "b-store", "c"]),
        (["/x/a/store", "/y/a/store"], ["x-a-store", "y-a-store"]),
        (["/x/a", "/x/a", "/x/b"], ["a", "a-2", "b"]),
        (["/", "/root"], ["root", "root-2"]),
        (["/store", "/a/store"], ["store", "a-store"]),
        ([], []),
    ],
)
def test_names_are_the_ends_of_paths(paths: list[str], names: list[str]) -> None:
    assert folder_names(paths) == names


@examples(40)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "a-b", "b-2"]), max_size=4)))
def test_no_two_are_the_same(parts: list[list[str]]) -> None:
    names = folder_names(["/" + "/".join(one) for one in parts])
    assert len({*names}) == len(parts)
    assert not any("/" in name for name in names)
