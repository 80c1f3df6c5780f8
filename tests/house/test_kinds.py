"""One table of kinds of files: whatever is done kind by kind is done for every one of them."""

from __future__ import annotations

from rmqtool.check.derived import CHECKS
from rmqtool.commands.diff.run import QUEUE_DIFFS
from rmqtool.commands.dump.derived import UNIT_DUMPS
from rmqtool.commands.dump.hex import layout_rows
from rmqtool.commands.dump.run import DUMPS
from rmqtool.store.kinds import DIRECTORY_NAMES, KINDS, QUEUE_KINDS, PathKind

BINARY = {kind for kind, one in KINDS.items() if one.schemas}


def test_every_kind_is_in_the_table() -> None:
    assert list(KINDS) == [kind for kind in PathKind if kind is not PathKind.STORE]
    assert all(one.kind is kind for kind, one in KINDS.items())


def test_bytes_tell_every_binary_kind() -> None:
    asked = [one.rank for one in KINDS.values() if one.recognises is not None]
    assert {kind for kind, one in KINDS.items() if one.recognises is not None} == BINARY
    assert sorted(asked) == list(range(1, len(BINARY) + 1))


def test_every_kind_can_be_dumped() -> None:
    assert set(DUMPS) == set(KINDS)
    assert set(UNIT_DUMPS) == {*QUEUE_KINDS, PathKind.ENTRY_INDEX}
    assert {row.structure for kind in BINARY for row in layout_rows(kind)} == {
        name for one in KINDS.values() for name in one.schemas
    }


def test_every_derived_kind_is_compared_and_checked() -> None:
    derived = DIRECTORY_NAMES.keys() - {PathKind.COMMITLOG}
    checked = [kind for one in CHECKS for kind in one.kinds]
    assert sorted(checked) == sorted(derived)
    assert {*QUEUE_DIFFS, PathKind.CONSUMEQUEUE_EXT} == set(QUEUE_KINDS)
    assert all(KINDS[kind].units for kind in QUEUE_KINDS if kind is not PathKind.CONSUMEQUEUE_EXT)
