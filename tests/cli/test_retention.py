"""``retention``: by the times of files, as they are."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import STORES
from tests.schemas.validating import defects

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

    Runner = Callable[..., Run]

HOUR_S = 3600
NOON = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp())
FOUR = (NOON + 16 * HOUR_S) * 1000
_RUN = {"version": "", "arguments": [], "begin": "", "end": ""}


@pytest.fixture
def aged(tmp_path: Path) -> Callable[..., Path]:
    """Make a store of seven log files with ages in hours at noon; the last age goes for the others."""

    def make(*hours: float, name: str = "plain-5.3.3") -> Path:
        root = tmp_path / f"store-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(STORES / name, root)
        for number, path in enumerate(sorted((root / "commitlog").iterdir())):
            written = NOON - hours[min(number, len(hours) - 1)] * HOUR_S
            os.utime(path, (written, written))
        return root

    return make


def _report(run: Runner, root: Path, *words: object) -> dict[str, Any]:
    done = run("retention", root, "--format", "json", "-q", "--timezone", "UTC", *words)
    assert done.status == 0, done.err
    assert defects("retention", done.document | {"run": _RUN}) == []
    return done.document


def _logs(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [file for file in document["files"] if file["file"].startswith("commitlog/")]


def test_an_old_backup_loses_all_but_its_last_file(run: Runner, aged: Callable[..., Path]) -> None:
    root = aged(240)
    document = _report(run, root, "--at", NOON * 1000)
    assert [file["deleted"] for file in _logs(document)] == [False] * 7
    assert [file["due"] for file in _logs(document)] == [FOUR] * 6 + [None]
    assert document["next"] == (
        "WARNING: a broker deletes 6 of 7 files of the log, all but one, within 17 hours of work"
        " (fileReservedTime=72 h, deleteWhen=04); fileReservedTime=313 prevents that"
    )
    night = _report(run, root, "--at", FOUR)
    assert [file["deleted"] for file in _logs(night)] == [True] * 6 + [False]
    assert (night["minOffset"], sum(night["messages"].values())) == (49152, 144)
    assert night["unread"]["group readers"] == 42
    kept = _report(run, root, "--at", FOUR, "-p", document["prevention"])
    assert not any(file["deleted"] for file in kept["files"])
    assert kept["next"].startswith("nothing is due for 3 days")


@pytest.mark.parametrize("hours", [(240,), (400, 300, 200, 100, 100, 100, 90), (80, 0)])
def test_what_is_said_to_prevent_a_deletion_prevents_it(
    run: Runner, aged: Callable[..., Path], hours: tuple[float, ...]
) -> None:
    """Also of files that were due before the store came to rest."""
    root = aged(*hours)
    prevention = _report(run, root, "--at", NOON * 1000)["prevention"]
    assert any(file["deleted"] for file in _report(run, root, "--at", FOUR)["files"])
    kept = _report(run, root, "--at", FOUR, "-p", prevention)
    assert not any(file["deleted"] for file in kept["files"])


def test_without_a_time_it_is_the_next_that_deletes(run: Runner, aged: Callable[..., Path]) -> None:
    root = aged(240)
    document = _report(run, root)
    assert sum(file["deleted"] for file in _logs(document)) == 6
    assert datetime.fromtimestamp(document["at"] / 1000, UTC).hour == 4
    for command in ("info", "verify"):
        assert "WARNING: a broker deletes 6 of 7 files" in run(command, root).out
        sentence = run(command, root, "--format", "json", "-q").document["retention"]
        assert "fileReservedTime=" in sentence.partition("; ")[2]


def test_a_fresh_store_keeps_its_files(run: Runner, tmp_path: Path) -> None:
    root = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    for path in root.rglob("*"):
        os.utime(path)
    limits = "(fileReservedTime=72 h, deleteWhen=04)"
    assert run("info", root, "--format", "json").document["retention"] in {
        f"nothing is due for 3 days {limits}",
        f"nothing is due for 2 days {limits}",  # 71.9 hours while the hour is 4
    }
    assert "retention" not in run("verify", root, "--format", "json").document


def test_an_old_file_after_a_young_one_stays(run: Runner, aged: Callable[..., Path]) -> None:
    document = _report(run, aged(100, 20, 100), "--at", FOUR)
    assert [file["deleted"] for file in _logs(document)] == [True] + [False] * 6
    reasons = [file["reason"] for file in _logs(document)]
    assert reasons[1] == "younger than fileReservedTime=72 h"
    assert reasons[2] == "a younger file lies before it: commitlog/00000000000000008192"
    assert reasons[6] == "the last file is never deleted"


@pytest.mark.parametrize(
    ("ratio", "version", "words", "count"),
    [
        (75, "5.3.3", (), 0),
        (75.2, "5.3.3", (), 3),
        (85, "5.3.3", (), 3),
        (85.1, "5.3.3", (), 6),
        (86, "5.3.3", ("-p", "cleanFileForciblyEnable=false"), 3),
        (86, "5.3.3", ("-p", "diskMaxUsedSpaceRatio=95"), 6),
        (86, "4.9.8", ("-p", "diskMaxUsedSpaceRatio=95"), 0),
        (86, "4.9.8", (), 6),
        (11, "5.3.3", ("-p", "diskMaxUsedSpaceRatio=0"), 3),
        (31, "5.3.3", ("-p", "diskSpaceCleanForciblyRatio=1"), 6),
        (99, "5.3.3", ("-p", "deleteWhen=04:00"), 0),
    ],
)
def test_by_the_disk(
    run: Runner, aged: Callable[..., Path], ratio: float, version: str, words: tuple[str, ...], count: int
) -> None:
    root = aged(100, 100, 100, 10)
    given = ("--at", NOON * 1000, "--disk-ratio", ratio, "--broker-version", version)
    assert sum(file["deleted"] for file in _logs(_report(run, root, *given, *words))) == count


@pytest.mark.parametrize(
    ("when", "hour", "deletes"),
    [
        ("12", 12, True),
        ("04;12", 12, True),
        ("04;12;", 12, True),
        ("+12", 12, True),
        ("24", 12, False),
        (";", 12, False),
        ("12;x", 12, True),
        ("x;12", 12, False),
        ("12:00", 12, False),
        ("04; 12", 12, False),
        ("4,12", 12, False),
    ],
)
def test_hours(run: Runner, aged: Callable[..., Path], when: str, hour: int, deletes: bool) -> None:
    at = (NOON + (hour - 12) * HOUR_S) * 1000
    document = _report(run, aged(100), "--at", at, "-p", f"deleteWhen={when}")
    assert any(file["deleted"] for file in document["files"]) is deletes


def test_what_cannot_be_read_deletes_nothing(run: Runner, aged: Callable[..., Path]) -> None:
    document = _report(run, aged(100), "--at", FOUR, "-p", "deleteWhen=04:00", "--disk-ratio", 99)
    assert document["next"] == "deleteWhen=04:00 cannot be read: a broker deletes nothing, whatever its age"
    assert {file["due"] for file in _logs(document)} == {None}


def test_an_hour_before_what_cannot_be_read_is_told(run: Runner, aged: Callable[..., Path]) -> None:
    """``UtilAll#isItTimeToDo`` reads one number after the other, until one is the present hour."""
    words = ("--at", NOON * 1000, "-p", "deleteWhen=04;x")
    told = _report(run, aged(100), *words)["next"]
    assert told.startswith("WARNING: a broker deletes 6 of 7 files of the log, all but one, within 17 hours")
    told = _report(run, aged(1), *words, "--disk-ratio", 99)["next"]
    assert "all but one, at the next hour of deleteWhen=04;x: the disk is so full" in told


def test_the_hour_is_that_of_the_brokers_zone(run: Runner, aged: Callable[..., Path]) -> None:
    words = ("--at", NOON * 1000, "-p", "deleteWhen=20")
    root = aged(100)
    assert not any(file["deleted"] for file in _report(run, root, *words)["files"])
    done = run("retention", root, "--format", "json", *words, "--timezone", "Asia/Shanghai")
    assert sum(file["deleted"] for file in _logs(done.document)) == 6


def test_queues_and_index_follow_the_log(run: Runner, aged: Callable[..., Path]) -> None:
    """A queue file goes when its last unit lies before the log; the last of each queue stays."""
    document = _report(run, aged(100, 100, 10), "--at", FOUR)
    gone = [file["file"] for file in document["files"] if file["deleted"]]
    assert "consumequeue/Payments/0/00000000000000000000" in gone
    assert any(file.startswith("index/") for file in gone)
    for file in document["files"]:
        if file["reason"].startswith("goes with log offset "):
            assert file["deleted"] == (int(file["reason"].split()[-1]) < document["minOffset"])


def test_text_and_lines(run: Runner, aged: Callable[..., Path]) -> None:
    root = aged(240)
    done = run("retention", root, "--at", FOUR, "--timezone", "UTC")
    assert "a broker deletes 6 of 7 files of the log" in done.out.splitlines()[0]
    assert "Of these not consumed" in done.out
    lines = run("retention", root, "--format", "ndjson").objects
    assert [one for line in lines for one in defects("retention-line", line)] == []
    assert len(run("retention", root, "--format", "csv").out.splitlines()) == len(lines) + 1


def test_lines_of_a_full_disk_are_explained_by_it(run: Runner, aged: Callable[..., Path]) -> None:
    line = "commitLog disk maybe full soon, so reclaim space, 0.76"
    (found,) = run("explain", line, aged(240), "--format", "json", "-q").document["lines"]
    assert "a broker deletes 6 of 7 files" in found["places"][0]


def test_a_full_disk_deletes_what_nobody_has_read(run: Runner, aged: Callable[..., Path]) -> None:
    """4549: above 85 % files go whatever their age, and with them what groups have not read."""
    root, words = aged(1), ("--at", NOON * 1000, "--disk-ratio")
    full = _report(run, root, *words, 86)
    assert {file["reason"] for file in _logs(full) if file["deleted"]} == {
        "the disk is so full that age does not count"
    }
    assert sum(full["unread"].values()) > 0
    kept = _report(run, root, *words, 86, "-p", "cleanFileForciblyEnable=false")
    assert (kept["unread"], any(file["deleted"] for file in kept["files"])) == ({}, False)


def test_a_disk_that_fills_up_and_nothing_old_enough(run: Runner, aged: Callable[..., Path]) -> None:
    """4042: the same lines every ten seconds, at 82 %: files may go, and none is old enough."""
    root = aged(0, name="plain-4.9.8")
    lines = (
        "INFO StoreScheduledThread1 - physic disk maybe full soon, so reclaim space, 0.82, storePathPhysic=/",
        "WARN StoreScheduledThread1 - disk space will be full soon, but delete file failed.",
    )
    for line in lines:
        (told,) = run("explain", line, root, "--format", "json", "-q").document["lines"]
        assert told["name"] in {"disk-full", "cleaning-fails"}
        assert "fileReservedTime=" in told["places"][0]
    report = _report(run, root, "--at", NOON * 1000, "--disk-ratio", 82)
    assert {file["reason"].partition("=")[0] for file in _logs(report)[:-1]} == {
        "younger than fileReservedTime"
    }
    assert not any(file["deleted"] for file in report["files"])
    full = _report(run, root, "--at", NOON * 1000, "--disk-ratio", 86)
    assert [file["deleted"] for file in _logs(full)] == [True] * 6 + [False]
    line = "CODE: 14 DESC: service not available now. It may be caused by one of the following reasons: "
    line += "the broker's disk is full [CL:  0.95 CQ:  0.95 INDEX:  0.95], messages are put to the slave"
    (told,) = run("explain", line, root, "--format", "json", "-q").document["lines"]
    assert told["places"] == [full["next"]]
    assert full["next"].startswith("WARNING: a broker deletes 6 of 7 files of the log, all but one, at once")


def test_what_is_not_known(run: Runner, tmp_path: Path) -> None:
    assert run("retention", STORES / "plain-5.3.3/commitlog").status == 2
    (tmp_path / "store/commitlog").mkdir(parents=True)
    assert run("retention", tmp_path / "store").status == 3
    ledger = next((STORES.parent / "dledger").iterdir())
    done = run("retention", ledger)
    assert done.status == 3
    assert "retention is known of stores on a disk, without a DLedger log, whose queues are files" in done.err


def test_a_file_allocated_ahead_protects_none_but_the_one_with_the_end(
    run: Runner, aged: Callable[..., Path]
) -> None:
    root = aged(240)
    (root / "commitlog" / f"{57344:020d}").write_bytes(bytes(8192))
    files = _logs(_report(run, root, "--at", FOUR))
    assert [file["deleted"] for file in files] == [True] * 6 + [False] * 2
    assert [file["reason"] for file in files[6:]] == [
        "the last file is never deleted",
        "empty, removed at a start",
    ]


@pytest.mark.parametrize("hours", [99_999_999, 2_147_483_647])
def test_files_that_are_kept_for_ever_are_never_due(
    run: Runner, aged: Callable[..., Path], hours: int
) -> None:
    """No calendar has the time at which they would be; `info` and `verify` say so, too."""
    root, kept = aged(240), ("-p", f"fileReservedTime={hours}")
    ran = run("retention", root, *kept, "--format", "json")
    assert {(file["deleted"], file["due"]) for file in ran.document["files"]} == {(False, None)}
    assert ran.document["next"] == f"by age nothing is deleted (fileReservedTime={hours} h, deleteWhen=04)"
    assert run("verify", root, *kept).status == run("info", root, *kept).status == 0
    assert run("retention", root, "--at", "9999-12-31T23:59").status == 0
