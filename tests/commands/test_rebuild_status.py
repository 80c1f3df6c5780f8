"""What a rebuild says of the log: damage is told from the ordinary end of a log, and gives exit status 5."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.errors import ExitStatus
from rmqtool.projection import json_object
from rmqtool.reput import chain
from tests.broker import damage_cases
from tests.broker.log_damage import LogCopy
from tests.broker.stores import fixture_store
from tests.commands.rebuilding import rebuild_store

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.commands.rebuild.report import RebuildReport


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fixture_store("plain-5.3.3").copy_to(tmp_path / "store")


@pytest.fixture
def log(root: Path) -> LogCopy:
    return LogCopy(root)


def rebuilt(root: Path, **request: Any) -> RebuildReport:  # noqa: ANN401 - any field of the request
    return rebuild_store(root, fixture_store("plain-5.3.3").conf, root.parent / "out", **request)


def end_of(log: LogCopy) -> int:
    """Return where the last record of the log ends."""
    last = log.records[-1][-1]
    return last + log.head(last).total_size


class TestOrdinaryEnds:
    """Nothing of this is damage, and nothing is skipped."""

    def judge(self, root: Path, *codes: str) -> None:
        report = rebuilt(root, compare=True)
        assert report.exit_status() == ExitStatus.CLEAN
        assert json_object(report)["skipped"] == []
        assert report.findings.counts == dict.fromkeys(codes, 1)
        assert report.differences == ()

    def test_zeros(self, root: Path) -> None:
        self.judge(root, "CL-TAIL-ZERO")

    def test_a_segment_allocated_ahead(self, root: Path, log: LogCopy) -> None:
        start = max(log.segments) + log.segment_size
        (root / "commitlog" / f"{start:020d}").write_bytes(bytes(log.segment_size))
        self.judge(root, "CL-TAIL-ZERO", "CL-PREALLOC")

    def test_leftovers_without_a_true_record(self, root: Path, log: LogCopy) -> None:
        """Bytes of another place, as a reused buffer has them."""
        end = end_of(log)
        log.write(end + 8, log.read(0, log.segment_size - end % log.segment_size - 8))
        self.judge(root, "CL-TAIL-DIRTY")

    def test_a_record_cut_short(self, root: Path, log: LogCopy) -> None:
        """The last write before a power failure: its head came to the disk, as did unit and index item."""
        last = log.records[-1][-1]
        log.write(last + 60, bytes(log.head(last).total_size - 60))
        (root / "abort").touch()
        report = rebuilt(root)
        assert report.findings.counts == {"CL-HALF-RECORD": 1, "CL-LOST": 1}
        assert report.exit_status() == ExitStatus.LOG_DAMAGED
        assert json_object(report)["skipped"] == []
        assert report.records == fixture_store("plain-5.3.3").recipe["records"] - 1

    def test_a_log_that_ends_with_its_segment(self, root: Path, log: LogCopy) -> None:
        """Nothing knows of more than it has: queues, index and checkpoint are gone, too."""
        log.remove_segment(len(log.segments) - 1)
        for name in ("consumequeue", "index"):
            shutil.rmtree(root / name)
        (root / "checkpoint").unlink()
        report = rebuilt(root)
        assert report.exit_status() == ExitStatus.CLEAN
        assert report.findings.counts == {}

    def test_a_last_file_that_is_gone_is_damage_where_its_units_are_there(
        self, root: Path, log: LogCopy
    ) -> None:
        log.remove_segment(len(log.segments) - 1)
        report = rebuilt(root)
        assert report.exit_status() == ExitStatus.LOG_DAMAGED
        assert report.findings.counts == {"CL-LOST": 1}
        assert not report.is_installable


class TestDamage:
    """What the broker loses is listed, with what a salvage would save."""

    def test_what_stands_in_a_files_place_is_named(self, root: Path, log: LogCopy) -> None:
        """The log ends before it, and nothing else would say that it once went on."""
        last = log.segments[max(log.segments)]
        last.unlink()
        os.mkfifo(last)
        report = rebuilt(root)
        assert report.findings.counts["CL-STRAY"] == 1
        assert next(iter(report.findings)).file == f"commitlog/{last.name}"
        assert report.exit_status() == ExitStatus.LOG_DAMAGED

    def test_bytes_behind_a_files_size_cost_no_record(self, root: Path, log: LogCopy) -> None:
        """No broker starts on such a file; what was appended to it is no part of the log."""
        longer = log.segments[min(log.segments) + log.segment_size]
        with longer.open("ab") as file:
            file.write(b"appended by mistake")
        report = rebuilt(root, compare=True)
        assert report.differences == ()
        assert report.findings.counts == {"CL-STRAY": 1, "CL-TAIL-ZERO": 1}
        assert next(iter(report.findings)).file == f"commitlog/{longer.name}"
        assert report.exit_status() == ExitStatus.LOG_DAMAGED

    def test_ranges_and_salvage(self, root: Path, log: LogCopy) -> None:
        expected = damage_cases.zeroed_records(log)
        said = json_object(rebuilt(root))
        assert expected is not None
        assert [(part["physicalOffset"], part["length"]) for part in said["skipped"]] == expected
        saved = log.records[1][15:]
        assert said["salvageWouldAdd"] == {
            "records": len(saved),
            "bytes": sum(log.head(place).total_size for place in saved),
        }
        assert (said["exitStatus"], said["counts"]["CL-HOLE"]) == (5, 1)

    def test_a_torn_log(self, root: Path, log: LogCopy, monkeypatch: pytest.MonkeyPatch) -> None:
        """Above a limit skipped records are only counted; the last one can be the log's end and is not."""
        for place in log.records[0][1:12:2]:
            log.write(place, (log.head(place).total_size + 1).to_bytes(4, "big"))
        monkeypatch.setattr(chain, "MAX_SKIPS", 1 << 20)
        whole = rebuilt(root, dry_run=True)
        monkeypatch.setattr(chain, "MAX_SKIPS", 2)
        report = rebuilt(root, dry_run=True)
        parts, said = json_object(whole)["skipped"], json_object(report)
        assert said["skipped"] == [*parts[:2], *parts[5:]]
        assert said["moreSkipped"] == {"ranges": 3, "bytes": sum(part["length"] for part in parts[2:5])}
        assert (report.findings.counts, report.exit_status()) == (
            whole.findings.counts,
            ExitStatus.LOG_DAMAGED,
        )

    def test_a_gap(self, root: Path, log: LogCopy) -> None:
        log.remove_segment(2)
        report = rebuilt(root)
        assert report.exit_status() == ExitStatus.LOG_DAMAGED
        assert report.records == sum(map(len, log.records[:2]))
        (gap,) = (finding for finding in report.findings if finding.code.code == "CL-GAP")
        assert (gap.physical_offset, gap.length) == (2 * log.segment_size, log.segment_size)

    def test_true_records_behind_the_end(self, root: Path, log: LogCopy) -> None:
        """The last segment's first record is gone, and with it all that follow: no ordinary end."""
        log.write(log.records[-1][0], bytes(8))
        report = rebuilt(root)
        assert report.exit_status() == ExitStatus.LOG_DAMAGED
        assert [part.records for part in report.skipped] == [len(log.records[-1]) - 1]

    def test_a_false_blank(self, root: Path, log: LogCopy) -> None:
        damage_cases.false_blank(log)
        report = rebuilt(root)
        assert report.exit_status() == ExitStatus.LOG_DAMAGED
        assert [part.records for part in report.skipped] == [len(log.records[1]) - 11]

    def test_a_blank_of_the_wrong_length_loses_nothing(self, root: Path, log: LogCopy) -> None:
        damage_cases.blank_length(log)
        report = rebuilt(root, compare=True)
        assert (report.exit_status(), report.differences) == (ExitStatus.CLEAN, ())
        assert report.exit_status("warning") == ExitStatus.LOG_DAMAGED
        assert report.findings.counts["CL-BLANK-LEN"] == 1

    def test_fail_on_never(self, root: Path, log: LogCopy) -> None:
        damage_cases.bad_magic(log)
        report = rebuilt(root)
        assert report.exit_status("never") == ExitStatus.CLEAN
        assert json_object(report)["exitStatus"] == ExitStatus.LOG_DAMAGED

    def test_behind_the_users_own_stop(self, root: Path, log: LogCopy) -> None:
        """What lies there was not asked for."""
        damage_cases.bad_magic(log)
        report = rebuilt(root, until_offset=log.records[0][5])
        assert report.exit_status() == ExitStatus.CLEAN
        assert json_object(report)["skipped"] == []
