"""Damaged index files and queues: never a wrong answer, never a loop, and missing ones are said."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.commands.query import Query, QueryRequest
from rmqtool.formats import index, struct_of
from rmqtool.report.console import Console
from rmqtool.rows.messages import has_unit, keys_of
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store
from tests.store.fixture_stores import fixture
from tests.strategies import examples

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.store import Store

_ITEM = struct_of(index.ITEM)
_PREVIOUS_AT = 16


class Listener(Console):
    """Counts warnings and prints nothing."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.warnings: list[str] = []

    def warn(self, sentence: str) -> None:
        self.warnings.append(sentence)


class Copy:
    """A copy of a store that is damaged and mended again and again."""

    def __init__(self, root: Path, records: list[Record]) -> None:
        self.root = root
        self.records = records

    def open(self) -> Store:
        return open_store(self.root, broker_conf=self.root / "broker.conf")


@pytest.fixture(scope="module", params=["collisions-5.3.3", "indexroll-4.9.8"])
def copy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A store with several index files and collisions."""
    root = tmp_path_factory.mktemp("damage") / "store"
    shutil.copytree(fixture(request.param), root)
    store = open_store(root)
    records = [event for event in walk(store.commitlog.segments) if isinstance(event, Record)]
    store.close()
    return Copy(root, records)


def ask(store: Store, listener: Listener, **question: Any) -> list[int]:  # noqa: ANN401 - any field
    """Return the physical offsets of an answer."""
    return [row.physical_offset for row in Query(store, QueryRequest(**question), listener).run()]


def looks_sound(before: bytes, after: bytes, position: int, slots: int, messages: list[int]) -> bool:
    """Whether nothing but the log could tell that a byte was changed.

    It is a link of a chain and leads to another item of it; or a hash that belongs to the same slot; or the
    place of another message with the same key.
    """
    number, at = divmod(position - index.item_position(slots, 0), _ITEM.size)
    if number < 0 or at >= _PREVIOUS_AT:
        return True
    key_hash, offset, *_ = _ITEM.unpack_from(after, index.item_position(slots, number))
    old_hash, *_ = _ITEM.unpack_from(before, index.item_position(slots, number))
    return (
        offset in messages if key_hash == old_hash else key_hash >= 0 and (key_hash - old_hash) % slots == 0
    )


EDITS = st.tuples(st.integers(0, 1 << 20), st.integers(0, 1 << 30), st.integers(1, 255))


@examples(60)
@given(edit=EDITS)
def test_any_changed_byte_of_an_index(copy: Copy, edit: tuple[int, int, int]) -> None:
    """What is found is right; what is missed is said, unless the damage looks as good as what was there."""
    files = sorted((copy.root / "index").iterdir())
    file = files[edit[0] % len(files)]
    sound = file.read_bytes()
    position = edit[1] % len(sound)
    spoilt = sound[:position] + bytes([sound[position] ^ edit[2]]) + sound[position + 1 :]
    file.write_bytes(spoilt)
    try:
        check_keys(copy, sound, spoilt, position)
    finally:
        file.write_bytes(sound)


def check_keys(copy: Copy, sound: bytes, spoilt: bytes, position: int) -> None:
    store = copy.open()
    slots = store.settings.index_geometry.slots
    truth: dict[tuple[str, str], list[int]] = {}
    for record in copy.records:
        for key in dict.fromkeys(keys_of(record)[1:]):
            truth.setdefault((record.topic, key), []).append(record.physical_offset)
    for (topic, key), expected in truth.items():
        listener = Listener()
        found = ask(store, listener, topic=topic, key=key)
        assert set(found) <= set(expected)
        if found != expected and not listener.warnings:
            assert looks_sound(sound, spoilt, position, slots, expected)
    store.close()


@examples(60)
@given(edit=EDITS)
def test_any_changed_byte_of_a_queue(copy: Copy, edit: tuple[int, int, int]) -> None:
    """A consumer's message is found at its offset, or nothing is, and that is said; likewise by time."""
    files = sorted(path for path in (copy.root / "consumequeue").rglob("*") if path.is_file())
    file = files[edit[0] % len(files)]
    sound = file.read_bytes()
    position = edit[1] % len(sound)
    file.write_bytes(sound[:position] + bytes([sound[position] ^ edit[2]]) + sound[position + 1 :])
    topic, queue_id = file.parent.parent.name, int(file.parent.name)
    try:
        check_queue(copy, topic, queue_id)
    finally:
        file.write_bytes(sound)


def check_queue(copy: Copy, topic: str, queue_id: int) -> None:
    store = copy.open()
    own = [
        one for one in copy.records if (one.topic, one.head.queue_id) == (topic, queue_id) and has_unit(one)
    ]
    for record in own:
        listener = Listener()
        place = {"queue_id": queue_id, "queue_offset": record.head.queue_offset}
        found = ask(store, listener, topic=topic, max_messages=1, **place)
        assert found == [record.physical_offset] or listener.warnings
    listener = Listener()
    begin = own[len(own) // 2].head.store_timestamp_ms
    expected = [one.physical_offset for one in own if one.head.store_timestamp_ms >= begin]
    found = ask(store, listener, topic=topic, queue_id=queue_id, begin_ms=begin)
    assert set(found) <= set(expected)
    assert found == expected or listener.warnings
    store.close()
