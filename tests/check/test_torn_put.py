"""A broker that is killed inside of a put to the index: every state that it can leave, write by write.

The writes are those of ``IndexFile`` (constructor, ``putKey``) in 4.9.8 and 5.3.3, each one of which reaches
the mapped file as a whole. That the last state is the real broker's file, byte for byte, shows that they are.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqtool.formats.index import HEADER_SIZE, ITEM_SIZE, SLOT_SIZE
from tests.broker.start_cases import records
from tests.damage.running import verified

if TYPE_CHECKING:
    from collections.abc import Iterator

STORES = Path(__file__).parents[2] / "fixtures/stores"
SLOTS = 25
BEGIN_TIMESTAMP, END_TIMESTAMP, BEGIN_PHY, END_PHY, SLOT_COUNT, INDEX_COUNT = 0, 8, 16, 24, 32, 36
LOOKED_AT = {0, 1, 2}
"""Puts after which every state is verified, beside the last one: those in between are alike."""

Write = tuple[int, bytes]


def _long(position: int, value: int) -> Write:
    return position, struct.pack(">q", value)


def _int(position: int, value: int) -> Write:
    return position, struct.pack(">i", value)


def puts(data: bytes, before: bytes, stored_ms: dict[int, int]) -> Iterator[list[Write]]:
    """Yield the writes that made a file, put by put; first of all those of its creation.

    Args:
        data: the file.
        before: the file before it.
        stored_ms: store time of the record at each physical offset.
    """
    end_timestamp, _, end_phy = struct.unpack_from(">qqq", before, END_TIMESTAMP)
    yield [
        _long(BEGIN_PHY, end_phy),
        _long(END_PHY, end_phy),
        _long(BEGIN_TIMESTAMP, end_timestamp),
        _long(END_TIMESTAMP, end_timestamp),
    ]
    slots_used = 0
    for number in range(1, struct.unpack_from(">i", data, INDEX_COUNT)[0]):
        at = HEADER_SIZE + SLOTS * SLOT_SIZE + number * ITEM_SIZE
        key_hash, offset, diff, previous = struct.unpack_from(">iqii", data, at)
        writes = [_int(at, key_hash), _long(at + 4, offset), _int(at + 12, diff), _int(at + 16, previous)]
        writes.append(_int(HEADER_SIZE + key_hash % SLOTS * SLOT_SIZE, number))
        if number == 1:
            writes += [_long(BEGIN_PHY, offset), _long(BEGIN_TIMESTAMP, stored_ms[offset])]
        if not previous:
            slots_used += 1
            writes.append(_int(SLOT_COUNT, slots_used))
        writes += [
            _int(INDEX_COUNT, number + 1),
            _long(END_PHY, offset),
            _long(END_TIMESTAMP, stored_ms[offset]),
        ]
        yield writes


@pytest.mark.few(1)
@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_no_state_of_a_put_is_an_error(version: str, tmp_path: Path) -> None:
    root = Path(shutil.copytree(STORES / f"crash-{version}", tmp_path / "store"))
    stored_ms = {
        one.physical_offset: one.head.store_timestamp_ms for one in records(root, root / "broker.conf")
    }
    *_, before, last = sorted((root / "index").iterdir())
    real = last.read_bytes()
    state = bytearray(len(real))
    done = list(puts(real, before.read_bytes(), stored_ms))
    for number, writes in enumerate(done):
        for position, data in writes:
            state[position : position + len(data)] = data
            if number in LOOKED_AT or number == len(done) - 1:
                last.write_bytes(state)
                report = verified(root)
                errors = [
                    f"{one.code.code}: {one.message}" for one in report.findings if one.severity == "error"
                ]
                assert errors == [], (number, position)
    assert bytes(state) == real
