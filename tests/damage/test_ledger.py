"""Damage of entries of DLedger: named in each command alike, and every message goes on being read."""

from __future__ import annotations

import pickle
import shutil
import tomllib
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.findings import FindingLog
from rmqtool.kernels.rows import rules_of
from rmqtool.releases import LENIENT
from rmqtool.scan.record_checks import RecordChecker
from rmqtool.scan.walk import SegmentWalk
from rmqtool.store import open_store
from tests.broker.compare import compare_derived
from tests.broker.stores import LEDGERS, whole_entry_index
from tests.damage.cases import CASES, Case
from tests.damage.edits import apply
from tests.damage.places import Places
from tests.damage.running import codes, first_of, verified

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

FILED = [
    Case(code=path.stem, **table)
    for path in sorted((CASES / "dledger").glob("*.toml"))
    for table in tomllib.loads(path.read_text())["case"]
]


@pytest.mark.parametrize("case", FILED, ids=lambda case: f"{case.code}: {case.name}")
def test_damage_of_entries(case: Case, tmp_path: Path, run: Callable[..., Run]) -> None:
    root, made = shutil.copytree(LEDGERS / case.store, tmp_path / "store"), tmp_path / "made"
    sound, records = codes(verified(root)), len(list(rmqtool.open(root).messages()))
    for edit in case.edits:
        apply(root, Places(LEDGERS / case.store), edit)
    report = verified(root)
    assert codes(report) - {"NS-SKIPPED"} == sound | {case.code, *case.also} - {*case.gone}
    first = first_of(report, case.code, Places(LEDGERS / case.store))
    assert {name: first[name] for name in case.first} == case.first
    assert report.exit_status() == case.status
    whole_entry_index(root)
    document = run("verify", root, "--predict-recovery", "--format", "json").document
    if case.status == 5:  # in files that a start does not follow
        start = document["outcomes"][0]
        assert (start["starts"], start["served"], start["lost"]) == (True, records, 0)
        assert document["next"] is None
    rows = run("dump", root, "--type", "commitlog", "--format", "ndjson").objects
    assert sum(row["type"] == "message" for row in rows) == records
    rebuilt = rmqtool.open(root, broker_conf=root / "broker.conf").rebuild(made)
    assert {one for one in rebuilt.findings.counts if one.startswith("DL-")} == {*case.rebuilt}
    assert compare_derived(LEDGERS / case.store, made) == []


def test_entries_are_checked_in_another_process() -> None:
    """There, the framing of a file is equal to that of a DLedger log, and not the same object."""
    segment = open_store(LEDGERS / "dledger-5.3.3").log.segments[0]
    there = pickle.loads(pickle.dumps(segment))
    checker = RecordChecker(there, FindingLog())
    for batch in SegmentWalk(there, rules_of(LENIENT)).batches(there.start, there.stop):
        checker.check(batch)
    assert checker.entries is not None
    assert checker.entries.first == (0, 0)
