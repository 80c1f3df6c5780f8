"""The script that compares two releases finds what is known to have changed between them."""

from __future__ import annotations

import pytest

from tests.broker.bytecode import change, comparable, constants_changed, simple_name
from tests.broker.scripts import script


@pytest.mark.broker
def test_settings_that_a_release_brought() -> None:
    changed = script("compare_releases").settings_changed("5.5.0", "5.5.1")
    assert "setting maxCheckMessageReuseBufferSize: none -> int 1048576" in changed
    assert "setting rocksdbCQSelectiveDoubleWriteEnable: none -> boolean false" in changed
    assert not any("storePathRootDir" in line for line in changed)


@pytest.mark.broker
def test_methods_and_constants_that_a_release_changed() -> None:
    compare = script("compare_releases")
    old, new = (compare.classes(version, broker=False) for version in ("5.3.3", "5.4.0"))
    changed = list(compare.classes_changed(old, new))
    (tag_items,) = (line for line in changed if line.startswith("member IndexService#buildIndex: "))
    assert "dispatch/index_keys.py" in tag_items
    assert "member ConsumeQueueStore#isMappedFileMatchedRecover: is new; cited in" in "\n".join(changed)
    assert any(
        line.startswith("constant MessageConst: + ") and "_SYS_MSG_PRIORITY_" in line for line in changed
    )
    assert not any(line.startswith("member IndexFile#putKey") for line in changed)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("      12: aload_2", "      14: aload         12"),
        ("      12: ldc           #7       // String a", "      14: ldc_w         #300     // String a"),
        ("      12: ifnull        40", "      14: ifnull        50"),
        ("      12: iinc          3, 1", "      14: iinc          4, 1"),
        ("           4: 40", "           4: 44"),
        (
            "           1    44    47   Class java/lang/Error",
            "           1    48    49   Class java/lang/Error",
        ),
        (
            "      12: invokestatic  #3  // Method access$100:()V",
            "      14: invokestatic  #4  // Method access$200:()V",
        ),
    ],
)
def test_what_another_line_of_a_class_changes_is_no_change(one: str, other: str) -> None:
    assert comparable(one) == comparable(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("      12: bipush        20", "      12: bipush        46"),
        ("      12: ifle          40", "      12: iflt          40"),
        ("      12: iinc          3, 1", "      12: iinc          3, 2"),
        ("      12: ldc           #7       // String a", "      12: ldc           #7       // String b"),
        ("           4: 40", "           8: 40"),
    ],
)
def test_what_a_line_does_is_kept(one: str, other: str) -> None:
    assert comparable(one) != comparable(other)


def test_a_class_is_cited_by_its_own_name() -> None:
    assert (
        simple_name("org.apache.rocketmq.store.CommitLog$DefaultAppendMessageCallback")
        == "DefaultAppendMessageCallback"
    )
    assert simple_name("org.apache.rocketmq.store.index.IndexService$1") == "IndexService"


def test_changes_are_counted_by_line() -> None:
    assert change(["a", "b"], ["a", "b"]) == []
    assert change(["a", "b"], ["a", "c", "d"]) == ["-b", "+c", "+d"]
    old, new = (
        {"": ["ldc           String one", "aload"]},
        {"X": ["public static final int X = 1;", "astore"]},
    )
    assert constants_changed(old, new) == ["- ldc           String one", "+ public static final int X = 1;"]
