"""What a broker writes before a record stops its dispatch for ever, and what verify then says."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.broker import jvm, running_master
from tests.broker.damage_cases import lmq_offset_no_number
from tests.broker.log_damage import LogCopy
from tests.broker.stores import fixture_store
from tests.damage.running import verified

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

_OF_WHAT_IS_NOT_WRITTEN = {"LMQ-STALL", "CQ-MISSING-MSG", "IX-GONE"}
_OF_THE_JUDGE = {
    "CL-TAIL-ZERO",
    "CL-TRANSIENT",
    "CL-PREALLOC",
    "CL-QOFF-GAP",
    "CL-TS-BACK",
    "ST-ABORT",
    "CP-ZERO",
    "CP-MISSING",
    "CQ-TOPIC-GONE",  # the messages after the stall are of a topic that no topics.json was told of
}


@pytest.mark.parametrize("version", running_master.VERSIONS)
def test_what_was_written_before_the_stall_is_no_damage(version: jvm.Version, tmp_path: Path) -> None:
    """The record's own unit is there, its index entries are not, and nothing after it is."""
    store = fixture_store(f"lmq-{version}")
    root = store.copy_log_to(tmp_path / "store")
    lmq_offset_no_number(LogCopy(root))
    running_master.extend_log(root, version)
    running_master.rebuild(version, [jvm.Found(root, store.conf)])
    shutil.rmtree(root / "consumequeue" / "Bait", ignore_errors=True)
    shutil.copyfile(store.conf, root / "broker.conf")
    report = verified(root)
    found = set(report.findings.counts)
    assert found >= _OF_WHAT_IS_NOT_WRITTEN
    assert found <= _OF_WHAT_IS_NOT_WRITTEN | _OF_THE_JUDGE, [one.message for one in report.findings]
    (stall,) = (one for one in report.findings if one.code.code == "LMQ-STALL")
    assert stall.physical_offset is not None
    missing = [one.physical_offset for one in report.findings if one.code.code == "CQ-MISSING-MSG"]
    assert min(place for place in missing if place is not None) > stall.physical_offset
    (gone,) = (one for one in report.findings if one.code.code == "IX-GONE")
    assert gone.physical_offset == stall.physical_offset
