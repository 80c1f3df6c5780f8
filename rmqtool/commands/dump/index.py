"""Header, items, slots and chains of index files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.derived.index_files import IndexFile
from rmqtool.findings import Structure
from rmqtool.findings.index import IX_COUNT, IX_SIZE
from rmqtool.findings.places import IO_UNREADABLE
from rmqtool.formats.index import HEADER_SIZE
from rmqtool.scan.window import WINDOW_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.findings import FindingCode
    from rmqtool.store import StoreFile
    from rmqtool.store.geometry import Geometry

_LONGEST_CHAIN = 10_000
"""Items of one chain that are listed; chains this long exist in damaged files only."""


def dump_index_file(
    file: StoreFile, geometry: Geometry, *, assumed: bool = False, slots: bool = False, chains: bool = False
) -> Iterator[rows.Row]:
    """Yield the header of an index file and its items, on request the used slots and their chains.

    ``assumed`` is whether ``geometry``, which no byte of the file shows, is only the broker's default, with
    which no size is compared.
    """
    index_file = IndexFile(file, geometry, WINDOW_BYTES)
    if index_file.is_short:
        yield _damage(file, 0, file.size_bytes, IX_SIZE, f"{file.label} is shorter than a header")
        return
    yield rows.IndexHeader(file.label, *index_file.header)
    yield from _header_damage(index_file, index_file.file.size_bytes if assumed else geometry.size_bytes)
    if slots:
        for number, item in index_file.used_slots():
            yield rows.Slot(file.label, number, item)
    for number, entry in index_file.items():
        slot = entry.key_hash % geometry.slots if entry.key_hash >= 0 else None
        yield rows.Item(file.label, number, slot, *entry)
    if chains:
        for number, _ in index_file.used_slots():
            yield _chain(index_file, number)
    for bad in index_file.take_unreadable():
        sentence = f"{bad.length} bytes of {file.label} cannot be read; taken for zeros"
        yield _damage(file, bad.position, bad.length, IO_UNREADABLE, sentence)


def _header_damage(index_file: IndexFile, size_bytes: int) -> Iterator[rows.Damage]:
    file, count = index_file.file, index_file.header.index_count
    if file.size_bytes != size_bytes:
        sentence = f"{file.label} has {file.size_bytes} bytes, its settings require {size_bytes}"
        yield _damage(file, 0, file.size_bytes, IX_SIZE, sentence)
    if not 0 <= count <= index_file.item_room + 1:
        sentence = f"indexCount of {file.label} is {count}, it has room for {index_file.item_room}"
        yield _damage(file, 0, HEADER_SIZE, IX_COUNT, sentence)


def _chain(index_file: IndexFile, slot: int) -> rows.Chain:
    numbers: list[int] = []
    last = None
    for last in index_file.chain(slot):
        numbers.append(last[0])
        if len(numbers) == _LONGEST_CHAIN:
            return rows.Chain(index_file.file.label, slot, numbers, "cut here")
    return rows.Chain(index_file.file.label, slot, numbers, index_file.chain_problem(slot, last) or "ends")


def _damage(file: StoreFile, position: int, length: int, code: FindingCode, sentence: str) -> rows.Damage:
    return rows.Damage(file.label, position, None, length, code, sentence, Structure.INDEX)
