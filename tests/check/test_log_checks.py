"""Every kind of damage of the commit log is found, named and placed, and nothing is said of a sound log."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.store.segments import FileQueue
from tests.builders import POLICY_4_9
from tests.check.checking import open_fixture
from tests.check.log_store import (
    AT,
    FILE_SIZE,
    Log,
    Verdict,
    check,
    check_at_any_split,
    with_record_crc,
    write_files,
)
from tests.scan.log_builder import blank, record

if TYPE_CHECKING:
    from collections.abc import Callable

STORES = sorted(path for path in (Path(__file__).parents[2] / "fixtures/stores").iterdir() if path.is_dir())
QUIET = {"CL-TAIL-ZERO", "CL-PREALLOC"}
PAGE = 4096


@pytest.mark.few(10)
@pytest.mark.parametrize("root", STORES, ids=lambda root: root.name)
@pytest.mark.parametrize("with_conf", [True, False], ids=["conf", "inferred"])
def test_logs_of_real_brokers_are_sound(root: Path, with_conf: bool) -> None:
    store = open_fixture(root, with_conf=with_conf)
    policy = DispatchPolicy.from_settings(store.settings)
    found = check(store.commitlog, policy=policy, unclean=store.abort is not None)
    assert found.status == 0
    expected = QUIET | {"CL-TOPIC-NAME"} if root.name.startswith("unicode") else QUIET
    if root.name.startswith("lmqtwice"):
        expected = QUIET | {"LMQ-TWICE"}
    if root.name.startswith("page"):  # written by whole pages
        expected = QUIET | {"CL-GHOST", "CL-TAIL-DIRTY"}
    assert set(found.counts) <= expected
    assert found.records > 0
    assert check(store.commitlog, policy=policy, split_bytes=1000) == found


def test_a_sound_log_ends_in_zeros(tmp_path: Path) -> None:
    log = Log().fill(60)
    found = check_at_any_split(log.write(tmp_path))
    assert found.counts == {"CL-TAIL-ZERO": 1}
    assert found.records == 60
    assert found.log_end == len(log.data)
    assert found.units == {("TopicTest", queue): 20 for queue in range(3)}


def test_a_file_allocated_ahead_is_no_damage(tmp_path: Path) -> None:
    log = Log().fill(10)
    found = check_at_any_split(log.write(tmp_path, bytes(FILE_SIZE)))
    assert found.counts == {"CL-TAIL-ZERO": 1, "CL-PREALLOC": 1}


def _edited(tmp_path: Path, edit: Callable[[Log, int], None]) -> tuple[Verdict, int]:
    """Edit a record in the middle of a log of four files; return what is said, and its place."""
    log = Log().fill(60)
    place = log.places[30]
    edit(log, place)
    return check_at_any_split(log.write(tmp_path)), place


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("name", "value", "width", "code", "severity"),
    [
        ("bodyCrc", 5, 4, "CL-CRC", "error"),
        ("physicalOffset", 5, 8, "CL-PHY-MISMATCH", "error"),
        ("queueId", -1, 4, "CL-QUEUE-ID", "error"),
        ("queueId", 1 << 20, 4, "CL-QUEUE-ID", "error"),
        ("queueOffset", -1, 8, "CL-QOFF-RANGE", "error"),
        ("queueOffset", 1 << 62, 8, "CL-QOFF-RANGE", "error"),
        ("queueOffset", 11, 8, "CL-QOFF-RANGE", "error"),
        ("storeTimestamp", 0, 8, "CL-TIME", "warning"),
        ("storeTimestamp", 1 << 60, 8, "CL-TIME", "warning"),
        ("storeTimestamp", 1_640_000_000_000, 8, "CL-TS-BACK", "warning"),
        ("bornTimestamp", -1, 8, "CL-TIME", "warning"),
        ("magic", 7, 4, "CL-BAD-MAGIC", "error"),
        ("totalSize", 100, 4, "CL-HALF-RECORD", "error"),
        ("totalSize", 1 << 20, 4, "CL-HALF-RECORD", "error"),
        ("totalSize", -1, 4, "CL-HUGE-SIZE", "error"),
        ("totalSize", 2_000_000_000, 4, "CL-HUGE-SIZE", "error"),
        ("bodyLength", 1, 4, "CL-HALF-RECORD", "error"),
        ("sysFlag", 0x10, 4, "CL-HALF-RECORD", "error"),
    ],
)
def test_a_wrong_field_is_named_and_placed(
    tmp_path: Path, name: str, value: int, width: int, code: str, severity: str
) -> None:
    found, place = _edited(tmp_path, lambda log, place: log.number(place, name, value, width))
    (finding,) = found.of(code)
    assert finding.severity.value == severity
    assert finding.physical_offset == place
    assert finding.position == place % FILE_SIZE
    assert finding.file == f"commitlog/{place - place % FILE_SIZE:020d}"
    if severity == "error":
        assert found.codes() == {code}
        assert found.status == 5


@pytest.mark.parametrize("host", ["bornHost", "storeHost"])
def test_a_port_has_sixteen_bits(tmp_path: Path, host: str) -> None:
    found, place = _edited(tmp_path, lambda log, place: log.put(place + AT[host] + 4, b"\0\1\0\0"))
    (finding,) = found.of("CL-PORT")
    assert finding.physical_offset == place
    assert finding.observed == 65536
    assert host.upper() in finding.message


def test_the_body_is_under_its_checksum_and_the_record_stays_one(tmp_path: Path) -> None:
    found, place = _edited(tmp_path, lambda log, place: log.put(place + 90, b"?"))
    (finding,) = found.of("CL-CRC")
    assert finding.physical_offset == place
    assert found.records == 60
    assert found.codes() == {"CL-CRC"}


def test_the_record_checksum_covers_what_the_body_checksum_does_not(tmp_path: Path) -> None:
    log, place = Log(), 0
    for number in range(4):
        place = len(log.data)
        log.data += with_record_crc(place, queueId=7, queueOffset=number, storeTimestamp=log.stored_ms)
    assert check_at_any_split(log.write(tmp_path)).codes() == set()
    log.number(place, "flag", 1)  # the user's own field: nothing else knows it
    found = check_at_any_split(log.write(tmp_path))
    assert found.codes() == {"CL-PROP-CRC"}
    log.number(place, "flag", 0)
    log.data[-2:-1] = b"x"  # a digit
    assert check_at_any_split(log.write(tmp_path)).codes() == {"CL-PROP-CRC"}


def test_a_record_checksum_among_records_without_may_come_from_another_broker(tmp_path: Path) -> None:
    """A broker that appends none stores that of a message sent again as it comes."""
    log = Log().fill(3)
    stale = with_record_crc(4711)[-40:].rpartition(b"__CRC32#")[2]
    place = log.add(properties=b"KEYS\x01k\x02__CRC32#" + stale)
    found = check_at_any_split(log.write(tmp_path))
    assert [(one.physical_offset, one.severity.value) for one in found.of("CL-PROP-CRC")] == [
        (place, "warning")
    ]
    assert found.status == 0


COMPRESSED = {0x001: b"\x78\x9c", 0x101: b"\x04\x22\x4d\x18", 0x201: b"\x28\xb5\x2f\xfd", 0x301: b"\x78\x5e"}


@pytest.mark.parametrize(
    ("flag", "body", "wrong"),
    [
        *((flag, start + b"rest", False) for flag, start in COMPRESSED.items()),
        *((flag, b"{}: plain", True) for flag in COMPRESSED),
        (0x101, b"\x04", True),
        (0x001, b"", False),  # rolled back by brokers before 4.3: the flag stays, the body goes
        (0x300, b"plain", False),  # unpacked by a client that keeps the type
        (0x400, b"plain", True),
        (0x800, b"plain", True),
        (-(1 << 31), b"plain", True),
    ],
)
def test_flags_that_mean_nothing_or_contradict_the_body_are_warned_of(
    tmp_path: Path, flag: int, body: bytes, wrong: bool
) -> None:
    log = Log().fill(4)
    place = log.add(sysFlag=flag, body=body)
    found = check_at_any_split(log.write(tmp_path))
    assert [one.physical_offset for one in found.of("CL-SYSFLAG")] == ([place] if wrong else [])
    assert found.codes() == set()


def test_an_inner_batch_has_a_number_of_messages(tmp_path: Path) -> None:
    log = Log().fill(4)
    log.add(sysFlag=0x80, properties=b"INNER_NUM\x012\x02INNER_BASE\x010")
    place = log.add(sysFlag=0x80, queueOffset=1)
    found = check_at_any_split(log.write(tmp_path))
    assert [one.physical_offset for one in found.of("CL-SYSFLAG")] == [place]


def test_no_body_has_neither_length_nor_checksum(tmp_path: Path) -> None:
    log = Log().fill(3)
    places = [log.add(body=b"") for _ in range(3)]
    assert check_at_any_split(log.write(tmp_path)).codes() == set()
    log.number(places[1], "bodyCrc", 1)
    log.number(places[2], "bodyLength", -5)
    found = check_at_any_split(log.write(tmp_path))
    assert [(one.physical_offset, one.observed) for one in found.of("CL-EMPTY-BODY")] == [
        (places[1], 1),
        (places[2], -5),
    ]
    assert found.codes() == {"CL-EMPTY-BODY"}


@pytest.mark.parametrize("kind", [0x4, 0xC])
def test_records_that_are_put_into_no_queue_have_sane_fields(tmp_path: Path, kind: int) -> None:
    log = Log().fill(3)
    places = [log.add(sysFlag=kind, queueOffset=0, topic=b"Raw") for _ in range(3)]
    assert check_at_any_split(log.write(tmp_path)).codes() == set()
    log.number(places[1], "queueId", 1 << 16)
    log.number(places[2], "queueOffset", 5, 8)
    found = check_at_any_split(log.write(tmp_path))
    assert [one.physical_offset for one in found.of("CL-QUEUE-ID")] == [places[1]]
    assert [one.physical_offset for one in found.of("CL-QOFF-RANGE")] == [places[2]]
    assert found.codes() == {"CL-QUEUE-ID", "CL-QOFF-RANGE"}


@pytest.mark.parametrize(
    ("kind", "offset", "wrong"),
    [(0, 1, True), (4, 1, True), (8, -1, True), (8, 0, False), (8, 1 << 40, True), (12, 1 << 40, True)],
)
def test_only_what_ends_a_transaction_names_a_half_message_before_it(
    tmp_path: Path, kind: int, offset: int, wrong: bool
) -> None:
    log = Log().fill(4)
    place = log.add(sysFlag=kind, queueOffset=0, topic=b"Other", preparedTransactionOffset=offset)
    found = check_at_any_split(log.write(tmp_path))
    assert [one.physical_offset for one in found.of("CL-PREPARED")] == ([place] if wrong else [])


def test_records_longer_than_the_window_are_checked_to_their_last_byte(tmp_path: Path) -> None:
    body = random.Random(1).randbytes(9 << 20)
    raw = with_record_crc(0, body=body)
    for damage, codes in (
        (None, set()),
        (len(raw) // 2, {"CL-CRC", "CL-PROP-CRC"}),
        (AT["flag"], {"CL-PROP-CRC"}),
        (len(raw) - 32, {"CL-PROP-CRC"}),
    ):
        data = bytearray(raw)
        if damage is not None:
            data[damage] ^= 1
        log = write_files(tmp_path, {0: bytes(data) + bytes(1000)})
        assert check(log).codes() == codes
        assert check(log, split_bytes=1 << 20).codes() == codes


@pytest.mark.parametrize(
    ("piece", "wrong"),
    [
        (b"KEYS\x01k\x02", False),
        (b"KEYS\x01k", False),
        (b"", False),
        (b"A\x01\x02B\x01b", False),
        (b"KEYS\x01k\x02\x02TAGS\x01t", False),
        (b"KEYSk\x02", True),
        (b"\x01k", True),
    ],
)
def test_properties_are_names_with_values(tmp_path: Path, piece: bytes, wrong: bool) -> None:
    log = Log().fill(4)
    log.add(properties=piece)
    found = check_at_any_split(log.write(tmp_path))
    assert found.codes("warning") == ({"CL-PROPERTIES"} if wrong else set())


def test_a_property_that_must_be_a_number_loses_the_record(tmp_path: Path) -> None:
    log = Log().fill(4)
    place = log.add(topic=b"SCHEDULE_TOPIC_XXXX", properties=b"DELAY\x01soon")
    log.fill(4)
    (finding,) = check_at_any_split(log.write(tmp_path)).of("CL-NUMBER")
    assert (finding.physical_offset, finding.severity.value) == (place, "error")


@pytest.mark.parametrize(
    ("topic", "severity"),
    [
        (b"%RETRY%group-1_x", None),
        (b"", "error"),
        (b"..", "error"),
        (b"a/b", "error"),
        (b"a\0b", "error"),
        (b"a b", "warning"),
        (b"a\x7fb", "warning"),
        ("\u4e3b\u9898".encode(), "warning"),
    ],
)
def test_topics_are_named_as_brokers_allow(tmp_path: Path, topic: bytes, severity: str | None) -> None:
    log = Log().fill(4)
    place = log.add(topic=topic)
    log.add(topic=topic)
    log.add(topic=topic, queueId=2, queueOffset=0)
    found = check_at_any_split(log.write(tmp_path))
    assert [(one.severity.value, one.physical_offset) for one in found.of("CL-TOPIC-NAME")] == (
        [(severity, place)] if severity else []
    )


def test_an_offset_that_is_no_number_stalls_a_broker(tmp_path: Path) -> None:
    log = Log().fill(2)
    place = log.add(properties=b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x01x")
    log.fill(2)
    found = check_at_any_split(log.write(tmp_path))
    assert [one.physical_offset for one in found.of("LMQ-STALL")] == [place]
    assert found.units["TopicTest", 1] == 2  # those after are looked at all the same


def test_a_hole_is_bridged(tmp_path: Path) -> None:
    log = Log().fill(60)
    start, stop = log.places[25], log.places[29]
    log.put(start, bytes(stop - start - 5))  # from a boundary into the middle of a record
    found = check_at_any_split(log.write(tmp_path))
    (hole,) = found.of("CL-HOLE")
    assert (hole.physical_offset, hole.length) == (start, stop - start)
    assert found.records == 56
    assert found.codes() == {"CL-HOLE"}
    assert all("damage" in gap.message for gap in found.of("CL-QOFF-GAP"))
    assert len(found.of("CL-QOFF-GAP")) == 3


def test_damage_over_many_splits_is_one_range(tmp_path: Path) -> None:
    log = Log().fill(60)
    start, stop = log.places[20], log.places[38]
    log.put(start, b"\xee" * (stop - start))
    found = check_at_any_split(log.write(tmp_path))
    ranges = [(one.physical_offset, one.length) for one in found.of("CL-BAD-MAGIC")]
    middle = start - start % FILE_SIZE + FILE_SIZE
    assert ranges == [(start, middle - start), (middle, stop - middle)]


def test_a_segment_without_blank_is_torn(tmp_path: Path) -> None:
    log = Log().fill(60)
    end = next(place for place in log.places if place >= FILE_SIZE)
    last = max(place for place in log.places if place < end)
    log.put(last, b"\xee" * (FILE_SIZE - last))
    found = check_at_any_split(log.write(tmp_path))
    assert found.codes() == {"CL-BAD-MAGIC", "CL-NO-BLANK"}


def test_a_file_full_of_records_has_no_room_for_blank(tmp_path: Path) -> None:
    raw = record(0, storeTimestamp=1_650_000_000_000)
    later = record(len(raw), queueOffset=1, storeTimestamp=1_650_000_000_001)
    log = write_files(tmp_path, {0: raw, len(raw): later + bytes(100)})
    found = check(log)
    assert found.codes() == {"CL-NO-BLANK"}
    assert found.records == 2


def test_zeros_that_later_files_contradict_are_a_lost_buffer(tmp_path: Path) -> None:
    log = Log().fill(60)
    cut = log.places[5]
    log.put(cut, bytes(FILE_SIZE - cut))
    found = check_at_any_split(log.write(tmp_path))
    (lost,) = found.of("CL-TRANSIENT")
    assert (lost.physical_offset, lost.length, lost.severity.value) == (cut, FILE_SIZE - cut, "error")
    assert found.codes() == {"CL-TRANSIENT"}


def test_a_whole_file_of_zeros_inside_the_log_is_a_hole(tmp_path: Path) -> None:
    log = Log().fill(60)
    log.put(FILE_SIZE, bytes(FILE_SIZE))
    found = check_at_any_split(log.write(tmp_path))
    assert [(one.physical_offset, one.length) for one in found.of("CL-HOLE")] == [(FILE_SIZE, FILE_SIZE)]
    assert found.status == 5


@pytest.mark.parametrize("total_size", [8, 5000])
def test_a_blank_of_the_wrong_length_is_told(tmp_path: Path, total_size: int) -> None:
    log = Log().fill(60)
    place = log.data.index(blank(8)[4:8]) - 4
    log.put(place, total_size.to_bytes(4, "big"))
    found = check_at_any_split(log.write(tmp_path))
    (finding,) = found.of("CL-BLANK-LEN")
    assert (finding.physical_offset, finding.severity.value) == (place, "warning")
    assert (finding.expected, finding.observed) == (FILE_SIZE - place, total_size)
    assert found.records == 60
    assert found.status == 0


def test_a_blank_over_good_records_is_damage(tmp_path: Path) -> None:
    log = Log().fill(60)
    place = log.places[30]
    log.put(place, blank(8, 77))
    found = check_at_any_split(log.write(tmp_path))
    assert found.codes() == {"CL-BLANK-LEN"}
    assert found.records == 59


def test_old_bytes_behind_a_blank_are_no_records(tmp_path: Path) -> None:
    place = len(record(0))
    ghost = record(place + 8)  # true in every field, but after the end
    data = record(0) + blank(FILE_SIZE - place)
    data = data[: place + 8] + ghost + data[place + 8 + len(ghost) :]
    found = check_at_any_split(write_files(tmp_path, {0: data}))
    assert found.counts == {"CL-GHOST": 1}
    assert found.records == 1


def test_v2_records_mean_nothing_to_a_4_9_broker(tmp_path: Path) -> None:
    log = Log().fill(3)
    place = log.add(magic=-626843477)
    log.fill(3)
    files = log.write(tmp_path)
    assert check_at_any_split(files).codes() == set()
    (finding,) = check_at_any_split(files, policy=POLICY_4_9).of("CL-BAD-MAGIC")
    assert finding.physical_offset == place


class TestTail:
    """After the last record."""

    def test_a_torn_record_is_expected_after_a_crash_only(self, tmp_path: Path) -> None:
        log = Log().fill(10)
        torn = record(len(log.data), body=b"x" * 200)[:120]
        files = log.write(tmp_path, torn)
        for unclean, severity in ((False, "error"), (True, "warning")):
            found = check_at_any_split(files, unclean=unclean)
            (finding,) = found.of("CL-HALF-RECORD")
            assert (finding.physical_offset, finding.severity.value) == (len(log.data), severity)
            assert found.log_end == len(log.data)
            assert ("expected after a kill or a power cut" in finding.message) == unclean
            assert ("no crash explains it" in finding.message) != unclean
            assert finding.remedy.startswith("None needed: the next start cuts it off") == unclean

    def test_a_torn_body_is_expected_after_a_crash_only(self, tmp_path: Path) -> None:
        log = Log().fill(10)
        end = len(log.data)
        place = log.add(body=b"x" * 200)
        log.put(place + 150, bytes(50))
        files = log.write(tmp_path)
        assert check_at_any_split(files).codes() == {"CL-CRC"}
        found = check_at_any_split(files, unclean=True)
        assert found.codes() == set()
        assert found.codes("warning") == {"CL-CRC"}
        (finding,) = found.of("CL-CRC")
        assert "expected after a kill" in finding.message
        assert finding.remedy.startswith("None needed")
        assert (found.log_end, found.records) == (end, 10)

    def test_bytes_of_an_old_record_are_dirt(self, tmp_path: Path) -> None:
        log = Log().fill(10)
        found = check_at_any_split(log.write(tmp_path, b"middle of an old record" * 9))
        assert found.codes("warning") == {"CL-TAIL-DIRTY"}
        assert found.status == 0

    def test_zeros_and_then_bytes_are_dirt(self, tmp_path: Path) -> None:
        log = Log().fill(10)
        found = check_at_any_split(log.write(tmp_path, bytes(400) + b"x" * 300))
        assert found.codes("warning") == {"CL-TAIL-DIRTY"}

    def test_the_last_record_with_another_magic_is_no_dirt(self, tmp_path: Path) -> None:
        log = Log().fill(10)
        log.number(log.places[-1], "magic", 7)
        assert check_at_any_split(log.write(tmp_path)).codes() == {"CL-BAD-MAGIC"}

    def test_old_records_at_a_fitting_boundary_are_told_from_the_log(self, tmp_path: Path) -> None:
        """A log is cut, and new records of the same size end where an old one begins."""
        log = Log().fill(15)
        end = log.places[9]
        for place in log.places[3:9]:
            log.number(place, "storeTimestamp", log.stored_ms + 1000, 8)
        found = check_at_any_split(log.write(tmp_path))
        assert found.codes("warning") == {"CL-TS-BACK"}  # queue offsets go on: a clock was set back
        for place in log.places[9:]:
            log.number(place, "queueOffset", 1, 8)
        found = check_at_any_split(log.write(tmp_path))
        (stale,) = found.of("CL-TAIL-DIRTY")
        assert (stale.physical_offset, stale.length) == (end, len(log.data) - end)
        assert "6 records" in stale.message
        assert found.status == 0
        assert (found.records, found.log_end) == (9, end)

    def test_old_records_behind_the_middle_of_one_are_told_from_a_hole(self, tmp_path: Path) -> None:
        log = Log().fill(15)
        end = log.places[9] + 10
        new = record(log.places[9], queueOffset=3, storeTimestamp=log.stored_ms + 9, body=b"x" * 20)
        log.put(log.places[9], new)
        end = log.places[9] + len(new)
        found = check_at_any_split(log.write(tmp_path))
        (stale,) = found.of("CL-TAIL-DIRTY")
        assert stale.physical_offset == end
        assert "5 records" in stale.message
        assert (found.status, found.records, found.log_end) == (0, 10, end)

    def test_a_live_broker_moves_the_end(self, tmp_path: Path) -> None:
        log = Log().fill(40)
        torn = record(len(log.data), body=b"x" * 200)[:120]
        found = check_at_any_split(log.write(tmp_path, torn), live=True)
        assert found.counts == {}
        assert (found.records, found.log_end) == (40, len(log.data))


class TestQueueOffsets:
    """Queue offsets go up by one."""

    def _codes(
        self, tmp_path: Path, offsets: list[int], topic: bytes = b"T"
    ) -> list[tuple[str, object, object]]:
        log = Log()
        for offset in offsets:
            log.add(topic=topic, queueOffset=offset, body=b"b" * 100)
        found = check_at_any_split(log.write(tmp_path))
        return [
            (one.code.code, one.expected, one.observed)
            for one in found.findings
            if one.code.code not in QUIET
        ]

    @pytest.mark.parametrize(
        ("offsets", "expected"),
        [
            (list(range(40)), []),
            ([0, 1, 5, 6, 7], [("CL-QOFF-GAP", 2, 5)]),
            ([3, 4, 5], [("CL-QOFF-GAP", 0, 3)]),
            ([0, 1, 2, 1, 2, 3, 4], [("CL-QOFF-DUP", 3, 1)]),
            ([0, 1, 2, 3, 1, 4], [("CL-QOFF-DUP", 4, 1)]),
            ([0, 1, 2, 3, 0, 1, 2], [("CL-QOFF-RESET", 4, 0)]),
            ([0, 1, 77, 3, 4], [("CL-QOFF-RANGE", 2, 77)]),
            ([0, 1, -5, 3, 4], [("CL-QOFF-RANGE", 2, -5)]),
            ([0, 1, 2, 1 << 60], [("CL-QOFF-RANGE", 3, 1 << 60)]),
        ],
    )
    def test_breaks_are_named(
        self, tmp_path: Path, offsets: list[int], expected: list[tuple[str, int, int]]
    ) -> None:
        assert self._codes(tmp_path, offsets) == expected

    def test_light_queues_fall_back_where_a_broker_forgot_their_counters(self, tmp_path: Path) -> None:
        log = Log()
        for own, light in enumerate([0, 1, 2, 0, 1, 2, 3]):
            names = b"INNER_MULTI_DISPATCH\x01%%LMQ%%a\x02INNER_MULTI_QUEUE_OFFSET\x01%d" % light
            log.add(queueOffset=own, properties=names)
        found = check_at_any_split(log.write(tmp_path))
        (reset,) = found.of("LMQ-COUNTER-RESET")
        assert (reset.topic, reset.expected, reset.observed) == ("%LMQ%a", 3, 0)

    def test_a_log_whose_head_expired_begins_anywhere(self, tmp_path: Path) -> None:
        log = Log().fill(60)
        files = log.write(tmp_path)
        rest = FileQueue(files.directories, files.segments[1:])
        assert check_at_any_split(rest).counts == {"CL-TAIL-ZERO": 1}


def test_findings_beyond_the_cap_are_counted(tmp_path: Path) -> None:
    log = Log().fill(60)
    for place in log.places:
        log.number(place, "bodyCrc", 1)
    found = check_at_any_split(log.write(tmp_path), max_findings=5)
    assert len(found.of("CL-CRC")) == 5
    assert found.counts["CL-CRC"] == 60
    assert [one.physical_offset for one in found.of("CL-CRC")] == log.places[:5]


def test_a_missing_file_is_told_and_the_rest_is_checked(tmp_path: Path) -> None:
    log = Log().fill(60)
    files = log.write(tmp_path)
    Path(str(files.segments[1].path)).unlink()
    found = check(files)
    assert {one.code.code for one in found.findings if one.file == files.segments[1].label} == {"IO-CHANGED"}
    assert found.records == sum(not FILE_SIZE <= place < 2 * FILE_SIZE for place in log.places)
    assert found.status == 5


def test_an_unreadable_page_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of several splits meet the same bad page; a kernel delivers no byte of one."""
    plain = os.preadv

    def failing(descriptor: int, buffers: list[memoryview], position: int) -> int:
        if position < 2 * PAGE and position + len(buffers[0]) > PAGE:
            raise OSError(errno.EIO, "Input/output error")
        return plain(descriptor, buffers, position)

    records = b"".join(
        record(at, queueOffset=at // 200, body=bytes(68)) for at in range(0, 4 * PAGE - 400, 200)
    )
    log = write_files(tmp_path, {0: records.ljust(4 * PAGE, b"\0")})
    size = len(record(0, body=bytes(68)))
    assert len(records) % size == 0
    monkeypatch.setattr(os, "preadv", failing)
    found = check_at_any_split(log)
    assert [(one.position, one.length) for one in found.of("IO-UNREADABLE")] == [(PAGE, PAGE)]
    assert found.status == 5
    assert found.log_end == len(records)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_damaged_no_cut_shows_and_nothing_fails(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log = Log().fill(50, body_bytes=chance.randrange(1, 90))
    for _ in range(chance.randrange(1, 6)):
        at, length = chance.randrange(len(log.data)), chance.choice([1, 1, 4, 40, 700])
        other = chance.randrange(len(log.data))
        source = chance.choice([bytes(length), chance.randbytes(length), bytes(log.data[other:][:length])])
        log.put(at, source[: len(log.data) - at])
    files = log.write(tmp_path)
    for unclean in (False, True):
        check_at_any_split(files, unclean=unclean)
