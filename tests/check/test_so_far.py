"""What an interrupted verification hands over: nothing that the whole run would take back."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from rmqtool.check import CheckInterruptedError, VerifyInterruptedError, VerifyReport
from rmqtool.check.expected import IndexCheckTask, QueueCheckTask
from rmqtool.check.log import LogCheck, check_log
from rmqtool.engine import MapInterruptedError
from rmqtool.errors import ExitStatus
from rmqtool.progress import NullProgress
from rmqtool.projection import json_object
from tests.builders import POLICY_5, InlineEngine, staging
from tests.check.log_store import Log
from tests.check.test_run import STORES, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqtool.findings import FindingLog
    from rmqtool.store.segments import FileQueue

T = TypeVar("T")
R = TypeVar("R")

SPLIT_BYTES = 700
Place = tuple[str, str | None, int | None, int | None]


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a task of each split, as in a log of GiB."""
    monkeypatch.setattr("rmqtool.check.log._TASK_BYTES", 0)


class StoppedEngine(InlineEngine):
    """An engine that meets Ctrl-C in a map over tasks of one kind, with some of them done."""

    def __init__(self, done: int, kind: type = list) -> None:
        super().__init__()
        self._kind = kind
        self._done = done

    def map(
        self,
        function: Callable[[T], R],
        items: Sequence[T],
        progress: Callable[[int], None] | None = None,
    ) -> list[R]:
        if not isinstance(items[0], self._kind):
            return super().map(function, items, progress)
        raise MapInterruptedError(dict(enumerate(super().map(function, items[: self._done], progress))))


def places(findings: FindingLog) -> set[Place]:
    return {(one.code.code, one.file, one.position, one.physical_offset) for one in findings}


def interrupted(log: FileQueue, done: int, *, unclean: bool = False) -> CheckInterruptedError:
    with staging() as handle:
        check = LogCheck(log, POLICY_5, handle, unclean=unclean, split_bytes=SPLIT_BYTES)
        with pytest.raises(CheckInterruptedError) as caught:
            check_log(check, StoppedEngine(done), NullProgress())
    return caught.value


def spoilt(seed: int) -> Log:
    """Return a log with some damage, perhaps also in its last record, or cut and written over."""
    chance = random.Random(seed)
    log = Log().fill(60)
    for place in chance.sample(log.places, chance.randrange(1, 5)):
        name, width = chance.choice([("bodyCrc", 4), ("totalSize", 4), ("physicalOffset", 8), ("magic", 4)])
        log.number(place, name, chance.randrange(1 << 20), width)
    if seed % 2:
        log.number(log.places[-1], "bodyCrc", 7)
    if seed % 3 == 0:
        log.put(log.places[40], bytes(log.places[41] - log.places[40]))
    return log


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(12))
def test_what_is_said_so_far_is_said_by_the_whole_run(seed: int, tmp_path: Path) -> None:
    """At every split: damage that may be the log's end, or a torn last record, is not told of too early."""
    log = spoilt(seed).write(tmp_path)
    unclean = seed % 4 < 2
    with staging() as handle:
        check = LogCheck(log, POLICY_5, handle, unclean=unclean, split_bytes=SPLIT_BYTES)
        whole = check_log(check, InlineEngine(), NullProgress())
    splits = sum(-(-segment.size_bytes // SPLIT_BYTES) for segment in log.segments)
    seen = -1
    for done in range(splits + 1):
        so_far = interrupted(log, done, unclean=unclean)
        assert places(so_far.findings) <= places(whole.findings), done
        assert so_far.examined.bytes >= seen
        seen = so_far.examined.bytes
    assert seen == whole.examined.bytes


def test_most_of_what_the_splits_say_is_there(tmp_path: Path) -> None:
    log = Log().fill(60)
    for place in log.places[3:50]:
        log.number(place, "bodyCrc", 7)
    written = log.write(tmp_path)
    assert interrupted(written, 0).findings.counts == {}
    halfway = interrupted(written, 6)
    assert 10 < halfway.findings.counts["CL-CRC"] < 30
    assert (halfway.examined.commitlog_files, halfway.examined.bytes) == (1, 4096)
    after = interrupted(written, 99)
    assert after.findings.counts["CL-CRC"] == 47
    assert after.examined.records == 60


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Copy a store, and damage a queue of it."""
    root = Path(shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store"))
    path = root / "consumequeue" / "TopicTest" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)
    return root


@pytest.mark.parametrize(
    ("kind", "done", "stage"),
    [
        (list, 0, "log"),
        (list, 99, "log"),
        (QueueCheckTask, 99, "derived"),
        (IndexCheckTask, 0, "derived"),
    ],
)
def test_a_report_so_far(
    kind: type, done: int, stage: str, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted amid the splits of the log, the queues, the index."""
    engine = StoppedEngine(done, kind)
    queues = stage == "derived"
    monkeypatch.setattr("rmqtool.check.stages.opened_engine", lambda *_: engine)
    with pytest.raises(VerifyInterruptedError) as caught:
        run(plain)
    report = caught.value.report
    assert isinstance(report, VerifyReport)
    assert (report.interrupted, report.result) == (stage, "incomplete")
    assert report.exit_status("never") is ExitStatus.INTERRUPTED
    assert json_object(report)["interrupted"] == stage
    assert bool(report.examined.records) is bool(done or queues)
    assert bool(report.examined.consume_queues) is queues
    assert report.examined.index_files == 0
    assert ("CQ-DANGLING" in report.findings.counts) is queues
