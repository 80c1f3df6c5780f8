"""Every store and every damaged one: the skeleton tells what the store tells, and keeps nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.commands.metadump.disguise import Disguise
from tests.damage.cases import Case, one_of_each_code
from tests.damage.running import damaged_copy
from tests.metadump.skeletons import KEY, essence, left_in, secrets_of, skeleton_of, told
from tests.store.fixture_stores import STORE_ROOTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

    Runner = Callable[..., Run]

QUICK_STORES = {"ext-5.5.1", "unicode-5.5.1"}
QUICK_CODES = {"CL-HALF-RECORD", "IX-SLOT", "ST-CONFIG"}
_SEEN: set[str] = set()


def _is_quick(case: Case) -> bool:
    """Whether it is the first case of one of the quick codes."""
    is_first = case.code not in _SEEN
    _SEEN.add(case.code)
    return is_first and case.code in QUICK_CODES


def _marks(*, is_quick: bool) -> list[pytest.MarkDecorator]:
    return [] if is_quick else [pytest.mark.soak]


CASES = [
    pytest.param(case, marks=_marks(is_quick=_is_quick(case)), id=f"{case.code}: {case.name}")
    for case in one_of_each_code()
]
ROOTS = [
    pytest.param(root, marks=_marks(is_quick=root.name in QUICK_STORES), id=root.name) for root in STORE_ROOTS
]


def _check(run: Runner, root: Path, out: Path, properties: list[str]) -> None:
    conf = root / "broker.conf" if (root / "broker.conf").is_file() else None
    before = essence(told(run, root, conf, properties), Disguise(KEY))
    skeleton_of(root, out, conf, properties)
    assert essence(told(run, out, conf, properties), None) == before
    wanted = secrets_of(root)
    assert left_in(out, wanted) == []


@pytest.mark.parametrize("root", ROOTS)
def test_store(root: Path, tmp_path: Path, run: Runner) -> None:
    _check(run, root, tmp_path / "skeleton", [])


@pytest.mark.few(1)
@pytest.mark.parametrize("case", CASES)
def test_damage(case: Case, tmp_path: Path, run: Runner) -> None:
    root = damaged_copy(case, tmp_path)
    _check(run, root, tmp_path / "skeleton", case.properties)
