"""Outcomes of each action on a store, and the next step that follows from them."""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.commands.verify import Verdict
from rmqtool.formats.message import HEAD_OFFSETS
from rmqtool.outcomes import Action, Outcome, agreed, best, outcome_of, start_findings
from rmqtool.report.verdict import verdict_words
from tests.salvage.damages import MISLEADING, damage
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqtool import VerifyReport


def copied(name: str, folder: Path, damage: Callable[[Path], object]) -> Path:
    root = folder / "store"
    shutil.copytree(fixture(name), root)
    damage(root)
    return root


def verified(root: Path) -> VerifyReport:
    with rmqtool.open(root) as store:
        return store.verify(jobs=1)


def chosen(report: VerifyReport) -> Outcome:
    found = best(report.outcomes)
    assert found is not None
    return found


def zero_page(root: Path) -> None:
    (root / "abort").touch()
    file = root / "commitlog" / f"{40960:020d}"
    data = bytearray(file.read_bytes())
    data[3000:3900] = bytes(900)
    file.write_bytes(data)


def test_a_sound_store_has_no_outcomes_and_no_next_step() -> None:
    """Nothing is foreseen where nothing is wrong: a big store is verified as fast as before."""
    report = verified(fixture("plain-5.3.3"))
    assert report.outcomes == ()
    assert verdict_words(Verdict(report))["next"] is None


def test_a_hole_is_salvaged_and_its_start_costs_what_lies_after_it(tmp_path: Path) -> None:
    report = verified(copied("plain-5.3.3", tmp_path, zero_page))
    start, salvage = outcome_of(report.outcomes, Action.START), outcome_of(report.outcomes, Action.SALVAGE)
    assert start is not None
    assert salvage is not None
    assert start.starts
    assert start.lost > salvage.lost > 0
    assert (salvage.wrong, salvage.unserved, salvage.reused, salvage.unindexed) == (0, 0, 0, 0)
    assert salvage.served is not None
    assert start.served is not None
    assert salvage.served > start.served
    assert chosen(report) is salvage
    words = verdict_words(Verdict(report))
    assert words["next"] == f"rmqtool salvage {report.store} --out {report.store}.salvaged"
    assert words["first"] is not None


def test_lost_queues_are_rebuilt_or_repaired_not_salvaged(tmp_path: Path) -> None:
    """A start of 5.3.3 completes what a queue lacks at its end alone."""
    report = verified(
        copied("plain-5.3.3", tmp_path, lambda root: shutil.rmtree(root / "consumequeue/Orders"))
    )
    best_of_all = chosen(report)
    assert best_of_all.action is Action.REPAIR
    assert not any(best_of_all.harm)
    assert outcome_of(report.outcomes, Action.START) != best_of_all


@pytest.mark.parametrize("release", ["5.4.0", "5.5.1"])
def test_a_killed_store_of_many_files_has_keys_that_a_start_forgets(release: str, tmp_path: Path) -> None:
    """The start deletes the newest index file and reads the newest 10 files of the log: repair spares it."""

    def kill(root: Path) -> None:
        (root / "abort").touch()
        files = sorted((root / "index").iterdir())
        assert len(files) > 1

    root = copied(f"segments-{release}", tmp_path, kill)
    report = verified(root)
    start = outcome_of(report.outcomes, Action.START)
    assert start is not None
    assert (start.lost, start.wrong, start.unserved) == (0, 0, 0)
    if start.unindexed:
        assert chosen(report).action is Action.REPAIR
        assert report.exit_status() == 0


def test_units_in_wrong_slots_are_foreseen(tmp_path: Path) -> None:
    """Queues of 4.9.8 that end before the log's first byte get the rest in wrong places."""

    def damage(root: Path) -> None:
        for file in (root / "commitlog").iterdir():
            if int(file.name) < 32768:
                file.unlink()
        shutil.rmtree(root / "index")
        (root / "index").mkdir()
        for queue in (root / "consumequeue").glob("*/*"):
            for file in queue.iterdir():
                data = bytearray(file.read_bytes())
                for at in range(0, len(data), 20):
                    if int.from_bytes(data[at : at + 8], "big") >= 24576:
                        data[at : at + 20] = bytes(20)
                file.write_bytes(data)

    with rmqtool.open(copied("plain-4.9.8", tmp_path, damage)) as store:
        report, prediction = store.verify(jobs=1), store.predict_recovery()
    start = outcome_of(report.outcomes, Action.START)
    assert start is not None
    misplaced = sum(one.misplaced for one in prediction.queues)
    assert misplaced > 0
    assert start.wrong is not None
    assert start.wrong >= misplaced
    words = verdict_words(Verdict(report, predictions=(prediction,)))["verdict"]
    assert words is not None
    assert "wrong message" in words
    assert "lose no message" not in words


def test_a_log_without_its_first_files_is_no_reason_to_remove_what_proves_them(tmp_path: Path) -> None:
    """A unit at offset 0 delivers the first file's first bytes, until the broker deletes the queue's file."""

    def damage(root: Path) -> None:
        for file in (root / "commitlog").iterdir():
            if int(file.name) < 24576:
                file.unlink()

    report = verified(copied("plain-5.3.3", tmp_path, damage))
    start = outcome_of(report.outcomes, Action.START)
    assert start is not None
    assert start.wrong == start.expired == 1
    assert chosen(report) is start
    assert list(start_findings(report.outcomes, "5.3.3")) == []
    assert verdict_words(Verdict(report))["next"] is None


def test_units_after_zeros_show_which_queue_offsets_of_an_expired_queue_were_given(tmp_path: Path) -> None:
    """A start after a kill drops them, and gives their offsets again: the log has none of the messages."""

    def damage(root: Path) -> None:
        for file in (root / "commitlog").iterdir():
            if int(file.name) < 32768:
                file.unlink()
        for file in (root / "consumequeue" / "TopicTest").glob("*/00000000000000000000"):
            with file.open("r+b") as units:
                units.seek(8 * 20)
                units.write(bytes(2 * 20))

    report = verified(copied("crash-5.5.1", tmp_path, damage))
    start = outcome_of(report.outcomes, Action.START)
    assert start is not None
    assert start.reused == 66


def test_a_topic_that_was_deleted_is_not_brought_back(tmp_path: Path) -> None:
    """Its messages stay in the log, and nobody misses them."""

    def damage(root: Path) -> None:
        shutil.rmtree(root / "consumequeue" / "Payments")
        file = root / "config" / "topics.json"
        topics = json.loads(file.read_text())
        topics["topicConfigTable"].pop("Payments")
        file.write_text(json.dumps(topics))

    report = verified(copied("plain-5.3.3", tmp_path, damage))
    assert "CQ-TOPIC-GONE" in report.findings.counts
    assert verdict_words(Verdict(report))["next"] is None


def test_what_is_left_of_a_log_that_is_gone_is_not_repaired(tmp_path: Path) -> None:
    """A queue file of another name stops the start; queues of no log would drop what proves the losses."""

    def damage(root: Path) -> None:
        shutil.rmtree(root / "commitlog")
        queue = root / "consumequeue" / "TopicTest" / "0"
        (queue / "00000000000000000200").rename(queue / "00000000000000000200.gz")

    report = verified(copied("plain-5.3.3", tmp_path, damage))
    assert report.log_losses is not None
    assert report.log_losses.messages > 100
    repair = outcome_of(report.outcomes, Action.REPAIR)
    assert repair is not None
    assert repair.refused == "there is no log to make them from: restore it from a replica or a backup"
    assert "repair" not in (verdict_words(Verdict(report))["next"] or "")


def test_a_start_that_serves_nothing_is_not_recommended(tmp_path: Path) -> None:
    """A script that goes by ``recommended`` would delete all that proves what the log held."""
    report = verified(copied("plain-5.3.3", tmp_path, lambda root: shutil.rmtree(root / "commitlog")))
    assert {outcome.action for outcome in report.outcomes if outcome.starts} == {Action.START}
    assert best(report.outcomes) is None
    assert (verdict_words(Verdict(report))["next"] or "").startswith("cp -a ")


def test_a_message_that_salvage_leaves_out_weighs_no_more_than_one_in_a_wrong_place() -> None:
    rebuild = Outcome(action=Action.REBUILD, lost=11, wrong=47)
    salvage = Outcome(action=Action.SALVAGE, lost=12, wrong=0)
    start = Outcome(action=Action.START, lost=0, unserved=12)
    assert rebuild.harm > salvage.harm > start.harm


def test_salvage_is_nothing_for_a_release_that_cannot_read_batch_queues(tmp_path: Path) -> None:
    def damage(root: Path) -> None:
        file = sorted((root / "commitlog").iterdir())[1]
        file.write_bytes(file.read_bytes()[:300] + bytes(700) + file.read_bytes()[1000:])

    root = copied("batchcq-5.5.1", tmp_path, damage)
    with rmqtool.open(root, broker_version="4.9.8") as store:
        salvage = outcome_of(store.verify(jobs=1).outcomes, Action.SALVAGE)
    assert salvage is not None
    assert salvage.refused == "a 4.9.8 broker cannot read batch queues"


def of_release(**wrong: int) -> tuple[Outcome, ...]:
    return tuple(Outcome(action=Action(name), wrong=count) for name, count in wrong.items())


def test_what_is_best_with_every_release_is_recommended() -> None:
    """The files leave open which broker it was; with the assumed one a start would do."""
    chosen = best(agreed(of_release(start=0, repair=0), {"4.9.8": of_release(start=5, repair=0)}))
    assert chosen is not None
    assert (chosen.action, chosen.unless) == (Action.REPAIR, ())


def test_where_no_action_is_best_with_every_release_the_least_harm_is_and_the_release_is_wanted() -> None:
    chosen = best(agreed(of_release(start=0, repair=1), {"4.9.8": of_release(start=5, repair=2)}))
    assert chosen is not None
    assert (chosen.action, chosen.unless) == (Action.REPAIR, ("the one that is assumed",))
    chosen = best(agreed(of_release(start=1, repair=5), {"4.9.8": of_release(start=2, repair=0)}))
    assert chosen is not None
    assert (chosen.action, chosen.unless) == (Action.START, ("a 4.9.8 broker",))


def test_an_action_that_another_release_does_not_have_is_the_last() -> None:
    assumed = (*of_release(start=1), Outcome(action=Action.SETTING, setting="checkCRCOnRecover=false"))
    chosen = best(agreed(assumed, {"4.9.8": of_release(start=1)}))
    assert chosen is not None
    assert (chosen.action, chosen.unless) == (Action.START, ("the one that is assumed",))


def test_the_step_before_the_next_one_names_a_release_for_which_another_is_better() -> None:
    outcomes = agreed(of_release(start=1, repair=5), {"4.9.8": of_release(start=2, repair=0)})
    report = replace(verified(fixture("plain-5.3.3")), outcomes=outcomes)
    first = verdict_words(Verdict(report))["first"]
    assert first is not None
    assert "--broker-version" in first
    assert "a 4.9.8 broker" in first


def test_files_that_leave_the_release_open_get_one_advice_whatever_is_assumed(tmp_path: Path) -> None:
    def damage(root: Path) -> None:
        file = sorted((root / "commitlog").iterdir())[2]
        file.write_bytes(file.read_bytes()[:300] + bytes(700) + file.read_bytes()[1000:])

    root = copied("segments-5.4.0", tmp_path, damage)
    with rmqtool.open(root) as store:
        assert {one.action for one in store.verify(jobs=1).outcomes if one.recommended} == {Action.SALVAGE}
    for release in ("4.9.8", "5.3.3", "5.4.0"):
        with rmqtool.open(root, broker_version=release) as store:
            found = best(store.verify(jobs=1).outcomes)
        assert found is not None
        assert (found.action, found.unless) == (Action.SALVAGE, ())


def test_a_port_that_is_none_is_delivered_as_bytes_that_no_client_decodes(tmp_path: Path) -> None:
    """``InetSocketAddress`` refuses it, and with it ``MessageDecoder`` the message (5.3.3)."""

    def damage(root: Path) -> None:
        file = root / "commitlog" / f"{0:020d}"
        data = bytearray(file.read_bytes())
        data[HEAD_OFFSETS[0]["bornHost"] + 4] = 0x40
        file.write_bytes(data)

    start = outcome_of(verified(copied("plain-5.3.3", tmp_path, damage)).outcomes, Action.START)
    assert start is not None
    assert (start.wrong, start.unserved, start.lost) == (1, 1, 0)


def test_a_repair_keeps_queues_that_prove_what_a_damaged_log_lost(tmp_path: Path) -> None:
    def damage(root: Path) -> None:
        zero_page(root)
        shutil.rmtree(root / "consumequeue" / "Orders")

    root = copied("plain-5.3.3", tmp_path, damage)
    repair = outcome_of(verified(root).outcomes, Action.REPAIR)
    assert repair is not None
    assert "prove" in (repair.refused or repair.spares or "")
    with rmqtool.open(root) as store:
        plan = store.repair(plan=True, jobs=1)
    assert not [one for one in plan.steps if one.path in {"consumequeue", "index"}]
    assert "Better: " in next(one.why for one in plan.left if one.path == "consumequeue")


def test_a_rebuild_of_a_log_without_records_of_its_own_is_foretold(tmp_path: Path) -> None:
    """Queues are lost, two files are exchanged, the last one is gone; the log does not begin at 0."""
    damage(fixture("expiredhead-5.5.1"), tmp_path / "store", 2118, MISLEADING)
    with rmqtool.open(tmp_path / "store", broker_conf=fixture("expiredhead-5.5.1") / "broker.conf") as store:
        report = store.verify(jobs=1)
    rebuild = outcome_of(report.outcomes, Action.REBUILD)
    assert rebuild is not None
    assert rebuild.served == 0
    assert chosen(report).action is Action.SALVAGE


def test_a_start_gives_offsets_again_in_every_queue_that_lists_a_lost_message(tmp_path: Path) -> None:
    """`Copies`, too, ends at the log's end then."""
    cut = 16384
    units = [
        struct.unpack_from(">qi", path.read_bytes(), at)
        for path in fixture("lmq-4.9.8").glob("consumequeue/[!%]*/*/*")
        for at in range(0, path.stat().st_size, 20)
    ]

    def damage(root: Path) -> None:
        for path in (root / "commitlog").iterdir():
            if int(path.name) >= cut:
                path.unlink()

    start = outcome_of(verified(copied("lmq-4.9.8", tmp_path, damage)).outcomes, Action.START)
    assert start is not None
    assert start.reused == sum(size > 0 and place >= cut for place, size in units)
