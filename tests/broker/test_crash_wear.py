"""What a crash of a 5.5 broker leaves is no damage, and what the next start makes of it is foreseen."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rmqtool.formats.checkpoint import CHECKPOINTS
from rmqtool.formats.consumequeue import UNIT_SIZE
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import find_log_end
from rmqtool.store import open_store
from tests.broker import jvm
from tests.broker.starts import Case, judged
from tests.broker.test_killed import errors
from tests.damage.running import verified

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

_VERSION: jvm.Version = "5.5.1"
_RUN_MS = 5000
_GEOMETRY = (
    "mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=25\nmaxIndexNum=400\n"
)
_SETTINGS = {
    # A minute by default: so much of the queues may be lost. The log's files are no more than a start reads.
    "mmap": f"{_GEOMETRY}flushIntervalConsumeQueue=200\nflushConsumeQueueThoroughInterval=400\n",
    "pages": f"{_GEOMETRY}writeWithoutMmap=true\nmaxMessageSize=65536\n",
}
_EACH = 4


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Stores whose broker died while it wrote, a while after it had flushed the queues."""
    folder = tmp_path_factory.mktemp("crashed")
    stores = []
    for kind, settings in _SETTINGS.items():
        conf = folder / f"{kind}.conf"
        conf.write_text(settings, "ascii")
        stores += [jvm.Found(folder / f"{kind}-{number}", conf) for number in range(_EACH)]
    jvm.kill(_VERSION, _RUN_MS, stores)
    for store in stores:
        shutil.copyfile(store.conf, store.root / "broker.conf")
    return [store.root for store in stores]


def of_kind(killed: list[Path], kind: str) -> list[Path]:
    """Return the killed stores of one kind of settings."""
    return [root for root in killed if root.name.startswith(kind)]


def lose_unflushed_units(root: Path) -> int:
    """Zero the units after the checkpoint's logicsPhysicalOffset, as a power failure may; count them."""
    checkpoint = CHECKPOINTS.decode((root / "checkpoint").read_bytes())
    assert checkpoint is not None
    lost = 0
    for path in sorted((root / "consumequeue").glob("*/*/*")):
        data = bytearray(path.read_bytes())
        for at in range(0, len(data), UNIT_SIZE):
            unit = data[at : at + UNIT_SIZE]
            if any(unit) and int.from_bytes(unit[:8], "big") > checkpoint.logics_physical_offset:
                data[at : at + UNIT_SIZE] = bytes(UNIT_SIZE)
                lost += 1
        path.write_bytes(data)
    return lost


def foreseen(cases: list[Case]) -> list[str]:
    """Return what differs from what was predicted."""
    return [f"{case.name}: {text}" for case, _, found in judged(_VERSION, cases) for text in found]


def copies(roots: list[Path], folder: Path) -> list[Path]:
    """Copy stores: a start changes them."""
    return [shutil.copytree(root, folder / root.name) for root in roots]


def test_queues_behind_by_the_checkpoints_minute(killed: list[Path], tmp_path: Path) -> None:
    """After a power failure the queues may end at the last flush: no damage; the next start fills them."""
    roots = copies(of_kind(killed, "mmap"), tmp_path)
    lost = [lose_unflushed_units(root) for root in roots]
    assert sum(lost) > 20
    for root in roots:
        report = verified(root)
        assert errors(report) == []
        missing = [one for one in report.findings if one.code.code == "CQ-MISSING-MSG"]
        assert {one.severity.value for one in missing} <= {"warning"}
        assert all("of the last records ha" in one.message for one in missing)
    assert foreseen([Case(root.name, root, root / "broker.conf") for root in roots]) == []
    for root in roots:
        assert errors(verified(root)) == []


def test_a_checkpoint_that_lags_is_no_finding(killed: list[Path]) -> None:
    """Its fields stand where the flush thread left them, in healthy stores too."""
    offsets = []
    for root in of_kind(killed, "mmap"):
        report = verified(root)
        checkpoint = CHECKPOINTS.decode((root / "checkpoint").read_bytes())
        end = find_log_end(FoundEdge.of(open_store(root))).end
        assert checkpoint is not None
        assert checkpoint.logics_physical_offset < end
        offsets.append(checkpoint.logics_physical_offset)
        assert errors(report) == []
        of_checkpoint = [one for one in report.findings if one.code.code.startswith("CP-")]
        assert {one.severity.value for one in of_checkpoint} <= {"info"}
    assert any(offsets)


def test_stale_bytes_up_to_the_next_page(killed: list[Path], tmp_path: Path) -> None:
    """A note, in the tail and in no other place; a start reads the log as ever."""
    roots = copies(of_kind(killed, "pages"), tmp_path)
    ends = 0
    for root in roots:
        report = verified(root)
        tails = [one for one in report.findings if one.code.code == "CL-TAIL-DIRTY"]
        assert errors(report) == []
        assert {one.severity.value for one in tails} <= {"info"}
        ends += len(tails)
    assert ends > 0  # a log can end just where a page does
    assert foreseen([Case(root.name, root, root / "broker.conf") for root in roots]) == []
    for root in roots:
        assert errors(verified(root)) == []
