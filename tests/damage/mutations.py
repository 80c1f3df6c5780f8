"""Random damage, the same for the same seed: fields, units, blocks and files of a store."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tests.damage.regions import Region, regions_of, store_labels

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    Contents = dict[str, bytes | None]

_BLOCKS = (512, 4096)
_WHOLE_UNITS = {"unit": ("consumequeue", 20), "batch unit": ("batchconsumequeue", 46), "item": ("index", 20)}


@dataclass(frozen=True)
class Mutation:
    """One change of a store.

    Attributes:
        what: the field, unit, block or file that it hits; the same for all of that kind.
        how: what is done.
        contents: new contents of files by label; None deletes.
    """

    what: str
    how: str
    contents: Contents

    def __str__(self) -> str:
        return f"{self.how} {self.what} in {', '.join(self.contents)}"


class Mutator:
    """Makes mutations of one store.

    Args:
        root: of the store.
    """

    def __init__(self, root: Path) -> None:
        self.files = {label: (root / label).read_bytes() for label in store_labels(root)}
        self._regions: dict[str, list[Region]] = defaultdict(list)
        for region in regions_of(root):
            self._regions[region.name].append(region)
        self._folders: dict[str, list[str]] = defaultdict(list)
        for label in self.files:
            self._folders[label.split("/")[0] if "/" in label else "side file"].append(label)

    @cached_property
    def targets(self) -> list[str]:
        """Return everything that can be hit."""
        units = [f"whole {what}" for what, (folder, _) in _WHOLE_UNITS.items() if folder in self._folders]
        records = ["whole record"]
        blocks = [f"{folder}: {size} bytes" for folder in self._folders for size in _BLOCKS]
        return [
            *sorted(self._regions),
            *records,
            *units,
            *blocks,
            *(f"{name}: file" for name in self._folders),
        ]

    def mutate(self, target: str, chance: random.Random) -> Mutation | None:
        """Hit something at random; None if that changes nothing."""
        if target in self._regions:
            made = self._field(target, chance)
        elif target.startswith("whole "):
            made = self._whole(target, chance)
        elif target.endswith(" bytes"):
            made = self._block(target, chance)
        else:
            made = self._file(target, chance)
        changed = {label: data for label, data in made.contents.items() if data != self.files.get(label)}
        return Mutation(made.what, made.how, changed) if changed else None

    def fields_changed(self, mutation: Mutation) -> set[str]:
        """Return the fields in which bytes differ, and the files that come, go or change their size."""
        found = set()
        for label, data in mutation.contents.items():
            before = self.files.get(label)
            if before is None or data is None or len(before) != len(data):
                found.add(f"{label.split('/')[0] if '/' in label else 'side file'}: file")
                continue
            changed = [at for at, (old, new) in enumerate(zip(before, data, strict=True)) if old != new]
            found |= {self._names[label][at] for at in changed}
        return found

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        names = {label: ["?"] * len(data) for label, data in self.files.items()}
        for regions in self._regions.values():
            for region in regions:
                names[region.file][region.start : region.stop] = [region.name] * (region.stop - region.start)
        return names

    def _field(self, target: str, chance: random.Random) -> Mutation:
        region = chance.choice(self._regions[target])
        other = chance.choice(self._regions[target])
        how = chance.choice(("flip", "zero", "overwrite", "copy", "swap"))
        if how in {"copy", "swap"} and other.stop - other.start != region.stop - region.start:
            how = "flip"
        return Mutation(target, how, self._hit(_span(region), _span(other), how, chance))

    def _whole(self, target: str, chance: random.Random) -> Mutation:
        spans = self._spans(target)
        one, other = chance.choice(spans), chance.choice(spans)
        how = chance.choice(("zero", "swap", "copy", "insert", "drop"))
        if how in {"swap", "copy"} and one[2] - one[1] != other[2] - other[1]:
            how = "zero"
        return Mutation(target, how, self._hit(one, other, how, chance))

    def _spans(self, target: str) -> list[tuple[str, int, int]]:
        """Return whole records, units or items: from the first field of each to where the next begins."""
        first, last = {
            "whole record": ("record: totalSize", ""),
            "whole unit": ("unit: physicalOffset", "unit: tagsCode"),
            "whole batch unit": ("batch unit: physicalOffset", "batch unit: reserved"),
            "whole item": ("index item: keyHash", "index item: previous"),
        }[target]
        if last:
            pairs = zip(self._regions[first], self._regions[last], strict=True)  # expired ones left out
            return [(one.file, one.start, two.stop) for one, two in pairs]
        starts = [*self._regions[first], *self._regions["record+crc: totalSize"]]
        sizes = [int.from_bytes(self.files[one.file][one.start : one.stop], "big") for one in starts]
        return [(one.file, one.start, one.start + size) for one, size in zip(starts, sizes, strict=True)]

    def _block(self, target: str, chance: random.Random) -> Mutation:
        folder, size = target.partition(": ")[0], int(target.split()[-2])
        one, other = self._aligned(folder, size, chance), self._aligned(folder, size, chance)
        how = chance.choice(("flip", "zero", "overwrite", "copy", "swap"))
        if how in {"copy", "swap"} and one[2] - one[1] != other[2] - other[1]:
            how = "zero"
        return Mutation(target, how, self._hit(one, other, how, chance))

    def _aligned(self, folder: str, size: int, chance: random.Random) -> tuple[str, int, int]:
        label = chance.choice(self._folders[folder])
        length = len(self.files[label])
        start = chance.randrange(0, max(length, 1), size)
        return label, start, min(start + size, length)

    def _hit(
        self, one: tuple[str, int, int], other: tuple[str, int, int], how: str, chance: random.Random
    ) -> Contents:
        label, start, stop = one
        old, there = self.files[label][start:stop], self.files[other[0]][other[1] : other[2]]
        new: dict[str, Callable[[], bytes]] = {
            "flip": lambda: _flipped(old, chance),
            "zero": lambda: bytes(len(old)),
            "overwrite": lambda: chance.randbytes(len(old)),
            "copy": lambda: there,
            "swap": lambda: there,
        }
        contents: Contents = dict(self.files)
        if how in {"insert", "drop"}:
            data = self.files[label]
            moved = data[:start] + old + data[start:] if how == "insert" else data[:start] + data[stop:]
            contents[label] = moved[: len(data)].ljust(len(data), b"\0")
            return contents
        contents[label] = _replaced(self.files[label], start, new[how]())
        if how == "swap":
            source = contents[other[0]]
            assert source is not None
            contents[other[0]] = _replaced(source, other[1], old)
        return contents

    def _file(self, target: str, chance: random.Random) -> Mutation:
        folder = target.partition(": ")[0]
        label, other = (chance.choice(self._folders[folder]) for _ in range(2))
        data = self.files[label]
        how = chance.choice(("delete", "truncate", "extend", "swap", "copy", "rename", "duplicate"))
        renamed = _renamed(label, chance)
        contents: dict[str, Contents] = {
            "delete": {label: None},
            "truncate": {label: data[: chance.randrange(len(data) + 1)]},
            "extend": {label: data + chance.choice((bytes, chance.randbytes))(chance.randrange(1, 600))},
            "swap": {label: self.files[other], other: data},
            "copy": {other: data},
            "rename": {label: None, renamed: data},
            "duplicate": {renamed: data},
        }
        return Mutation(target, how, contents[how])


def _span(region: Region) -> tuple[str, int, int]:
    return region.file, region.start, region.stop


def _replaced(data: bytes, start: int, new: bytes) -> bytes:
    return data[:start] + new + data[start + len(new) :]


def _flipped(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return _replaced(data, at, bytes([data[at] ^ (1 << chance.randrange(8))]))


def _renamed(label: str, chance: random.Random) -> str:
    """Return a name with one digit changed, or of another kind."""
    digits = [at for at, letter in enumerate(label) if letter.isdigit() and at > label.rfind("/")]
    if not digits or chance.random() < 0.2:
        return f"{label}.bak"
    at = chance.choice(digits)
    return label[:at] + str((int(label[at]) + chance.randrange(1, 10)) % 10) + label[at + 1 :]
