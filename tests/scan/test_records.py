"""The record reader against ``CommitLog#checkMessageAndReturnSize`` read in 4.9.8 and 5.3.3, case by case."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats import message
from rmqtool.formats.framing import PLAIN, Framing
from rmqtool.releases import LENIENT, RELEASES, RecordRules
from rmqtool.scan.records import Checked, check_record, number_problem
from tests.scan.log_builder import blank, record


@dataclass
class Bytes:
    """A file in memory."""

    data: bytes
    framing: Framing = PLAIN

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def read_at(self, position: int, length: int) -> bytes:
        return self.data[position : position + max(length, 0)]


def outcome(data: bytes, rules: RecordRules = RELEASES["5.3.3"].records, **options: bool) -> tuple[bool, int]:
    checked = check_record(Bytes(data), 0, rules, **options)
    return checked.success, checked.size


@pytest.fixture(params=[RELEASES["4.9.8"].records, RELEASES["5.3.3"].records], ids=["4.9.8", "5.3.3"])
def rules(request: pytest.FixtureRequest) -> RecordRules:
    chosen: RecordRules = request.param
    return chosen


def test_a_record_is_read_with_all_its_parts(rules: RecordRules) -> None:
    raw = record(7, body=b"hello", topic="订单".encode(), queueId=3, queueOffset=9, sysFlag=0x10)
    checked = check_record(Bytes(b"x" * 7 + raw + b"rest"), 7, rules, check_crc=True, read_body=True)
    assert (checked.success, checked.size) == (True, len(raw))
    assert checked.record is not None
    assert checked.record.raw == raw
    assert checked.record.body == b"hello"
    assert (checked.record.topic, checked.record.topic_bytes) == ("订单", "订单".encode())
    assert checked.record.properties == {"KEYS": "k1 k2", "UNIQ_KEY": "U1", "TAGS": "TagA"}
    assert (checked.record.head.queue_id, checked.record.head.queue_offset) == (3, 9)
    assert checked.record.physical_offset == 7


def test_v2_records_are_an_illegal_magic_to_4_9() -> None:
    raw = record(0, magic=message.MAGIC_V2, topic=b"%RETRY%" + b"g" * 200)
    assert outcome(raw, RELEASES["5.3.3"].records) == (True, len(raw))
    assert outcome(raw, RELEASES["4.9.8"].records) == (False, -1)


def test_blank_rolls_to_the_next_file_whatever_it_says(rules: RecordRules) -> None:
    assert outcome(blank(64), rules) == (True, 0)
    assert outcome(blank(64, total_size=8), rules) == (True, 0)
    assert outcome(blank(64, total_size=-1), rules) == (True, 0)


def test_a_blank_that_says_too_much_fails_from_5_3_2_on() -> None:
    assert outcome(blank(64, total_size=65), RELEASES["4.9.8"].records) == (True, 0)
    assert outcome(blank(64, total_size=65), RELEASES["5.3.3"].records) == (False, -1)


def test_a_blank_of_a_negative_size_fails_from_5_5_1_on() -> None:
    assert outcome(blank(64, total_size=-1), RELEASES["5.5.0"].records) == (True, 0)
    assert outcome(blank(64, total_size=-1), RELEASES["5.5.1"].records) == (False, -1)
    assert outcome(blank(64), RELEASES["5.5.1"].records) == (True, 0)


def test_a_blank_of_the_most_negative_size_overflows_into_failure() -> None:
    """TOTALSIZE - 4 wraps to a huge positive number in Java's int."""
    assert outcome(blank(64, total_size=-(2**31)), RELEASES["5.3.3"].records) == (False, -1)
    assert outcome(blank(64, total_size=-(2**31) + 4), RELEASES["5.3.3"].records) == (True, 0)


@pytest.mark.parametrize("data", [b"", b"\0" * 4, b"\0" * 7, b"\0" * 64, b"\xff" * 64], ids=len)
def test_what_is_no_record_fails_without_a_size(data: bytes, rules: RecordRules) -> None:
    assert outcome(data, rules) == (False, -1)


@pytest.mark.parametrize("change", [-1, 1, 5])
def test_a_wrong_length_formula_fails_with_a_size(change: int, rules: RecordRules) -> None:
    right = len(record(0))
    raw = record(0, totalSize=right + change) + b"\0" * 16
    assert outcome(raw, rules) == (False, right + change)


@pytest.mark.parametrize("total_size", [-1, -(2**31), 0, 7])
def test_a_total_size_below_the_hosts_array_has_no_size(total_size: int, rules: RecordRules) -> None:
    """Java reads both hosts through an array of TOTALSIZE bytes: 8 are the least."""
    assert outcome(record(0, totalSize=total_size), rules) == (False, -1)


def test_a_total_size_of_eight_is_a_formula_mismatch(rules: RecordRules) -> None:
    raw = record(0, totalSize=8, topic=b"", properties=b"", body=b"")
    assert outcome(raw, rules) == (False, 8)


@pytest.mark.parametrize("cut", [1, 20, 60, 90])
def test_a_record_that_runs_past_the_file_fails(cut: int, rules: RecordRules) -> None:
    assert outcome(record(0)[:-cut], rules) == (False, -1)


def test_body_checksum_counts_only_for_readers_of_the_body(rules: RecordRules) -> None:
    raw = record(0, bodyCrc=1)
    assert outcome(raw, rules) == (True, len(raw))
    assert outcome(raw, rules, check_crc=True, read_body=True) == (False, -1)
    assert outcome(record(0, body=b"", bodyCrc=1), rules, check_crc=True, read_body=True)[0]


def test_a_negative_body_length_counts_as_none(rules: RecordRules) -> None:
    raw = bytearray(record(0, body=b""))
    at = message.HEAD_OFFSETS[0]["bodyLength"]
    raw[at : at + 4] = b"\xff" * 4
    assert outcome(bytes(raw), rules) == (True, len(raw))


def test_a_negative_topic_length_fails_and_negative_properties_are_none(rules: RecordRules) -> None:
    raw = bytearray(record(0, body=b"", topic=b"", properties=b""))
    raw[-2:] = b"\xff\xff"
    assert outcome(bytes(raw), rules) == (True, len(raw))
    raw[-3] = 0x80
    assert outcome(bytes(raw), rules) == (False, -1)


def test_a_delay_level_that_is_no_number_fails_in_the_schedule_topic_only(rules: RecordRules) -> None:
    bad = {"properties": b"DELAY\x01x\x02"}
    assert outcome(record(0, topic=b"SCHEDULE_TOPIC_XXXX", **bad), rules) == (False, -1)
    assert outcome(record(0, **bad), rules)[0]


def test_inner_batch_numbers_are_parsed_from_5_0_on_and_after_the_lengths() -> None:
    bad = {"properties": b"INNER_NUM\x01x\x02INNER_BASE\x010\x02"}
    assert outcome(record(0, **bad), RELEASES["5.3.3"].records) == (False, -1)
    assert outcome(record(0, **bad), RELEASES["4.9.8"].records)[0]
    size = len(record(0, **bad))
    assert outcome(record(0, totalSize=size - 1, **bad), RELEASES["5.3.3"].records) == (False, size - 1)


def test_a_lenient_reader_shows_what_a_broker_refuses() -> None:
    checked: Checked = check_record(
        Bytes(record(0, properties=b"INNER_NUM\x01x\x02INNER_BASE\x010\x02")), 0, LENIENT
    )
    assert checked.record is not None
    assert number_problem(checked.record) == "INNER_NUM or INNER_BASE is not a number"


@given(st.data())
def test_no_bytes_raise_and_success_means_the_bytes_are_there(data: st.DataObject) -> None:
    """Any change to a record, and any random bytes, give an outcome."""
    raw = bytearray(record(0, sysFlag=data.draw(st.sampled_from([0, 0x10, 0x20, 0x30]))))
    for _ in range(data.draw(st.integers(0, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    for rules in (RELEASES["4.9.8"].records, RELEASES["5.3.3"].records, LENIENT):
        checked = check_record(Bytes(cut), 0, rules, check_crc=True, read_body=True)
        assert (checked.record is not None) == (checked.success and checked.size > 0)
        if checked.record is not None:
            assert checked.record.raw == cut[: checked.size]
            assert checked.record.body == cut[checked.record.body_start :][: checked.record.body_length]
