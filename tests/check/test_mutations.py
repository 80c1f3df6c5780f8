"""Random damage of whole stores: never a crash, never silence where another byte contradicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.damage.probing import STORES, UNGUARDED, probes
from tests.damage.regions import regions_of
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

_SEEDS = (20240229, 20250817)
_MUTATIONS = 150
_SLOWEST_S = 60


@pytest.mark.mutation
@pytest.mark.parametrize("seed", _SEEDS)
def test_random_damage(seed: int, tmp_path: Path) -> None:
    """Fields, units, blocks and files: all of it is said, but for the fields that nothing guards."""
    missed, failed, slow = [], [], []
    for probe in probes(tmp_path, seed, _MUTATIONS):
        name = f"{probe.store}: {probe.mutation}"
        missed += [name] if probe.is_missed else []
        failed += [name] if "RM-INTERNAL" in probe.codes else []
        slow += [name] if probe.seconds > _SLOWEST_S else []
    assert (missed, failed, slow) == ([], [], [])


@pytest.mark.full
def test_unguarded_fields_are_named_as_regions_name_them() -> None:
    """A field that is renamed does not stay excused under its old name."""
    known = {region.name for store in STORES for region in regions_of(fixture(store))}
    assert {name for name in UNGUARDED if not name.endswith(": file")} - known == set()


@pytest.mark.full
def test_regions_of_a_file_do_not_overlap() -> None:
    for store in STORES:
        ends: dict[str, int] = {}
        for region in sorted(regions_of(fixture(store)), key=lambda one: (one.file, one.start)):
            assert ends.get(region.file, 0) <= region.start, region
            ends[region.file] = region.stop
