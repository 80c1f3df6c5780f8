"""Units after a queue's end, and queues of others: what `verify` says of them, and what brokers deliver."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.findings import codes
from tests.broker import jvm
from tests.broker.measured import Copy, measured
from tests.broker.stores import fixture_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.broker

_UNIT = struct.Struct(">qiq")
_BEYOND = (1 << 30, 100, 0)


def _append(root: Path, units: list[tuple[int, int, int]]) -> None:
    """Write units behind the last one of TopicTest/0."""
    path = max((root / "consumequeue" / "TopicTest" / "0").iterdir())
    data = bytearray(path.read_bytes())
    end = sum(1 for _, size, _ in _UNIT.iter_unpack(data) if size) * _UNIT.size
    data[end : end + len(units) * _UNIT.size] = b"".join(_UNIT.pack(*unit) for unit in units)
    path.write_bytes(data)


def _of_another(root: Path) -> list[tuple[int, int, int]]:
    """Return the first three units of Orders/0."""
    data = min((root / "consumequeue" / "Orders" / "0").iterdir()).read_bytes()
    return list(_UNIT.iter_unpack(data))[:3]


def _other_files(root: Path) -> None:
    queues = root / "consumequeue"
    shutil.copytree(queues / "TopicTest" / "1", queues / "Orders" / "0", dirs_exist_ok=True)


_CASES: dict[str, tuple[Callable[[Path], None], int]] = {
    # edit; wrong deliveries
    "units of another queue": (lambda root: _append(root, _of_another(root)), 3),
    "inside of a record": (lambda root: _append(root, [(1300, 100, 0)]), 1),
    "after a zero unit": (lambda root: _append(root, [(0, 0, 0), *_of_another(root)]), 0),
    "beyond the log": (lambda root: _append(root, [_BEYOND]), 0),
    "after one beyond the log": (lambda root: _append(root, [_BEYOND, *_of_another(root)]), 0),
    "the files of another queue": (_other_files, 25),
}


@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_what_brokers_serve_is_an_error_and_the_rest_is_stale(version: jvm.Version, tmp_path: Path) -> None:
    store = fixture_store(f"plain-{version}")
    copies = [Copy(store.copy_to(tmp_path / str(number)), store.conf) for number in range(len(_CASES))]
    found = []
    for copy, (edit, _) in zip(copies, _CASES.values(), strict=True):
        edit(copy.root)
        counts = rmqtool.open(copy.root).verify(jobs=1).findings.counts
        strange = sum(counts.get(code.code, 0) for code in (codes.CQ_SUPERFLUOUS, codes.CQ_DANGLING))
        found.append((strange, codes.CQ_STALE_TAIL.code in counts))
    for name, result, (strange, is_stale) in zip(_CASES, measured(copies, version), found, strict=True):
        wrong = _CASES[name][1]
        assert (result.outcome.wrong, strange, is_stale) == (wrong, wrong, not wrong), (name, result.wrong)
