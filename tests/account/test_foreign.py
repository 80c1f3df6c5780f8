"""Files of another broker in a log: their records are whole, and none of this log."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.findings import codes
from rmqtool.outcomes import Action, best, outcome_of
from tests.benchmarks.make_log import LogShape, write_store
from tests.broker.damaged_states import of_others
from tests.broker.stores import STORES
from tests.salvage.campaign import records_of
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.outcomes import Outcome

_PAIRS = [
    ("plain-5.3.3", "batch-5.3.3"),
    ("plain-4.9.8", "crash-4.9.8"),
    ("ext-5.4.0", "plain-5.4.0"),
    ("segments-5.5.1", "indexfull-5.5.1"),
    ("crash-5.3.3", "plain-5.3.3"),
    ("crash-4.9.8", "crash-5.3.3"),  # with the same queue offsets, as of a replica that parted
    ("plain-4.9.8", "plain-5.3.3"),
]


_THIRD = f"{24576:020d}"


@pytest.mark.parametrize(("name", "other"), _PAIRS)
def test_the_messages_of_a_file_under_that_of_another_broker_are_lost(
    name: str, other: str, tmp_path: Path
) -> None:
    """At each place of the log: verify counts what the file had, and salvage is what keeps the rest."""
    shared = sorted(path.name for path in (fixture(other) / "commitlog").iterdir())[:-1]  # which is short
    places = sorted(records_of(fixture(name) / "commitlog"))
    for path in sorted((fixture(name) / "commitlog").iterdir())[:-1]:
        if path.name not in shared:
            continue
        root = tmp_path / path.name
        shutil.copytree(fixture(name), root)
        shutil.copyfile(fixture(other) / "commitlog" / path.name, root / "commitlog" / path.name)
        start = int(path.name)
        was = [place for place in places if start <= place < start + path.stat().st_size]
        with rmqtool.open(root) as store:
            report = store.verify(jobs=1)
        assert [finding.file for finding in report.findings if finding.code is codes.CL_FOREIGN] == [
            f"commitlog/{path.name}"
        ]
        assert report.log_losses is not None
        assert report.log_losses.messages == len(was)
        chosen = best(report.outcomes)
        assert chosen is not None
        assert (chosen.action, chosen.lost, chosen.placeholders) == (Action.SALVAGE, len(was), len(was))


@pytest.mark.parametrize("what", ["consumequeue", "consumequeue/TopicTest", "consumequeue/TopicTest/0"])
def test_queues_of_another_broker_make_no_file_of_the_log_foreign(what: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    shutil.rmtree(root / what)
    shutil.copytree(fixture("crash-5.3.3") / what, root / what)
    with rmqtool.open(root) as store:
        report = store.verify(jobs=1)
    assert codes.CL_FOREIGN.code not in report.findings.counts
    assert report.log_losses is None or report.log_losses.messages == 0


def _foreign(root: Path) -> list[str | None]:
    with rmqtool.open(root) as store:
        report = store.verify(jobs=1)
    return [finding.file for finding in report.findings if finding.code is codes.CL_FOREIGN]


@pytest.mark.parametrize("file", [8192, 24576, 40960])
def test_a_file_of_which_little_is_left_is_not_foreign(file: int, tmp_path: Path) -> None:
    """Its first records are listed right there, however many units lead into the hole after them."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    path = root / "commitlog" / f"{file:020d}"
    path.write_bytes(path.read_bytes()[:512].ljust(8192, b"\0"))
    assert _foreign(root) == []


def test_the_first_records_of_a_large_file_are_its_own(tmp_path: Path) -> None:
    """Less than one in 17 is left of what its units list."""
    root = tmp_path / "store"
    write_store(root, LogShape(body=100, topics=2, queues=2), 200 << 10, 64 << 10)
    with rmqtool.open(root) as store:
        store.rebuild(tmp_path / "made", engine="local", jobs=1)
    (tmp_path / "made" / "consumequeue").rename(root / "consumequeue")
    path = root / "commitlog" / f"{64 << 10:020d}"
    path.write_bytes(path.read_bytes()[: 64 * 40].ljust(64 << 10, b"\0"))
    assert _foreign(root) == []


@pytest.mark.parametrize(("name", "file"), [("crash-4.9.8", 16384), ("plain-5.3.3", 16384)])
def test_files_after_a_hole_are_their_own_when_queues_were_rebuilt(
    name: str, file: int, tmp_path: Path
) -> None:
    """Units lead to their messages, under queue offsets that are too low by those that the hole took."""
    root = tmp_path / "store"
    shutil.copytree(fixture(name), root)
    path = root / "commitlog" / f"{file:020d}"
    path.write_bytes(path.read_bytes()[:3000].ljust(8192, b"\0"))
    with rmqtool.open(root) as store:
        store.rebuild(tmp_path / "made", engine="local", jobs=1)
    shutil.rmtree(root / "consumequeue")
    (tmp_path / "made" / "consumequeue").rename(root / "consumequeue")
    assert _foreign(root) == []


def test_a_foreign_first_file_has_no_queue_in_common_with_the_next(tmp_path: Path) -> None:
    """What was before it has expired, and its topics are others: only the units of the own queues show it."""
    root = tmp_path / "store"
    shutil.copytree(fixture("expiredhead-5.5.1"), root)
    shutil.copyfile(fixture("extbitmap-5.5.1") / "commitlog" / _THIRD, root / "commitlog" / _THIRD)
    assert _foreign(root) == [f"commitlog/{_THIRD}"]


@pytest.mark.parametrize(
    ("name", "other", "file"),
    [
        ("expiredhead-5.5.1", "expiredhead-5.3.3", 32768),
        ("plain-5.3.3", "plain-5.4.0", 24576),
        ("crash-5.5.1", "crash-5.3.3", 16384),
        ("expiredhead-5.4.0", "expiredhead-5.5.1", 40960),  # the last, after which no time steps back
    ],
)
def test_other_keys_show_a_file_of_a_log_to_which_the_same_was_sent(
    name: str, other: str, file: int, tmp_path: Path
) -> None:
    """Its records have the places, the queue offsets and the tags of this log's."""
    root, path = tmp_path / "store", f"{file:020d}"
    shutil.copytree(fixture(name), root)
    log_file, twin = root / "commitlog" / path, fixture(other) / "commitlog" / path
    log_file.write_bytes(of_others(log_file))  # whose store times are this log's: the index may be wrong
    assert _foreign(root) == []
    log_file.write_bytes(of_others(twin))
    assert _foreign(root) == [f"commitlog/{path}"]
    with rmqtool.open(root) as store:
        chosen = best(store.verify(jobs=1).outcomes)
    places = records_of(fixture(name) / "commitlog")
    lost = sum(file <= place < file + log_file.stat().st_size for place in places)
    assert chosen is not None
    assert (chosen.action, chosen.lost, chosen.placeholders) == (Action.SALVAGE, lost, lost)
    shutil.rmtree(root / "index")
    assert _foreign(root) == []


def test_items_of_the_index_show_a_foreign_file_where_no_unit_is_left(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.5.1"), root)
    for path in (root / "consumequeue").glob("*/*/*"):
        path.write_bytes(bytes(path.stat().st_size))
    assert _foreign(root) == []
    first = f"{0:020d}"
    shutil.copyfile(fixture("segments-4.9.8") / "commitlog" / first, root / "commitlog" / first)
    assert _foreign(root) == [f"commitlog/{first}"]


def test_a_file_of_one_record_is_its_own_where_no_unit_is_left(tmp_path: Path) -> None:
    """The items that lead to its begin show nothing: any file has a record there."""
    root = tmp_path / "store"
    shutil.copytree(fixture("segments-5.5.1"), root)
    shutil.rmtree(root / "consumequeue")
    hole = root / "commitlog" / f"{57344:020d}"  # queues break off over it, and over the files before
    hole.write_bytes(bytes(hole.stat().st_size))
    assert _foreign(root) == []


@pytest.mark.parametrize("release", ["5.5.1", "5.3.3", "4.9.8"])
def test_batch_queues_of_a_foreign_file_are_none_of_a_salvaged_store(release: str, tmp_path: Path) -> None:
    """A rebuild makes them, and a broker refuses to start on these; a salvage leaves them out.

    Rebuilds for a broker that has none put ordinary units.
    """
    root = tmp_path / "store"
    last = f"{40960:020d}"
    shutil.copytree(fixture("expiredhead-5.5.1"), root)
    shutil.copyfile(fixture("batchcq-5.5.1") / "commitlog" / last, root / "commitlog" / last)
    with rmqtool.open(root, broker_version=release) as store:
        report = store.verify(jobs=1)
    rebuild, salvage = (outcome_of(report.outcomes, action) for action in (Action.REBUILD, Action.SALVAGE))
    assert rebuild is not None
    assert salvage is not None
    assert (rebuild.starts, salvage.starts, salvage.wrong) == (release == "4.9.8", True, 0)
    assert best(report.outcomes) == salvage


@pytest.mark.parametrize("is_damaged", [False, True])
def test_messages_under_a_damaged_record_of_another_log_are_lost(tmp_path: Path, *, is_damaged: bool) -> None:
    """The record takes the whole file; units list 26 messages in it, the first right where it begins."""
    root = tmp_path / "store"
    shutil.copytree(fixture("expiredhead-5.3.3"), root)
    path = root / "commitlog" / f"{32768:020d}"
    places = records_of(path.parent)
    was = [place for place in places if 32768 <= place < 40960]
    data = bytearray((fixture("segments-5.3.3") / "commitlog" / path.name).read_bytes())
    data[4000] ^= is_damaged
    path.write_bytes(data)
    with rmqtool.open(root) as store:
        report, plan = store.verify(jobs=1), store.plan_salvage(jobs=1)
    lost = len(was) - is_damaged
    assert report.log_losses is not None
    assert report.log_losses.messages == sum(loss.count for loss in plan.lost if not loss.is_there) == lost
    chosen = best(report.outcomes)
    assert chosen is not None
    assert (chosen.action, chosen.lost) == (Action.SALVAGE, len(was))


def _judged(root: Path, version: str | None = None) -> tuple[int, list[str | None], Outcome | None]:
    """Return the messages that are lost, the foreign files, and the best action."""
    with rmqtool.open(root, broker_version=version) as store:
        report = store.verify(jobs=1)
    lost = 0 if report.log_losses is None else report.log_losses.messages
    foreign = [finding.file for finding in report.findings if finding.code is codes.CL_FOREIGN]
    return lost, foreign, best(report.outcomes)


def test_a_log_of_which_the_store_knows_no_topic_is_foreign_as_a_whole(tmp_path: Path) -> None:
    """Queues and index agree on what it had; no action makes its messages those of this store."""
    root = tmp_path / "store"
    shutil.copytree(fixture("transaction-5.5.1"), root)
    first, *others = sorted((root / "commitlog").iterdir())
    for path in others:
        path.unlink()
    shutil.copyfile(fixture("noindex-5.5.1") / "commitlog" / first.name, first)
    lost, foreign, chosen = _judged(root)
    assert (foreign, chosen) == ([f"commitlog/{first.name}"], None)
    assert lost >= 63  # and some that no queue takes, to which index items lead


def test_a_file_in_which_strange_topics_begin_amidst_their_queues_is_foreign(tmp_path: Path) -> None:
    """It took the place of the file that a broker had prepared: nothing is lost, and nothing of it served."""
    root = tmp_path / "store"
    shutil.copytree(fixture("crash-4.9.8"), root)
    name = f"{32768:020d}"
    shutil.copyfile(fixture("lmq-5.4.0") / "commitlog" / name, root / "commitlog" / name)
    lost, foreign, chosen = _judged(root)
    assert (lost, foreign) == (0, [f"commitlog/{name}"])
    assert chosen is not None
    assert (chosen.lost, chosen.wrong, chosen.served) == (0, 0, 90)
    unit = root / "consumequeue/TopicTest/0" / f"{0:020d}"
    unit.write_bytes(unit.read_bytes()[:20] + bytes(20) + unit.read_bytes()[40:])
    with rmqtool.open(root) as store:
        repair = outcome_of(store.verify(jobs=1).outcomes, Action.REPAIR)
    assert repair is not None
    assert codes.CL_FOREIGN.code in (repair.refused or "")  # queues made of this log list its messages, too


def test_a_foreign_file_has_no_record_that_only_another_broker_reads(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("crash-4.9.8"), root)
    name = f"{24576:020d}"
    shutil.copyfile(fixture("v2-5.3.3") / "commitlog" / name, root / "commitlog" / name)
    lost, foreign, chosen = _judged(root, "4.9.8")
    assert (lost, foreign) == (9, [f"commitlog/{name}"])
    assert chosen is not None
    assert (chosen.action, chosen.lost, chosen.placeholders, chosen.reused) == (Action.SALVAGE, 9, 9, 0)


_OTHER = "crash-5.5.1/index/20261121164746112"


@pytest.mark.parametrize(
    ("name", "other", "lost"),
    [("plain-5.3.3", _OTHER, 26), ("ext-5.4.0", "plain-5.3.3/index/20261121032841595", 39)],
)
@pytest.mark.parametrize("is_damaged", [False, True])
def test_an_index_file_of_another_store_proves_no_loss(
    name: str, other: str, lost: int, *, is_damaged: bool, tmp_path: Path
) -> None:
    """Its items lead to no record with their keys, or it does not go on where the file before ends."""
    places = sorted(path.name for path in (fixture(name) / "index").iterdir())
    for place in places[:: len(places) - 1]:
        root = tmp_path / place
        shutil.copytree(fixture(name), root)
        if is_damaged:
            (root / "commitlog" / f"{8192:020d}").write_bytes(bytes(8192))
        shutil.copyfile(STORES / other, root / "index" / place)
        assert _judged(root)[0] == lost * is_damaged


def test_the_index_proves_what_a_log_without_its_last_file_has_lost(tmp_path: Path) -> None:
    """A file of it that leads to no record goes on where the one before ends."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    last = sorted((root / "commitlog").iterdir())[-1]
    lost = sum(place >= int(last.name) for place in records_of(root / "commitlog"))
    last.unlink()
    shutil.rmtree(root / "consumequeue")
    with rmqtool.open(root) as store:
        report = store.verify(jobs=1)
    start = outcome_of(report.outcomes, Action.START)
    assert report.log_losses is not None
    assert start is not None
    assert (report.log_losses.indexed, start.lost, start.reused) == (lost, lost, lost)


@pytest.mark.parametrize(
    ("name", "file"), [("plain-5.3.3", 49152), ("plain-5.3.3", 16384), ("lmq-4.9.8", 8192)]
)
def test_a_file_of_a_replica_that_parted_inside_it_has_its_first_records(
    name: str, file: int, tmp_path: Path
) -> None:
    """What it has after them lies over what queues and index list: that is lost, and salvage is next."""
    root = tmp_path / "store"
    shutil.copytree(fixture(name), root)
    path = root / "commitlog" / f"{file:020d}"
    places = [place for place in records_of(root / "commitlog") if file <= place < file + 8192]
    _leave_out(path, places[4])
    with rmqtool.open(root) as store:
        report = store.verify(jobs=1)
    found = [finding for finding in report.findings if finding.code is codes.CL_FOREIGN]
    assert [(one.file, one.physical_offset) for one in found] == [(f"commitlog/{path.name}", places[4])]
    assert report.log_losses is not None
    assert report.log_losses.messages == len(places) - 4
    chosen = best(report.outcomes)
    assert chosen is not None
    assert (chosen.action, chosen.lost, chosen.wrong) == (Action.SALVAGE, len(places) - 4, 0)


def test_an_index_that_lists_the_records_of_a_file_clears_it(tmp_path: Path) -> None:
    """Only the queues list other places, as those of a replica do: the log is as it was written."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    path = root / "commitlog" / f"{49152:020d}"
    _leave_out(path, [place for place in records_of(root / "commitlog") if place >= 49152][4])
    with rmqtool.open(root) as store:
        store.rebuild(tmp_path / "made", engine="local", jobs=1)
    shutil.rmtree(root / "index")
    (tmp_path / "made" / "index").rename(root / "index")
    assert _foreign(root) == []


def _leave_out(path: Path, place: int) -> None:
    """Leave one record out of a file of the log, and make the others of another sender."""
    start, own, others = int(path.name), path.read_bytes(), of_others(path)
    at = place - start
    size = int.from_bytes(own[at : at + 4], "big")
    data = bytearray(own[:at] + others[at + size :]).ljust(len(own), b"\0")
    while at + 8 < len(data) and data[at + 4 : at + 7] == b"\xda\xa3\x20":
        data[at + 28 : at + 36] = (start + at).to_bytes(8, "big")
        at += int.from_bytes(data[at : at + 4], "big")
    path.write_bytes(data)
