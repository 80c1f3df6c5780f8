"""The verdict on two copies of a log, from logs that were written here; ``tests/broker`` asks real slaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.commands.diff.verdict import EntryMark
from rmqtool.formats.entry import ENTRIES
from tests.builders import properties
from tests.ledgers import LedgerBuilder
from tests.scan.log_builder import STORE_TIMESTAMP_MS, blank, record
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqtool.commands.diff.verdict import CopiesVerdict
    from tests.runs import Run

FILE_BYTES = 1024


@dataclass
class Written:
    """A log in files of ``FILE_BYTES``, and where its records begin."""

    start: int = 0
    data: bytearray = field(default_factory=bytearray)
    places: list[int] = field(default_factory=list)

    def add(self, *bodies: str, later_ms: int = 0) -> Written:
        """Append a record for each body, one second after the other."""
        for body in bodies:
            number = len(self.places)
            fields = {"body": body.encode(), "queueOffset": number}
            time_ms = STORE_TIMESTAMP_MS + 1000 * number + later_ms
            fields |= {"storeTimestamp": time_ms, "bornTimestamp": time_ms - len(body)}
            size = len(record(0, **fields))
            room = FILE_BYTES - len(self.data) % FILE_BYTES
            if size + 8 > room:
                self.data += blank(room)
            self.places.append(self.start + len(self.data))
            self.data += record(self.places[-1], **fields)
        return self

    def copy(self) -> Written:
        """Return one that goes on alone."""
        return Written(self.start, bytearray(self.data), [*self.places])

    def write(self, root: Path, *, first: int = 0) -> Path:
        """Write a store of it, from file ``first`` on."""
        (root / "commitlog").mkdir(parents=True)
        whole = bytes(self.data).ljust(-(-len(self.data) // FILE_BYTES) * FILE_BYTES, b"\0")
        for at in range(first * FILE_BYTES, len(whole), FILE_BYTES):
            (root / "commitlog" / f"{self.start + at:020d}").write_bytes(whole[at : at + FILE_BYTES])
        return root

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def words(*names: str, count: int = 10) -> list[str]:
    return [f"{name}-{number}" * (1 + number % 3) for name in names for number in range(count)]


def verdict_of(a: Path, b: Path, version: str = "5.3.3") -> CopiesVerdict:
    """Compare two stores, both ways: what is said of A and of B changes places, and nothing else."""
    stores = [rmqtool.open(path, broker_version=version) for path in (a, b)]
    there = stores[0].diff(stores[1])
    rows = [*there]
    back = rmqtool.open(b, broker_version=version).diff(rmqtool.open(a, broker_version=version))
    assert len([*back]) == len(rows)
    verdict, turned = there.comparison.verdict, back.comparison.verdict
    assert verdict is not None
    assert turned is not None
    assert (verdict.histories, verdict.parting, verdict.joint, verdict.loses) == (
        turned.histories,
        turned.parting,
        turned.joint,
        turned.loses,
    )
    assert [each.answer for each in verdict.following] == [each.answer for each in turned.following[::-1]]
    ours, theirs = (
        [(share.start, share.end, share.records, share.bytes, share.damaged_at) for share in shares]
        for shares in (verdict.shares, turned.shares[::-1])
    )
    assert ours == theirs
    return verdict


def answers(verdict: CopiesVerdict) -> list[str]:
    return [each.answer.value for each in verdict.following]


@pytest.fixture(params=[None, 300, 777], ids=["whole", "300 bytes", "777 bytes"])
def stretch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever pieces the logs are compared in, the verdict is the same."""
    if request.param:
        monkeypatch.setattr("rmqtool.commands.diff.log._STRETCH_BYTES", request.param)


@pytest.fixture
def common(stretch: None) -> Written:
    return Written().add(*words("both", count=20))


def test_a_copy_is_one_history(common: Written, tmp_path: Path) -> None:
    verdict = verdict_of(common.write(tmp_path / "a"), common.write(tmp_path / "b"))
    assert (verdict.histories, verdict.parting, verdict.ahead, verdict.promote) == ("equal", None, None, None)
    assert answers(verdict) == ["as-it-is", "as-it-is"]


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_a_slave_that_lags_follows_and_a_longer_one_does_not(
    common: Written, tmp_path: Path, version: str
) -> None:
    more = common.copy().add(*words("more", count=7))
    verdict = verdict_of(more.write(tmp_path / "a"), common.write(tmp_path / "b"), version)
    assert (verdict.histories, verdict.ahead, verdict.promote, verdict.loses) == ("one", "a", "a", 0)
    assert [share.records for share in verdict.shares] == [7, 0]
    assert verdict.shares[0].bytes == more.end - common.end
    assert answers(verdict) == ["as-it-is", "cut"]
    longer = verdict.following[1]
    assert (longer.cut_at, longer.file) == (
        common.end,
        f"commitlog/{common.end // FILE_BYTES * FILE_BYTES:020d}",
    )
    assert ("again and again" in longer.why) is (version == "4.9.8")
    assert verdict.common is not None
    assert verdict.common.physical_offset == common.places[-1]


def test_logs_part_at_a_record(common: Written, tmp_path: Path) -> None:
    """Both have a record of their own there: byte, message and time, and what each loses."""
    left = common.copy().add(*words("left", count=9))
    right = common.copy().add(*words("r", count=5), later_ms=-60_000)
    verdict = verdict_of(left.write(tmp_path / "a"), right.write(tmp_path / "b"))
    parting = left.places[20]
    assert right.places[20] == parting
    assert (verdict.histories, verdict.parting, verdict.parted_before) == ("parted", parting, False)
    assert verdict.common is not None
    assert (verdict.common.queue_offset, verdict.common.physical_offset) == (19, common.places[-1])
    assert [share.records for share in verdict.shares] == [9, 5]
    assert [share.bytes for share in verdict.shares] == [left.end - parting, right.end - parting]
    assert (verdict.promote, verdict.loses) == ("a", 5)
    assert answers(verdict) == ["cut", "cut"]
    assert {each.cut_at for each in verdict.following} == {parting}
    assert verdict.clocks == ("the messages of B alone begin 59 s before the last common one was stored",)


def test_two_masters_at_one_time_are_told(common: Written, tmp_path: Path) -> None:
    left, right = common.copy().add(*words("left")), common.copy().add(*words("right"), later_ms=2500)
    verdict = verdict_of(left.write(tmp_path / "a"), right.write(tmp_path / "b"))
    assert [sentence.rpartition(": ")[2] for sentence in verdict.clocks] == ["two masters at one time"]


def test_a_slave_that_went_on_with_the_masters_bytes(common: Written, tmp_path: Path) -> None:
    """Its own history, and then the master's, from the middle of a record (``DefaultHAClient``)."""
    left = common.copy().add(*words("left", count=30))
    right = common.copy().add("x" * 40, "y" * 70)
    end = right.end
    right.data += left.data[len(right.data) :]
    verdict = verdict_of(left.write(tmp_path / "a"), right.write(tmp_path / "b"))
    assert (verdict.histories, verdict.parting) == ("parted", left.places[20])
    assert verdict.joint == next(place for place in left.places if place >= end)
    assert [share.bytes for share in verdict.shares] == [verdict.joint - left.places[20]] * 2
    assert verdict.shares[1].records == 2
    assert verdict.following[0].cut_at == left.places[20]


def test_no_byte_and_no_message_in_both(common: Written, tmp_path: Path) -> None:
    left, right = Written().add(*words("left")), Written().add(*words("right"))
    verdict = verdict_of(left.write(tmp_path / "a"), right.write(tmp_path / "b"))
    assert (verdict.histories, verdict.parting, verdict.parted_before) == ("parted", 0, False)
    assert (verdict.common, answers(verdict)) == (None, ["copy", "copy"])


def test_where_one_log_begins_later_they_may_have_parted_before(common: Written, tmp_path: Path) -> None:
    left = common.copy().add(*words("left"))
    verdict = verdict_of(left.write(tmp_path / "a"), common.write(tmp_path / "later", first=1))
    assert (verdict.histories, answers(verdict)) == ("one", ["as-it-is", "cut"])
    older = verdict.shares[0]
    assert older.older_bytes == FILE_BYTES
    assert older.older_records == sum(place < FILE_BYTES for place in left.places)
    right = Written().add(*words("other", count=20))
    verdict = verdict_of(left.write(tmp_path / "c"), right.write(tmp_path / "d", first=1))
    assert (verdict.histories, verdict.parting, verdict.parted_before) == ("parted", FILE_BYTES, True)
    assert answers(verdict) == ["copy", "copy"]


def test_a_log_that_ends_before_the_other_begins(tmp_path: Path) -> None:
    long = Written().add(*words("both", count=30))
    short = Written().add(*words("both", count=3))
    verdict = verdict_of(long.write(tmp_path / "a", first=2), short.write(tmp_path / "b"))
    assert (verdict.histories, verdict.ahead, verdict.promote) == ("apart", "a", "a")
    assert answers(verdict) == ["copy", "copy"]
    assert verdict.loses == 3


def test_an_empty_slave_gets_the_last_file_alone(common: Written, tmp_path: Path) -> None:
    empty = Written(data=bytearray(FILE_BYTES))
    verdict = verdict_of(common.write(tmp_path / "a"), empty.write(tmp_path / "b"))
    assert (verdict.histories, verdict.ahead) == ("one", "a")
    assert answers(verdict) == ["last-file-only", "copy"]
    verdict = verdict_of(empty.write(tmp_path / "c"), empty.write(tmp_path / "d"))
    assert (verdict.histories, answers(verdict)) == ("equal", ["as-it-is", "as-it-is"])


def flipped(*numbers: int, at: int) -> Callable[[Written], None]:
    """Return what flips a bit of some records."""

    def flip(log: Written) -> None:
        for number in numbers:
            log.data[log.places[number] + at] ^= 1

    return flip


def zeroed(log: Written) -> None:
    """Put zeros in the place of two records."""
    start, stop = log.places[7], log.places[9]
    log.data[start:stop] = bytes(stop - start)


def test_a_slave_without_any_file(common: Written, tmp_path: Path, run: Callable[..., Run]) -> None:
    """No advice would replace the only copy of the messages by the empty one."""
    a, b = common.write(tmp_path / "a"), tmp_path / "b"
    (b / "commitlog").mkdir(parents=True)
    verdict = verdict_of(a, b)
    assert (verdict.histories, verdict.ahead, verdict.promote, verdict.loses) == ("one", "a", "a", 0)
    assert [(share.records, share.bytes) for share in verdict.shares] == [(20, common.end), (0, 0)]
    assert answers(verdict) == ["last-file-only", "copy"]
    told = run("diff", b, a).out
    assert "A cannot follow B as it is: its log is empty" in told
    assert "a copy of B's store, made while B is stopped" in told
    assert "a copy of A's store" not in told


DAMAGE = {
    "body": flipped(7, at=90),
    "magic": flipped(7, at=4),
    "zeros": zeroed,
    "two bodies": flipped(7, 8, at=90),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_no_parting(common: Written, tmp_path: Path, damage: Callable[[Written], None]) -> None:
    """The log is cut before it, and the master has those bytes."""
    master = common.copy().add(*words("more"))
    damage(common)
    verdict = verdict_of(master.write(tmp_path / "a"), common.write(tmp_path / "b"))
    assert (verdict.histories, verdict.parting) == ("one", None)
    assert verdict.shares[1].damaged_at == common.places[7]
    assert (verdict.following[0].answer, verdict.following[0].cut_at) == ("cut", common.places[7])
    assert verdict.shares[1].records == 0


def test_a_torn_last_record_is_no_parting(common: Written, tmp_path: Path) -> None:
    """No checksum protects the properties, and no equal record follows: zeros in them tell."""
    master = common.copy().add(*words("more"))
    common.data[-6:] = bytes(6)
    verdict = verdict_of(master.write(tmp_path / "a"), common.write(tmp_path / "b"))
    last = common.places[-1]
    assert (verdict.histories, verdict.parting, verdict.clocks) == ("one", None, ())
    assert verdict.shares[1].damaged_at == last
    assert (verdict.following[0].answer, verdict.following[0].cut_at) == ("cut", last)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_logs_that_part_are_told_beside_damage(
    common: Written, tmp_path: Path, damage: Callable[[Written], None]
) -> None:
    left, right = common.copy().add(*words("left")), common.copy().add(*words("r"))
    parting = right.places[20]
    damage(right)
    verdict = verdict_of(left.write(tmp_path / "a"), right.write(tmp_path / "b"))
    assert (verdict.histories, verdict.parting) == ("parted", parting)
    assert verdict.following[0].cut_at == right.places[7]


@pytest.mark.parametrize("numbers", [(7,), (7, 12), (7, 8)], ids=str)
def test_a_field_without_checksum_is_no_parting_if_equal_records_follow(
    common: Written, tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    other = common.copy()
    for number in numbers:
        other.data[common.places[number] + 19] = 5  # FLAG
    verdict = verdict_of(common.write(tmp_path / "a"), other.write(tmp_path / "b"))
    in_a_row = numbers == (7, 8)
    assert verdict.parting == (common.places[7] if in_a_row else None)
    assert verdict.joint == (common.places[9] if in_a_row else None)


def test_of_other_kinds_no_slave_is_judged(common: Written, tmp_path: Path) -> None:
    """Two lines of releases, epochs that end the start, DLedger: nothing is said of how they follow."""
    roots = [common.write(tmp_path / name) for name in "ab"]
    old, new = (
        rmqtool.open(root, broker_version=version)
        for root, version in zip(roots, ("4.9.8", "5.3.3"), strict=True)
    )
    differences = old.diff(new)
    assert [*differences] == []
    assert differences.comparison.verdict is not None
    assert answers(differences.comparison.verdict) == ["unknown", "unknown"]
    (roots[0] / "epochFileCheckpoint").write_text("1\n0\n1-0\n")
    verdict = verdict_of(roots[0], roots[1])
    assert {each.slave: each.answer.value for each in verdict.following} == {"a": "copy", "b": "as-it-is"}
    (roots[1] / "epochFileCheckpoint").write_text("1\n")
    verdict = verdict_of(roots[0], roots[1])
    assert ["no broker in controller mode starts" in each.why for each in verdict.following] == [True, True]
    ledger = fixture("plain-5.3.3").parents[1] / "dledger" / "dledger-5.3.3"
    verdict = verdict_of(ledger, ledger)
    assert verdict.histories == "equal"
    assert ["terms" in each.why for each in verdict.following] == [True, True]


def test_epochs_that_agree_hide_a_parting(common: Written, tmp_path: Path) -> None:
    """A slave in controller mode cuts where epochs part, and no broker compares content."""
    roots = [common.copy().add(*words(name)).write(tmp_path / name) for name in ("left", "right")]
    for root in roots:
        (root / "epochFileCheckpoint").write_text("1\n0\n1-0\n")
    verdict = verdict_of(roots[0], roots[1])
    assert answers(verdict) == ["copy", "copy"]
    assert [f"part at byte {verdict.parting}" in each.why for each in verdict.following] == [True, True]
    (roots[1] / "epochFileCheckpoint").write_text(f"2\n0\n1-0\n2-{verdict.parting}\n")
    following = {each.slave: each for each in verdict_of(roots[0], roots[1]).following}
    assert (following["b"].answer, following["b"].cut_at) == ("as-it-is", verdict.parting)
    assert verdict_of(roots[0], roots[1]).promote == "b"


def member(root: Path, *, terms: tuple[int, int], own: int, name: str = "") -> tuple[Path, LedgerBuilder]:
    """Write a member whose first 30 entries are those of all, and which goes on alone in its own term."""
    log = LedgerBuilder(4096)
    for number in range(30 + own):
        key = f"{name * (number >= 30)}{number}"
        log.add(term=terms[number >= 30], queueOffset=number, properties=properties({"UNIQ_KEY": key}))
    log.write(root)
    return root, log


def test_the_first_entries_of_members_that_differ_are_named(tmp_path: Path, run: Callable[..., Run]) -> None:
    a, log = member(tmp_path / "a", terms=(1, 1), own=10, name="A")
    b, _ = member(tmp_path / "b", terms=(1, 2), own=6, name="B")
    verdict = verdict_of(a, b)
    assert verdict.parting == log.entries[30] + ENTRIES.size
    ours, theirs = verdict.shares
    assert (ours.first_entry, ours.last_entry) == (EntryMark(30, 1), EntryMark(39, 1))
    assert (theirs.first_entry, theirs.last_entry) == (EntryMark(30, 2), EntryMark(35, 2))
    told = run("diff", a, b)
    assert "The first that differs is entry 30 of term 1 in A, entry 30 of term 2 in B" in told.out
    assert "B with entry 35 of term 2: B is ahead in term" in told.out
    assert told.status == 1


def test_the_first_entry_that_a_member_has_alone_is_named(tmp_path: Path) -> None:
    """The other's log ends where the frame of that entry begins, 48 bytes before its message."""
    a, _ = member(tmp_path / "a", terms=(1, 1), own=10)
    b, _ = member(tmp_path / "b", terms=(1, 1), own=6)
    verdict = verdict_of(a, b)
    ours, theirs = verdict.shares
    assert (verdict.histories, verdict.ahead, ours.records) == ("one", "a", 4)
    assert (ours.first_entry, theirs.first_entry) == (EntryMark(36, 1), None)
    assert ours.first is not None
    assert ours.first.queue_offset == 36


def test_entries_differ_in_their_headers_alone(tmp_path: Path, run: Callable[..., Run]) -> None:
    """The first byte that differs is one of the header, which belongs to the message after it."""
    a, log = member(tmp_path / "a", terms=(1, 3), own=10)
    b, _ = member(tmp_path / "b", terms=(1, 1), own=10)
    verdict = verdict_of(a, b)
    assert (verdict.parting, verdict.shares[0].records) == (log.entries[30] + ENTRIES.size, 10)
    rows = run("diff", a, b, "--format", "ndjson").objects
    changed = [(row["a"], row["b"]) for row in rows if row["type"] == "difference"]
    assert changed == [({"entry term": 3}, {"entry term": 1})] * 10


@pytest.mark.parametrize("size", [4, 48, 200])
def test_a_damaged_entry_is_no_parting(size: int, tmp_path: Path, run: Callable[..., Run]) -> None:
    a, log = member(tmp_path / "a", terms=(1, 1), own=10)
    b, _ = member(tmp_path / "b", terms=(1, 1), own=10)
    (file,) = (b / "dledger-n0" / "data").glob("*0")
    data = file.read_bytes()
    file.write_bytes(data[: log.entries[7]] + bytes(size) + data[log.entries[7] + size :])
    verdict = verdict_of(a, b)
    assert (verdict.histories, verdict.parting) == ("equal", None)
    told = run("diff", a, b)
    assert told.status == 5
    assert "salvage" in told.err
    assert "of one term" in told.out


def test_text_says_it_in_sentences(common: Written, tmp_path: Path, run: Callable[..., Run]) -> None:
    left, right = common.copy().add(*words("left", count=9)), common.copy().add(*words("r", count=5))
    a, b = left.write(tmp_path / "a"), right.write(tmp_path / "b")
    told = run("diff", a, b, "--timezone", "UTC")
    parting = left.places[20]
    assert f"Two histories, parted at byte {parting}, after TopicTest/0 #19 of 2022-04-15" in told.out
    assert "A has 9 messages" in told.out
    assert f"First cut its log at byte {parting} (zeros from position" in told.out
    assert "Promote A: of what B has, that loses 5 messages" in told.out
    longer = common.write(tmp_path / "c")
    turned = run("diff", longer, a).out
    assert "A can follow B as a slave" in turned
    assert "B cannot follow A as it is: its log is longer" in turned
    assert "First" not in turned
    document = run("diff", a, b, "--format", "json").document["verdict"]
    assert document["following"][0]["position"] == parting % FILE_BYTES
    assert (
        run("diff", a / "commitlog", b / "commitlog", "--format", "json").document["verdict"]["following"]
        == []
    )
    shown = run("dump", b / "commitlog", "--from-offset", parting, "--format", "ndjson")
    assert sum(row["type"] == "message" for row in shown.objects) == 5
