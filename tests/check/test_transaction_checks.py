"""Half messages, op messages and commits are held against each other, whatever splits they lie in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.derived.positions import checked_half_offsets
from rmqtool.dispatch.policy import DispatchPolicy
from tests.builders import properties
from tests.check.checking import open_fixture
from tests.check.log_store import FILE_SIZE, Log, Verdict, check, check_at_any_split, write_files
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.findings import Finding

HALF, OP = b"RMQ_SYS_TRANS_HALF_TOPIC", b"RMQ_SYS_TRANS_OP_HALF_TOPIC"
COMMIT = 0x8


class Ledger(Log):
    """A log with transactions."""

    def half(self, key: str, queue_id: int = 0, pairs: dict[str, str] | None = None) -> int:
        values = {"UNIQ_KEY": key, "REAL_TOPIC": "T", "REAL_QID": "3"} | (pairs or {})
        return self.add(topic=HALF, queueId=queue_id, properties=properties(values))

    def op(self, body: bytes, queue_id: int = 0, tag: str = "d") -> int:
        return self.add(topic=OP, queueId=queue_id, body=body, properties=properties({"TAGS": tag}))

    def commit(self, key: str, half: int, **fields: int) -> int:
        values = {"UNIQ_KEY": key, "REAL_TOPIC": "T", "REAL_QID": "3"}
        given = {"sysFlag": COMMIT, "preparedTransactionOffset": half} | fields
        return self.add(topic=b"T", queueId=3, properties=properties(values), **given)

    def verdict(self, folder: Path, checked: dict[int, int] | None = None) -> Verdict:
        return check_at_any_split(self.write(folder), half_offsets=checked or {})


def _log_offsets(found: list[Finding]) -> list[int | None]:
    return [one.physical_offset for one in found]


@pytest.mark.parametrize("separator", [b"", b","], ids=["4.x", "5.x"])
def test_settled_transactions_are_in_balance(tmp_path: Path, separator: bytes) -> None:
    log = Ledger()
    for number in range(40):
        half = log.half(f"U{number}", number % 2)
        if number % 3:
            log.commit(f"U{number}", half)
        log.op(str(number // 2).encode() + separator, number % 2)
    assert log.verdict(tmp_path).counts == {"CL-TAIL-ZERO": 1}


def test_an_op_message_of_5_x_names_many(tmp_path: Path) -> None:
    log = Ledger()
    for number in range(2000):
        log.half(f"U{number}")
    log.op(b"".join(b"%d," % number for number in range(0, 1000)))
    log.op(b",".join(b"%d" % number for number in range(1000, 2000)))
    found = check(write_files(tmp_path, {0: bytes(log.data)}), half_offsets={})
    assert found.of("CL-OP") == found.of("CL-IN-DOUBT") == []


def test_what_nobody_settled_is_counted_with_the_oldest(tmp_path: Path) -> None:
    log = Ledger()
    places = [log.half(f"U{number}") for number in range(30)]
    other = log.half("other", 7)
    for number in (0, 3, 4):
        log.op(b"%d" % number)
    first, second = log.verdict(tmp_path).of("CL-IN-DOUBT")
    assert (first.observed, first.queue_offset, first.physical_offset) == (27, 1, places[1])
    assert (second.observed, second.queue_id, second.physical_offset) == (1, 7, other)
    assert log.verdict(tmp_path).status == 0


def test_what_the_broker_has_checked_is_not_in_doubt(tmp_path: Path) -> None:
    """It was written again after all others, or given up: ``check`` goes on either way."""
    log = Ledger()
    places = [log.half(f"U{number}") for number in range(10)]
    (found,) = log.verdict(tmp_path, {0: 8}).of("CL-IN-DOUBT")
    assert (found.observed, found.physical_offset) == (2, places[8])
    assert log.verdict(tmp_path, {0: 10}).of("CL-IN-DOUBT") == []


@pytest.mark.parametrize(("settled", "left"), [(None, 1), (b"0", 0), (b"1", 0), (b"2", 0)])
def test_a_half_message_that_was_written_again_counts_once(
    tmp_path: Path, settled: bytes | None, left: int
) -> None:
    log = Ledger()
    for _ in range(3):
        log.half("U0")
    if settled is not None:
        log.op(settled)
    found = log.verdict(tmp_path).of("CL-IN-DOUBT")
    assert [(one.observed, one.queue_offset) for one in found] == [(1, 2)] * left


def test_a_commit_without_op_message_is_told(tmp_path: Path) -> None:
    """A crash between the two: 5.x writes op messages a few seconds later."""
    log = Ledger().fill(3)
    log.commit("U0", log.half("U0"))
    log.half("U1")
    (found,) = log.verdict(tmp_path).of("CL-IN-DOUBT")
    assert found.observed == 2
    assert "1 has been committed" in found.message


@pytest.mark.parametrize("body", [b"", b"x", b"1,,2", b",", b"-2", b"-10", b"+1", b"1 ", b"9" * 19, b"1;2"])
def test_an_op_message_is_a_list_of_numbers(tmp_path: Path, body: bytes) -> None:
    log = Ledger()
    for number in range(3):
        log.half(f"U{number}")
    place = log.op(body)
    found = log.verdict(tmp_path)
    assert _log_offsets(found.of("CL-OP")) == [place]
    assert found.codes() == {"CL-OP"}
    assert found.status == 5


@pytest.mark.parametrize("body", [b"-1", b"-", b"-0001"])
def test_the_placeholder_of_a_lost_op_message_names_none(tmp_path: Path, body: bytes) -> None:
    log = Ledger()
    log.half("U0")
    log.op(body)
    assert log.verdict(tmp_path).of("CL-OP") == []


def test_an_op_message_has_the_tag_that_brokers_look_for(tmp_path: Path) -> None:
    log = Ledger()
    log.half("U0")
    places = [log.op(b"0", tag="dd"), log.op(b"0", tag="D")]
    assert _log_offsets(log.verdict(tmp_path).of("CL-OP")) == places


def test_an_op_message_names_what_was_written_before_it_into_its_queue(tmp_path: Path) -> None:
    log = Ledger()
    log.half("U0")
    log.half("V0", 1)
    places = [log.op(b"0,1"), log.op(b"1", 1), log.op(b"0", 2)]
    log.half("U1")
    log.op(b"1")
    found = log.verdict(tmp_path)
    assert _log_offsets(found.of("CL-OP")) == places
    assert [one.observed for one in found.of("CL-OP")] == [1, 1, 0]


def test_op_messages_of_expired_half_messages_are_normal_wear(tmp_path: Path) -> None:
    """The head of the log is gone; of what is left nothing speaks against the rest."""
    log = Ledger()
    halves = []
    for number in range(60):
        halves.append(log.half(f"U{number}"))
        if number >= 20:
            log.op(b"%d" % (number - 20))
            log.commit(f"U{number - 20}", halves[number - 20])
    data = bytes(log.data) + bytes(-len(log.data) % FILE_SIZE)
    for first in range(FILE_SIZE, len(data), FILE_SIZE):
        folder = tmp_path / str(first)
        folder.mkdir()
        files = {start: data[start : start + FILE_SIZE] for start in range(first, len(data), FILE_SIZE)}
        found = check_at_any_split(write_files(folder, files), half_offsets={})
        assert found.codes() == set()


def test_what_damage_may_have_held_is_not_asked_of_a_commit(tmp_path: Path) -> None:
    log = Ledger().fill(5)
    half = log.half("U0")
    log.fill(5)
    log.commit("U0", half)
    log.number(half, "magic", 0)
    found = log.verdict(tmp_path)
    assert found.codes() == {"CL-BAD-MAGIC"}


@pytest.mark.parametrize("kind", [0x4, 0x8])
def test_before_4_3_a_prepared_record_was_the_half_message(tmp_path: Path, kind: int) -> None:
    log = Ledger()
    values = properties({"UNIQ_KEY": "U0"})
    log.fill(1)
    place = log.add(topic=b"T", queueId=3, sysFlag=kind, queueOffset=0, properties=values)
    commit = log.commit("U0", place, queueOffset=0 if kind == 0x4 else 1)
    found = log.verdict(tmp_path)
    assert _log_offsets(found.of("CL-PREPARED")) == ([] if kind == 0x4 else [commit])


def test_a_commit_has_the_keys_of_its_half_message(tmp_path: Path) -> None:
    log = Ledger().fill(1)
    log.half("U0")
    half = log.half("U1")
    commit = log.commit("U0", half)
    found = log.verdict(tmp_path)
    assert _log_offsets(found.of("CL-PREPARED")) == [commit]


@pytest.mark.parametrize(
    ("pairs", "wrong"),
    [({}, False), ({"REAL_QID": "x"}, True), ({"REAL_QID": ""}, True), ({"REAL_TOPIC": ""}, True)],
)
def test_a_half_message_says_where_it_belongs(tmp_path: Path, pairs: dict[str, str], wrong: bool) -> None:
    log = Ledger()
    place = log.half("U0", pairs=pairs)
    log.op(b"0")
    assert _log_offsets(log.verdict(tmp_path).of("CL-HALF")) == ([place] if wrong else [])


def test_findings_beyond_the_cap_are_counted(tmp_path: Path) -> None:
    log = Ledger()
    log.half("U0")
    for _ in range(30):
        log.op(b"x")
        log.op(b"5")
    found = check_at_any_split(log.write(tmp_path), half_offsets={}, max_findings=4)
    assert found.counts["CL-OP"] == 60
    assert len(found.of("CL-OP")) == 4


@pytest.mark.parametrize("name", ["transaction-4.9.8", "transaction-5.3.3"])
def test_the_transactions_of_real_stores(name: str) -> None:
    """Half messages of the numbers 2, 5, 8 and so on were left open when the stores were made."""
    store = open_fixture(fixture(name))
    policy, checked = DispatchPolicy.from_settings(store.settings), checked_half_offsets(store)
    found = check(store.commitlog, policy=policy, half_offsets=checked)
    assert found.counts == {"CL-TAIL-ZERO": 1, "CL-IN-DOUBT": 1}
    (doubt,) = found.of("CL-IN-DOUBT")
    assert (doubt.observed, doubt.queue_offset) == (10, 2)
    for split_bytes in (100, 1000):
        cut = check(store.commitlog, split_bytes=split_bytes, policy=policy, half_offsets=checked)
        assert cut == found


def test_half_messages_that_rocksdb_keeps_the_books_of(tmp_path: Path) -> None:
    """Topics of their own (5.4.0+); a commit finds its half message there, no op message is waited for."""
    log = Ledger()
    values = {"UNIQ_KEY": "U0", "REAL_TOPIC": "T", "REAL_QID": "3"}
    half = log.add(topic=b"RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", properties=properties(values))
    log.commit("U0", half)
    assert log.verdict(tmp_path).counts == {"CL-TAIL-ZERO": 1}
