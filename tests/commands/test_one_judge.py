"""One judge: every command gives damage of the log the same code, the same place and the same length."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.damage.cases import Case, load_cases
from tests.damage.running import damaged_copy
from tests.damage.verdicts import (
    said_by_diff,
    said_by_dump,
    said_by_info,
    said_by_query,
    said_by_rebuild,
    said_by_topics,
    said_by_verify,
)
from tests.store.fixture_stores import fixture
from tests.strategies import campaign

if TYPE_CHECKING:
    from pathlib import Path

CASES = [case for case in load_cases() if case.code.startswith("CL-") and not case.properties]
STORES = ("plain-5.3.3", "plain-4.9.8", "crash-5.3.3", "propcrc-5.3.3")
HOWS = ("zero page", "flip", "shift", "splice", "truncate")
_SEEDS = campaign(range(6), 3)


def disagreements(sound: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what commands say of a damaged store that verify does not, or the other way round.

    What is an error, ``query --scan`` says too. ``rebuild``, ``info`` and ``diff`` look at a part of the log
    only: from where a broker loses its way, at the end, up to the end.
    """
    verify, errors = said_by_verify(root)
    errors = {one for one in errors if one[0] != "CL-NUMBER"}  # such a record can be read
    same = {
        "dump": (said_by_dump(root, monkeypatch, large=False), verify),
        "dump by kernels": (said_by_dump(root, monkeypatch, large=True), verify),
        "query --scan": (said_by_query(root, large=False), errors),
        "query --scan by kernels": (said_by_query(root, large=True), errors),
        "topics": (said_by_topics(root), errors),
    }
    part = {"rebuild": said_by_rebuild(root), "info": said_by_info(root)}
    found = {name: said ^ wanted for name, (said, wanted) in same.items()}
    found |= {name: said - verify for name, said in part.items()}
    if "CL-TAIL-ZERO" not in {code for code, _, _ in verify}:
        # verify cuts off what a truncation or a torn write left at the end, and what lies after it with it:
        # the order of all queues gives that away, or the checksum of the last record.
        tail = {"CL-TAIL-DIRTY", "CL-TAIL-ZERO"}
        found = {name: {one for one in said if one[0] not in tail} for name, said in found.items()}
    lone = said_by_diff(sound, root) - {(code, place) for code, place, _ in verify}
    said = {name: sorted(one, key=str) for name, one in found.items()} | {"diff": sorted(lone, key=str)}
    return [f"{name}: {one}" for name, one in said.items() if one]


@pytest.mark.few(2)
@pytest.mark.parametrize("case", CASES, ids=[f"{case.code}: {case.name}" for case in CASES])
def test_cases(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = damaged_copy(case, tmp_path)
    assert disagreements(fixture(case.store), root, monkeypatch) == []


@pytest.mark.mutation
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("store", STORES)
def test_random_damage(store: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for seed in _SEEDS:
        root = tmp_path / str(seed)
        shutil.copytree(fixture(store), root)
        hit(root, how, random.Random(f"{store} {how} {seed}"))
        if said := disagreements(fixture(store), root, monkeypatch):
            found[seed] = said
        shutil.rmtree(root)
    assert found == {}


def hit(root: Path, how: str, chance: random.Random) -> None:
    """Damage one file of a log, or two."""
    files = sorted((root / "commitlog").iterdir())
    path = chance.choice(files)
    data = bytearray(path.read_bytes())
    start, length = chance.randrange(len(data)), chance.choice((1, 7, 64, 300, 2000))
    if how == "zero page":
        start -= start % 512
        length = min(chance.choice((512, 4096)), len(data) - start)
        data[start : start + length] = bytes(length)
    elif how == "flip":
        for _ in range(chance.choice((1, 4, 40))):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif how == "shift":
        size = len(data)
        data[start : start + chance.choice((0, length))] = chance.randbytes(chance.choice((0, length)))
        data = data[:size] + bytes(max(size - len(data), 0))
    elif how == "splice":
        source = chance.choice(files).read_bytes()
        begin = chance.randrange(len(source))
        piece = source[begin : begin + length][: len(data) - start]
        data[start : start + len(piece)] = piece
    else:
        data = data[:start]
    path.write_bytes(data)
