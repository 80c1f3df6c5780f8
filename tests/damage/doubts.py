"""Sizes that are inferred of damaged stores: right, or said to be in doubt."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

from rmqtool.store import open_store
from rmqtool.store.broker_conf import Origin
from tests.damage.mutations import Mutator
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.damage.mutations import Mutation

SIZES = ("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum")
TARGETS = ("commitlog: file", "consumequeue: file", "index: file", "index: 4096 bytes", "index: 512 bytes")


def wrong_sizes(root: Path, truth: Path) -> list[str]:
    """Return the sizes that are inferred otherwise than is true, and nothing is said of it."""
    found, true = open_store(root).settings, open_store(truth, broker_conf=truth / "broker.conf").settings
    return [
        name
        for name in SIZES
        if found[name].value != true[name].value
        and not found[name].doubt
        and found[name].origin is not Origin.DEFAULT
    ]


def mutated(name: str, folder: Path, seeds: range) -> Iterator[tuple[Mutation, Path]]:
    """Yield copies of a store with one damage each, the same ones every time."""
    mutator = Mutator(fixture(name))
    targets = [target for target in mutator.targets if target in TARGETS or target.startswith("index header")]
    for seed in seeds:
        chance = random.Random(seed)
        made = mutator.mutate(chance.choice(targets), chance)
        if made is not None:
            yield made, _damaged(name, folder / f"{name}-{seed}", made)


def with_foreign_file(name: str, other: str, label: str, folder: Path) -> Path:
    """Return a copy with a file of another store in the place of its own first one in a directory."""
    root = folder / f"{name}-{other}-{label.replace('/', '-')}"
    shutil.copytree(fixture(name), root)
    mine = sorted(path for path in (root / label).rglob("*") if path.is_file())
    theirs = sorted(path for path in (fixture(other) / label).rglob("*") if path.is_file())
    shutil.copyfile(theirs[-1], mine[-1])
    return root


def _damaged(name: str, root: Path, mutation: Mutation) -> Path:
    shutil.copytree(fixture(name), root)
    for label, data in mutation.contents.items():
        path = root / label
        if data is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return root
