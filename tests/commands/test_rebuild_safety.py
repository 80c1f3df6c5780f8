"""A rebuild is never advised where consumers would lose by it, and tells where every record went."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.commands.rebuild import Generations
from rmqtool.commands.rebuild.report import install_hint
from rmqtool.errors import ExitStatus
from rmqtool.formats.consumequeue import PREBLANK, UNITS, UnitFields
from rmqtool.outcomes import is_needed
from rmqtool.projection import json_object
from tests.commands.rebuilding import Listener, rebuild_store
from tests.damage.cases import Case, load_cases
from tests.damage.edits import edited
from tests.damage.places import Places
from tests.damage.recreated import QUEUE_FILE, recreated
from tests.damage.running import ONE_THREAD, damaged_copy, verified
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.commands.rebuild.report import RebuildReport

OF_TRANSACTIONS = {"CL-HALF", "CL-OP", "CL-PREPARED"}
"""What records of transactions say of each other: no rebuild asks that, and no start stumbles over it."""
LOG_CASES = [
    case for case in load_cases() if case.code.startswith("CL-") and case.code not in OF_TRANSACTIONS
]


def case_of(name: str) -> Case:
    """Return a case by its code and number, counted from 1."""
    code, _, number = name.rpartition("-")
    return [case for case in load_cases() if case.code == code][int(number) - 1]


def rebuilt(root: Path, **request: Any) -> RebuildReport:  # noqa: ANN401 - any field of the request
    request.setdefault("dry_run", "out" not in request)
    return rebuild_store(root, root / "broker.conf", request.pop("out", None), engine=ONE_THREAD, **request)


@pytest.fixture
def night(tmp_path: Path) -> Path:
    """Return plain-5.3.3 with a byte of the body of a late record flipped, and an abort."""
    edits: list[dict[str, Any]] = [
        {"record": 150, "field": "body", "flip": 1},
        {"file": "abort", "create": ""},
    ]
    return edited(fixture("plain-5.3.3"), tmp_path / "night", edits)


class TestRemedies:
    """DMG/CL-GAP-1: who obeyed went from 163 units to 51."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return damaged_copy(case_of("CL-GAP-1"), tmp_path)

    def test_what_would_be_lost_is_said_first_and_nothing_is_to_be_installed(
        self, root: Path, tmp_path: Path
    ) -> None:
        report = rebuilt(root, out=tmp_path / "out")
        assert "112 fewer messages than now" in report.verdict
        assert report.exit_status() == ExitStatus.LOG_DAMAGED
        assert "To install" not in report.install_hint
        assert "delivers 85 wrong messages" in report.install_hint
        assert "in a replica or a backup first" in report.install_hint
        document = json_object(report)
        assert (document["installable"], document["present"]["fewerMessages"]) == (False, 112)
        assert sum(one["messages"] for one in document["present"]["fewerByQueue"]) == 112
        assert (document["present"]["messages"], document["units"]) == (163, 51)

    def test_verify_names_a_replica_and_no_rebuild(self, root: Path) -> None:
        found = [one for one in verified(root).findings if one.code.code in {"CQ-DANGLING", "IX-DANGLING"}]
        assert found
        for finding in found:
            assert "Compare with a replica first" in finding.remedy
            assert json_object(finding)["remedy"] == finding.remedy

    def test_a_sound_log_is_what_derived_files_are_made_of(self, tmp_path: Path) -> None:
        root = edited(
            fixture("plain-5.3.3"), tmp_path / "store", [{"file": "consumequeue/Orders/0", "delete": True}]
        )
        (finding,) = (one for one in verified(root).findings if one.code.code == "CQ-MISSING-MSG")
        assert finding.remedy == f"Repair the store in place: rmqtool repair {root} --plan"
        report = rebuilt(root)
        assert report.verdict.startswith("Complete: 163 messages in 10 queues, ")
        assert report.exit_status() == ExitStatus.CLEAN

    def test_a_body_that_the_next_start_stumbles_over(self, night: Path, tmp_path: Path) -> None:
        """The queues made are those that are there, and yet no broker should start."""
        report = rebuilt(night, out=tmp_path / "out", compare=True)
        assert report.exit_status() == verified(night).exit_status() == ExitStatus.LOG_DAMAGED
        assert report.findings.counts["CL-CRC"] == 1
        assert report.verdict.startswith(
            "The commit log is damaged: 163 messages in 10 queues, as many as now"
        )
        assert "To install" not in report.install_hint
        assert report.differences == ()

    def test_a_torn_body_at_the_end_is_what_a_start_expects(self, tmp_path: Path) -> None:
        edits: list[dict[str, Any]] = [
            {"record": -1, "field": "body", "flip": 1},
            {"file": "abort", "create": ""},
        ]
        root = edited(fixture("plain-5.3.3"), tmp_path / "store", edits)
        report = rebuilt(root)
        assert (report.findings.counts["CL-CRC"], report.exit_status()) == (1, ExitStatus.CLEAN)


@pytest.mark.few(3)
@pytest.mark.parametrize("case", LOG_CASES, ids=[f"{case.code}: {case.name}" for case in LOG_CASES])
def test_one_status_and_one_account(case: Case, tmp_path: Path) -> None:
    """Rebuild is 5 where verify is; dispatched, skipped and unreachable are all the records there are."""
    root = damaged_copy(case, tmp_path)
    judged, report = verified(root, case.properties), rebuilt(root, properties=tuple(case.properties))
    damaged = ExitStatus.LOG_DAMAGED
    assert (report.exit_status() == damaged) == (judged.exit_status() == damaged)
    account = json_object(report)["account"]
    assert sum(count for name, count in account.items() if name != "records") == account["records"]
    records = judged.examined.records
    if case.code == "CL-TAIL-DIRTY" or (judged.findings.counts.get("CL-CRC") and (root / "abort").exists()):
        records = max(records, account["records"])  # verify leaves old and torn records at the end out
    if case.name in {"a segment renamed", "two segments swapped"}:  # their records are true where they were
        records = account["records"]
    assert account["records"] == records


class TestAccounts:
    """Nothing that is there and gets into no queue is hidden."""

    def test_behind_a_missing_segment(self, tmp_path: Path) -> None:
        report = rebuilt(damaged_copy(case_of("CL-GAP-1"), tmp_path))
        assert json_object(report)["account"] == {
            "records": 138,
            "dispatched": 51,
            "notAskedFor": 0,
            "skipped": 0,
            "unreachable": 87,
        }
        named = json_object(report)["unreachable"]
        assert [one["file"] for one in named] == [
            f"commitlog/{start:020d}" for start in range(24576, 57344, 8192)
        ]
        assert sum(one["records"] for one in named) == 87
        assert json_object(report)["salvageWouldAdd"]["records"] == 87

    def test_one_flipped_physical_offset(self, tmp_path: Path) -> None:
        """The queue takes what follows for older, and so does the index."""
        edits = [{"record": 20, "field": "physicalOffset", "set": 1 << 40}]
        root = edited(fixture("plain-5.3.3"), tmp_path / "store", edits)
        report = rebuilt(root)
        document = json_object(report)
        assert document["skippedUnits"] == sum(one["units"] for one in document["skippedUnitsByQueue"]) > 0
        assert document["units"] + document["skippedUnits"] == 163
        assert document["messagesNotIndexed"] == 163 - 21 - 2  # two of them have no keys
        assert report.fewer_messages >= document["skippedUnits"]
        assert report.exit_status() == ExitStatus.LOG_DAMAGED

    def test_a_dry_run_and_a_run_say_the_same(self, tmp_path: Path) -> None:
        edits = [{"record": 20, "field": "physicalOffset", "set": 1 << 40}]
        root = edited(fixture("plain-5.3.3"), tmp_path / "store", edits)
        dry, whole = json_object(rebuilt(root)), json_object(rebuilt(root, out=tmp_path / "out"))
        different = {"out", "files", "seconds"}
        assert {k: v for k, v in dry.items() if k not in different} == {
            k: v for k, v in whole.items() if k not in different
        }

    def test_a_log_cut_amid_a_record(self, tmp_path: Path) -> None:
        """No broker loads it, whether other files show the size or not."""
        label = "commitlog/00000000000000049152"
        edits = [{"file": label, "truncate": 3000}]
        several = edited(fixture("plain-5.3.3"), tmp_path / "several", edits)
        report = rebuilt(several)
        assert {"CL-STRAY", "CL-HALF-RECORD"} <= report.findings.counts.keys()
        assert report.exit_status() == ExitStatus.LOG_DAMAGED
        alone = edited(fixture("plain-5.3.3"), tmp_path / "alone", edits)
        for path in sorted((alone / "commitlog").iterdir())[:-1]:
            path.unlink()
        (alone / "broker.conf").unlink()
        report = rebuild_store(alone, None, None, engine=ONE_THREAD, dry_run=True)
        assert report.findings.counts["CL-HALF-RECORD"] == 1
        assert report.exit_status() == ExitStatus.LOG_DAMAGED


class TestCreatedAgain:
    """A topic deleted and created again: its older messages have no queue, those that live keep theirs."""

    @pytest.mark.parametrize("queues", [(0,), (0, 1), (0, 1, 2, 3)])
    def test_what_lives_is_kept_and_the_store_is_sound(self, queues: tuple[int, ...], tmp_path: Path) -> None:
        """With fewer queues than before, or with queues that nobody has written to since, too."""
        root = recreated(tmp_path, 5, queues=queues)
        judged = verified(root)
        assert judged.exit_status() == ExitStatus.CLEAN
        assert "CQ-MISSING-MSG" not in judged.findings.counts
        assert (
            "rebuild" not in next(one for one in judged.findings if one.code.code == "CQ-TOPIC-GONE").remedy
        )
        report = rebuilt(root, compare=True, dry_run=False)
        assert (report.differences, report.exit_status()) == ((), ExitStatus.CLEAN)
        assert report.fewer_messages == 0
        older = json_object(report)["olderGenerations"]
        assert {(one["topic"], one["queueId"]) for one in older} == {
            ("TopicTest", number) for number in range(4)
        }
        assert sum(one["units"] for one in older) == judged.findings.counts["CQ-TOPIC-GONE"]

    def test_the_brokers_rule_is_there_to_be_asked_for(self, tmp_path: Path) -> None:
        report = rebuilt(recreated(tmp_path, 5, queues=(0, 1, 2, 3)), generations=Generations.ALL)
        assert report.verdict.startswith("17 fewer messages than now")
        assert report.exit_status() == ExitStatus.NEGATIVE
        assert "Do not install this result" in report.install_hint

    def test_without_queues_nothing_shows_which_live(self, tmp_path: Path) -> None:
        """It is said, and the user chooses."""
        root, listener = recreated(tmp_path, 5, queues=(0, 1, 2, 3)), Listener()
        before = rebuilt(root).units
        shutil.rmtree(root / "consumequeue")
        found = rebuilt(root, listener=listener)
        assert json_object(found)["skippedUnits"] > 0
        assert len([text for text in listener.warnings if "--generations live" in text]) == 4
        assert rebuilt(root, generations=Generations.LIVE).units == before

    def test_nothing_is_installed_before_the_user_has_chosen(self, tmp_path: Path) -> None:
        root = recreated(tmp_path, 5, queues=(0, 1, 2, 3))
        shutil.rmtree(root / "consumequeue")
        for number, mode in enumerate(Generations):
            report = rebuilt(root, out=tmp_path / str(number), generations=mode)
            assert ("To install" in report.install_hint) == (mode is not Generations.AUTO)
            assert report.is_installable == (mode is not Generations.AUTO)
            assert ("--generations all" in report.install_hint) == (mode is Generations.AUTO)

    @pytest.mark.parametrize("preblank", [1, 3])
    def test_a_queue_that_was_deleted_while_messages_came(self, preblank: int, tmp_path: Path) -> None:
        """A real 5.3.3 left pre-blank units in the place of the first that live, and later old ones."""
        root = recreated(tmp_path, 5, queues=(0, 1, 2, 3))
        file = root / "consumequeue" / "TopicTest" / "0" / f"{0:020d}"
        data = file.read_bytes()
        file.write_bytes(UNITS.encode(PREBLANK) * preblank + data[preblank * UNITS.size :])
        old = next(one for one in Places(root).records if one.topic == "TopicTest")
        stray = root / "consumequeue" / "TopicTest" / "0" / f"{10 * QUEUE_FILE:020d}"
        stray.write_bytes(
            UNITS.encode(UnitFields(old.physical_offset, len(old.raw), 0)).ljust(QUEUE_FILE, b"\0")
        )
        judged, report = verified(root), rebuilt(root)
        missing = [int(one.expected or 0) for one in judged.findings if one.code.code == "CQ-MISSING-MSG"]
        assert sum(missing) == preblank
        assert report.present is not None
        assert (report.present.more_messages, report.fewer_messages) == (preblank, 0)

    def test_a_queue_that_begins_later_than_the_log_settles_nothing(self, tmp_path: Path) -> None:
        root = recreated(tmp_path, 5, queues=(0, 1, 2, 3))
        file = root / "consumequeue" / "TopicTest" / "3" / f"{0:020d}"
        file.rename(file.with_name(f"{10 * QUEUE_FILE:020d}"))
        report = rebuilt(root)
        assert len(report.unsettled_generations) == 1
        assert "TopicTest/3" in report.unsettled_generations[0]
        assert "Do not install" in report.install_hint


def test_another_delay_table_is_said_as_verify_does(tmp_path: Path) -> None:
    case = case_of("ST-SETTINGS-3")
    root = damaged_copy(case, tmp_path)
    expected = next(one for one in verified(root, case.properties).findings if one.code.code == "ST-SETTINGS")
    report = rebuilt(root, properties=tuple(case.properties))
    (found,) = (one for one in report.findings if one.code.code == "ST-SETTINGS")
    assert found.message == expected.message
    assert (found.severity, found.topic) == (expected.severity, expected.topic)


def test_a_delay_table_that_nothing_shows_is_a_warning(tmp_path: Path) -> None:
    root, listener = tmp_path / "store", Listener()
    shutil.copytree(fixture("delaycustom-5.3.3"), root)
    shutil.rmtree(root / "consumequeue")
    rebuild_store(root, None, None, engine=ONE_THREAD, dry_run=True, listener=listener)
    assert any("messageDelayLevel is not known" in text for text in listener.warnings)


def test_a_part_is_not_held_against_the_whole(tmp_path: Path) -> None:
    report = rebuilt(fixture("plain-5.3.3"), topics=("Orders",))
    assert (report.present, report.fewer_messages) == (None, 0)
    assert report.verdict.startswith("A part, as requested: 32 messages")
    assert replace(report, partial=False).verdict.startswith("Complete: ")


def test_queues_of_which_all_has_expired_are_not_taken_away() -> None:
    """Their files show the next queue offset: without them consumers skip what gets the old ones again."""
    with rmqtool.open(fixture("expiredhead-5.3.3")) as store:
        hint = install_hint(store.rebuild(None, dry_run=True, engine="local", jobs=1))
        assert not any(is_needed([one]) for one in store.verify(jobs=1).outcomes if one.recommended)
    assert hint.startswith("Do not install this result: a start on it gives 12 queue offsets a second time")
    assert hint.endswith("needs nothing")


def test_batch_queues_that_no_broker_loads_are_not_installed(tmp_path: Path) -> None:
    root = shutil.copytree(fixture("batchcq-5.3.3"), tmp_path / "store")
    (root / "config" / "topics.json").write_text(
        '{"topicConfigTable":{"Ordinary":{"topicName":"Ordinary"},"Streams":{"topicName":"Streams"}}}'
    )
    with rmqtool.open(root) as store:
        hint = install_hint(store.rebuild(None, dry_run=True, engine="local", jobs=1))
    assert hint.startswith("Do not install this result: a start on it ends with an error")
