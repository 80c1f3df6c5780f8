"""A verification from end to end: levels, parts of stores, locks, engines, a check that fails by itself."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.actions.verification import verify
from rmqtool.check import VerifyReport, VerifyRequest
from rmqtool.engine import EngineOptions
from rmqtool.errors import ExitStatus, RefusedError, UsageError
from rmqtool.projection import json_object
from rmqtool.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.synchronize import Event

STORES = Path(__file__).parents[2] / "fixtures/stores"
NAMES = sorted(path.name for path in STORES.iterdir() if path.is_dir())


class Silent:
    """Hears what a run says of its progress."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def stage(self, name: str, total_bytes: int | None) -> None:
        return None

    def advance(self, done_bytes: int) -> None:
        return None

    def note(self, sentence: str) -> None:
        return None

    def warn(self, sentence: str) -> None:
        self.warnings.append(sentence)


def run(path: Path, *, conf: bool = True, **options: Any) -> VerifyReport:  # noqa: ANN401 - of the request
    """Verify a store with its broker.conf."""
    broker_conf = path / "broker.conf"
    store = open_store(path, broker_conf=broker_conf if conf and broker_conf.is_file() else None)
    return verify(VerifyRequest(store, **{"engine": EngineOptions("local", jobs=2)} | options), Silent())


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Copy a store, to be damaged."""
    return Path(shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store"))


@pytest.mark.every_store
@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("conf", [True, False], ids=["conf", "inferred"])
def test_stores_of_real_brokers_are_clean_at_every_level(name: str, conf: bool) -> None:
    for level in range(4):
        report = run(STORES / name, conf=conf, level=level)
        errors = {one.code.code for one in report.findings if one.severity == "error"}
        # The raw half messages of "tags" are none that a broker's producer would have written.
        odd = {"CL-HALF", "CL-OP"} if name.startswith("tags-") else set()
        assert errors <= odd
        assert (report.result == "clean") == (not errors)


def test_each_level_says_what_it_examined(plain: Path) -> None:
    nothing, *deeper = (json_object(run(plain, level=level).examined) for level in range(4))
    assert set(nothing.values()) == {0}
    for examined in deeper:
        assert examined == deeper[0]
    assert deeper[0]["records"] == 163
    assert deeper[0]["bytes"] == 8192 * deeper[0]["commitlogFiles"]
    assert min(deeper[0].values()) > 0


def test_there_are_four_levels(plain: Path) -> None:
    for level in (-1, 4):
        with pytest.raises(UsageError, match="--level"):
            run(plain, level=level)


def test_the_verdict_follows_what_is_damaged(plain: Path) -> None:
    index = next((plain / "index").iterdir())
    _flip(index, 40)
    report = run(plain)
    assert (report.result, int(report.exit_status())) == ("derived-damage", 1)
    assert run(plain, level=0).result == "clean"
    _flip(plain / "commitlog" / f"{0:020d}", 95)
    report = run(plain)
    assert (report.result, int(report.exit_status())) == ("log-damage", 5)
    assert int(report.exit_status("never")) == 0


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index", f"commitlog/{0:020d}"])
def test_a_part_of_a_store_is_checked_with_its_log(plain: Path, part: str) -> None:
    report = run(plain / part)
    assert report.result == "clean"
    examined = report.examined
    assert examined.records > 0
    assert (examined.units > 0) == (part == "consumequeue")
    assert (examined.items > 0) == (part == "index")


def test_json_has_the_fields_of_the_contract(plain: Path) -> None:
    report = json_object(run(plain))
    report.pop("retention", None)  # of files that are some days old
    assert list(report) == [
        "schema",
        "store",
        "level",
        "result",
        "notLookedAt",
        "examined",
        "findings",
        "counts",
        "exitStatus",
    ]
    assert report["schema"] == "rmqtool.verify/2"
    assert report["counts"] == {"CL-TAIL-ZERO": 1} | report["counts"]


def _hold(path: Path, held: Event, done: Event) -> None:
    with path.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        held.set()
        done.wait(120)


@pytest.fixture
def locked(plain: Path) -> Iterator[Path]:
    """A store whose lock another process holds."""
    context = multiprocessing.get_context("spawn")
    held, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(plain / "lock", held, done))
    holder.start()
    assert held.wait(120)
    yield plain
    done.set()
    holder.join()


@pytest.mark.full
def test_a_running_broker_is_not_disturbed(locked: Path) -> None:
    with pytest.raises(RefusedError, match=r"holds the store's lock.*--live"):
        run(locked)
    report = run(locked, live=True)
    assert report.result == "clean"
    assert report.findings.counts["ST-LOCKED"] == 1


def test_a_check_that_fails_by_itself_is_a_finding(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(task: object, **_known: object) -> None:
        raise ZeroDivisionError("unforeseen")

    monkeypatch.setattr("rmqtool.check.index.check_index", fail)
    report = run(plain)
    (finding,) = (one for one in report.findings if one.code.code == "RM-INTERNAL")
    assert "ZeroDivisionError: unforeseen" in finding.message
    assert finding.file is not None
    assert finding.file.startswith("index/")
    assert report.result == "derived-damage"
    assert report.examined.units > 0


@pytest.mark.full
@pytest.mark.spark
def test_spark_finds_the_same_in_the_same_order(plain: Path) -> None:
    _flip(plain / "commitlog" / f"{8192:020d}", 300)
    _flip(plain / "consumequeue" / "TopicTest" / "0" / f"{0:020d}", 5)
    _flip(next((plain / "index").iterdir()), 40)
    here = json_object(run(plain))
    assert here["findings"]
    assert json_object(run(plain, engine=EngineOptions("spark", jobs=2))) == here


@pytest.mark.parametrize("recovers_all", [True, False], ids=["recovers all", "recovers the end"])
def test_lost_units_are_lag_only_where_the_next_start_makes_them_anew(
    tmp_path: Path, recovers_all: bool
) -> None:
    """After a crash a start dispatches from one file on: from the first if the checkpoint has no times."""
    root = tmp_path / "store"
    shutil.copytree(STORES / "segments-5.3.3", root)
    (root / "abort").touch()
    if recovers_all:
        (root / "checkpoint").write_bytes(bytes(4096))
    else:  # as if the last flush was long after the last record
        (root / "checkpoint").write_bytes((1 << 50).to_bytes(8, "big") * 3 + bytes(4072))
    queue = next((root / "consumequeue").iterdir()) / "0"
    for file in queue.iterdir():
        file.write_bytes(bytes(file.stat().st_size))
    report = run(root)
    assert report.findings.counts["CQ-MISSING-MSG"] > 0
    assert report.exit_status() == (ExitStatus.CLEAN if recovers_all else ExitStatus.NEGATIVE)


def test_queues_in_files_and_in_a_database_are_not_judged_without_settings(tmp_path: Path) -> None:
    """Which of them consumers read, only the broker's settings tell."""
    root = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    for name in ("CURRENT", "MANIFEST-000004", "000012.sst"):
        (root / "consumequeue" / name).write_text("x")
    report = verify(VerifyRequest(open_store(root)), Silent())
    assert report.exit_status() is ExitStatus.FAILED
    assert "ST-ROCKSDB" in report.findings.counts


def test_new_times_of_a_copy_do_not_make_its_messages_older(tmp_path: Path) -> None:
    """A broker's log, copied without its times a year later, has not expired by the date of the copy."""
    root = tmp_path / "store"
    shutil.copytree(STORES / "plain-5.3.3", root)
    (root / "commitlog/00000000000000000000").unlink()
    hour_ns = 3_600_000_000_000
    newest_ns = 2_000_000_000_000_000_000
    os.utime(root / "checkpoint", ns=(newest_ns, newest_ns))
    for hours, status in ((0, 5), (71, 5), (72, 0)):
        written_ns = newest_ns - hours * hour_ns
        os.utime(root / "commitlog/00000000000000008192", ns=(written_ns, written_ns))
        report = run(root)
        assert report.exit_status() == status
        assert report.findings.counts["CL-EXPIRED"] == 1


EPOCHS = "epochFileCheckpoint"


@pytest.mark.parametrize(
    ("made", "backup", "told"),
    [
        ("", "1\n0\n1-0\n", "WARNING it is missing, and a start takes its .bak, which ends with epoch 1"),
        ("link", "1\n0\n1-0\n", "WARNING it is missing, and a start takes its .bak"),
        ("directory", "1\n0\n1-0\n", "WARNING it cannot be loaded, and a start takes its .bak"),
        ("directory", "", "WARNING it cannot be loaded, and no .bak is loaded: it is a directory"),
        ("FIFO", "1\n0\n1-0\n", "ERROR it is a FIFO"),
        ("", "2\n0\n1-0\n", "WARNING it is missing, and no .bak is loaded: its number"),
        ("", "", "WARNING it is missing, and its .bak, too"),
    ],
)
def test_a_lost_epoch_file_is_told(plain: Path, made: str, backup: str, told: str) -> None:
    """Whatever is in its place, the rest of the store is verified."""
    if made:
        make = {"link": lambda path: path.symlink_to("nowhere"), "directory": Path.mkdir, "FIFO": os.mkfifo}
        make[made](plain / EPOCHS)
    if backup:
        (plain / f"{EPOCHS}.bak").write_text(backup)
    store = open_store(plain, properties=["enableControllerMode=true"])
    report = verify(VerifyRequest(store, engine=EngineOptions("local", jobs=1)), Silent())
    (found,) = (one for one in report.findings if one.code.code == "ST-EPOCHS")
    assert f"{found.severity.name} {found.message}".startswith(told)
    assert found.file == EPOCHS
    assert report.log_losses is None or report.log_losses.messages == 0
    store = open_store(plain, properties=["enableControllerMode=false"])
    report = verify(VerifyRequest(store, engine=EngineOptions("local", jobs=1)), Silent())
    assert "ST-EPOCHS" not in report.findings.counts
