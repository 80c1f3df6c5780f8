"""A copy of a fixture whose derived files are edited unit by unit and item by item, and its checks."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rmqtool.check.index import check_index
from rmqtool.check.queues import check_queues
from rmqtool.formats import consumequeue, index, struct_of
from tests.builders import staging
from tests.check.checking import Demands, demands_of, open_fixture
from tests.damage.cases import expected_codes
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.findings import FindingLog

PREBLANK = (0, consumequeue.PREBLANK_SIZE, 0)
UNIT_SIZE = consumequeue.UNIT_SIZE
QUEUE_FILE = 200
"""``mappedFileSizeConsumeQueue`` of the fixtures: ten units."""


class DemandCache:
    """What the logs of fixtures demand, each scanned once."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._staging = self._stack.enter_context(staging())
        self._known: dict[tuple[str, bool], Demands] = {}

    def of(self, name: str, *, with_conf: bool = True) -> Demands:
        key = name, with_conf
        if key not in self._known:
            store = open_fixture(fixture(name), with_conf=with_conf)
            self._known[key] = demands_of(store, self._staging)
        return self._known[key]

    def close(self) -> None:
        self._stack.close()


@dataclass
class EditedStore:
    """A copy; the log is the fixture's own."""

    root: Path
    demands: Demands

    @classmethod
    def copy(cls, name: str, folder: Path, cache: DemandCache) -> EditedStore:
        root = folder / name
        shutil.copytree(fixture(name), root)
        return cls(root, cache.of(name))

    def fresh(self) -> Demands:
        """Return the demands on the copy as it is now."""
        return replace(self.demands, store=open_fixture(self.root))

    def check_queues(self, level: int = 3, *, unclean: bool = False, **known: Any) -> FindingLog:  # noqa: ANN401
        return check_queues(replace(self.fresh().queues(level, unclean=unclean), **known))[0]

    def check_index(self, level: int = 3, *, unclean: bool = False) -> FindingLog:
        return check_index(self.fresh().index(level, unclean=unclean))[0]

    def path(self, queue: str, number: int) -> tuple[Path, int]:
        """Return the file of a unit and its position."""
        byte = number * UNIT_SIZE
        start = byte - byte % QUEUE_FILE
        return self.root / "consumequeue" / queue / f"{start:020d}", byte - start

    def unit(self, queue: str, number: int) -> tuple[int, int, int]:
        path, position = self.path(queue, number)
        physical_offset, size, tags = struct_of(consumequeue.UNIT).unpack_from(path.read_bytes(), position)
        return physical_offset, size, tags

    def put_unit(self, queue: str, number: int, unit: tuple[int, int, int]) -> None:
        path, position = self.path(queue, number)
        if not path.exists():
            path.write_bytes(bytes(QUEUE_FILE))
        overwrite(path, position, struct_of(consumequeue.UNIT).pack(*unit))

    def change_unit(self, queue: str, number: int, *, by: tuple[int, int, int]) -> None:
        """Add to the fields of a unit."""
        offset, size, tags = self.unit(queue, number)
        self.put_unit(queue, number, (offset + by[0], size + by[1], tags + by[2]))

    @property
    def index_paths(self) -> list[Path]:
        return sorted((self.root / "index").iterdir())

    def item(self, path: Path, item: int) -> list[int]:
        position = index.item_position(self.demands.store.settings.index_geometry.slots, item)
        return list(struct_of(index.ITEM).unpack_from(path.read_bytes(), position))

    def put_item(self, path: Path, item: int, fields: list[int]) -> None:
        position = index.item_position(self.demands.store.settings.index_geometry.slots, item)
        overwrite(path, position, struct_of(index.ITEM).pack(*fields))


def known_codes(name: str, *prefixes: str) -> set[str]:
    """Return what a fixture is known to show of some kinds of codes: normal wear."""
    return {code for code in expected_codes()[name] if code.startswith(prefixes)}


def overwrite(path: Path, position: int, data: bytes) -> None:
    """Overwrite bytes of a file, extending it if need be."""
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def change_header(path: Path, field: int, by: int) -> None:
    """Add to a field of an index header, counted from 0."""
    header = struct_of(index.HEADER)
    fields = list(header.unpack_from(path.read_bytes()))
    fields[field] += by
    overwrite(path, 0, header.pack(*fields))
