"""The measure itself: sound stores have all of their messages, and each figure counts what it says."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import pytest

from tests.broker import jvm
from tests.broker.measured import Copy, Measured, measured
from tests.broker.stores import fixture_store, fixture_stores
from tests.broker.whole_messages import whole_messages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.broker

_UNIT = struct.Struct(">qiq")
_KEYLESS = {"noindex-4.9.8", "noindex-5.3.3", "noindex-5.4.0", "noindex-5.5.1"}
# Its brokers take offset 0 for the log's first byte, wherever that lies (`findMappedFileByOffset`).
_DELIVERS_AT_0 = {"expiredhead-4.9.8": 1}


@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_sound_stores_have_all_of_their_messages(version: jvm.Version, tmp_path: Path) -> None:
    stores = [store for store in fixture_stores() if store.version == version]
    copies = [Copy(store.copy_to(tmp_path / store.name), store.conf, store.name) for store in stores]
    results = measured(copies, version)
    assert len(results) > 15
    for store, result in zip(stores, results, strict=True):
        outcome, messages = result.outcome, [one for one in whole_messages(store.root) if one.is_dispatched]
        assert outcome.starts, store.name
        assert outcome.served is not None
        assert outcome.served >= sum(one.messages for one in messages) > 0, store.name
        assert outcome.wrong == _DELIVERS_AT_0.get(store.name, 0), (store.name, result.wrong)
        assert outcome.unindexed == (len(messages) if store.name in _KEYLESS else 0), store.name
        assert (outcome.unserved, outcome.lost, outcome.reused, outcome.placeholders) == (0, 0, 0, 0), (
            store.name,
            result.unserved,
        )


def _units_of_others_behind_the_end(root: Path) -> None:
    """Three units of Orders/0 behind the last unit of TopicTest/0."""
    theirs = min((root / "consumequeue" / "Orders" / "0").iterdir()).read_bytes()
    path = max((root / "consumequeue" / "TopicTest" / "0").iterdir())
    data = bytearray(path.read_bytes())
    used = sum(1 for _, size, _ in _UNIT.iter_unpack(data) if size)
    data[used * _UNIT.size : (used + 3) * _UNIT.size] = theirs[: 3 * _UNIT.size]
    path.write_bytes(data)


def _no_last_log_file(root: Path) -> None:
    max((root / "commitlog").iterdir()).unlink()
    (root / "abort").touch()


def _no_index(root: Path) -> None:
    shutil.rmtree(root / "index")


def _no_first_queue_file(root: Path) -> None:
    min((root / "consumequeue" / "TopicTest" / "0").iterdir()).unlink()


def _zeros_in_the_log(root: Path) -> None:
    path = root / "commitlog" / "00000000000000016384"
    data = path.read_bytes()
    path.write_bytes(data[:4096] + bytes(2048) + data[4096 + 2048 :])


def _stray(root: Path) -> None:
    (root / "commitlog" / "notes.txt").write_text("moved on Friday")


_CASES: dict[str, tuple[Callable[[Path], None], Callable[[Measured], bool]]] = {
    "units of others behind the end": (
        _units_of_others_behind_the_end,
        lambda one: one.outcome[1:7] == (163, 3, 0, 0, 0, 0),
    ),
    "no last log file": (
        _no_last_log_file,
        lambda one: one.outcome.lost == one.outcome.reused == 19 and one.outcome.served == 144,
    ),
    "no index": (_no_index, lambda one: one.outcome.served == 163 and one.outcome.unindexed == 161),
    "no first queue file": (
        _no_first_queue_file,
        lambda one: one.outcome.unserved == 10 and one.outcome.served == 153,
    ),
    "zeros in the log": (
        _zeros_in_the_log,
        lambda one: bool(one.outcome.wrong) and one.outcome.lost == 163 - (one.outcome.served or 0) > 0,
    ),
    "a stray file": (
        _stray,
        lambda one: one.outcome == (False, None, None, None, None, 0, None, None),
    ),
}


def test_each_figure_counts_what_it_says(tmp_path: Path) -> None:
    store = fixture_store("plain-5.3.3")
    copies = []
    for number, (edit, _) in enumerate(_CASES.values()):
        copies.append(Copy(store.copy_to(tmp_path / str(number)), store.conf, store.name))
        edit(copies[-1].root)
    results = measured(copies, "5.3.3")
    unlike = {
        name: (result.outcome, result.wrong)
        for (name, (_, is_right)), result in zip(_CASES.items(), results, strict=True)
        if not is_right(result)
    }
    assert unlike == {}
