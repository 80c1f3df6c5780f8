"""Records of known number amid noise: none is invented, and those that are whole are found."""

from __future__ import annotations

import random

import pytest

from rmqtool.carve.proving import LooseCause
from rmqtool.javacompat import PROP_CRC_NAME, PROP_CRC_SIZE, masked_crc32
from rmqtool.scan.loose import find_loose
from rmqtool.store import Origin
from tests.carve.plain_search import find_plainly
from tests.carve.planting import (
    amid_noise,
    carved,
    check_true,
    host,
    images_of,
    overwrite,
    places,
    planted,
    whole_records,
)
from tests.scan.log_builder import STORE_TIMESTAMP_MS, blank, record

FILE = 1 << 15


@pytest.mark.parametrize("window_bytes", [4 << 20, 3000, 200])
def test_the_kernels_say_what_the_plain_form_says(window_bytes: int) -> None:
    """Of whole records, damaged ones, others inside, BLANKs and DLedger's, at any window."""
    rng = random.Random(window_bytes)
    log = planted(rng, 120, file_size=FILE)
    data = bytearray(amid_noise(rng, *log.files.values()))
    for _ in range(40):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    place = 10**6
    for body in (record(5, body=b"inner"), b"", bytes(600)):
        raw = record(place, body=body, sysFlag=0x30, properties=b"k\x01\xff\x02")
        data += bytes(48) + raw
        place += 48 + len(raw)
    expected = find_plainly(bytes(data))
    (image,) = images_of([bytes(data)])
    found = find_loose(image.reader(), 0, len(data), window_bytes)
    assert [tuple(row) for row in found.tolist()] == [tuple(row) for row in expected]
    assert len(expected) > 110


@pytest.mark.parametrize("seed", range(2))
def test_logs_of_three_brokers_amid_noise_are_found_and_kept_apart(seed: int) -> None:
    rng = random.Random(seed)
    logs = [planted(rng, 200, file_size=FILE, broker=broker) for broker in (1, 2, 3)]
    parts = [data for log in logs for data in log.files.values()]
    rng.shuffle(parts)
    image = amid_noise(rng, *parts)
    layout = carved(image, range_bytes=40_000)
    assert len(layout.logs) == 3
    assert {tuple(places(layout, number)) for number in range(3)} == {tuple(log.records) for log in logs}
    assert {log.geometry.file_size for log in layout.logs} == {FILE}
    assert [log.holes.tolist() for log in layout.logs] == [[]] * 3
    assert len(layout.loose) == 0
    check_true(layout, [image], logs)


@pytest.mark.parametrize("seed", range(2))
def test_with_a_fifth_overwritten_no_record_is_false_and_the_whole_ones_are_found(seed: int) -> None:
    rng = random.Random(seed)
    logs = [planted(rng, 600, file_size=FILE, broker=broker, largest_body=400) for broker in (1, 2)]
    parts = [data for log in logs for data in log.files.values()]
    image = overwrite(rng, amid_noise(rng, *parts), 0.2)
    layout = carved(image)
    check_true(layout, [image], logs)
    found = {place for number in range(len(layout.logs)) for place in places(layout, number)}
    whole = {place for log in logs for place in whole_records([image], log)}
    assert len(whole) > 300
    assert len(found) >= 0.999 * len(whole)


def test_truncated_and_shifted_files_give_what_they_have() -> None:
    rng = random.Random(7)
    log = planted(rng, 300, file_size=FILE, start=5 * FILE)
    files = [*log.files.values()]
    cut = [files[0][:20_500], b"x" * 13 + files[1], files[2][777:], *files[3:]]
    layout = carved(*cut)
    check_true(layout, cut, [log])
    assert set(places(layout)) == whole_records(cut, log)
    assert layout.logs[0].geometry.file_size == FILE
    # What the cuts tore is told: the one whose head is there, by its bytes.
    assert layout.causes == [LooseCause.FRAME]
    assert layout.loose["total_size"].tolist() == [20_500 - int(layout.loose["position"][0])]


def test_copies_are_counted_and_the_record_of_another_life_is_kept_apart() -> None:
    """The same host, the same offsets, other times: its store was made anew."""
    rng = random.Random(8)
    old, new = (
        planted(rng, 200, file_size=FILE, first_ms=STORE_TIMESTAMP_MS + years * 31_000_000_000)
        for years in (0, 1)
    )
    parts = [*old.files.values(), *new.files.values()]
    image = amid_noise(rng, *parts, *old.files.values())
    layout = carved(image)
    assert len(layout.logs) == 2
    assert sorted(log.duplicates for log in layout.logs) == [0, 200]
    assert {tuple(places(layout, number)) for number in (0, 1)} == {tuple(old.records), tuple(new.records)}
    check_true(layout, [image], [old, new])


def test_of_two_records_for_one_place_the_larger_piece_s_stays() -> None:
    """A copy that differs in one record is of the same log, and the difference is told."""
    rng = random.Random(9)
    log = planted(rng, 100, file_size=FILE)
    first, *others = log.files.values()
    place = [*log.records][20]
    raw = log.records[place]
    changed = record(place, body=b"other", topic=b"t", properties=b"a\x01" + b"b" * (len(raw) - 99))
    assert len(changed) == len(raw)
    layout = carved(first + b"".join(others), first[:place] + changed + first[place + len(raw) :])
    assert places(layout) == [*log.records]
    check_true(layout, [first + b"".join(others)], [log])
    assert layout.causes == [LooseCause.CONFLICT]
    assert layout.logs[0].conflicts == 1


def test_one_broker_under_two_names_is_one_log_where_its_records_follow_each_other() -> None:
    rng = random.Random(10)
    log = planted(rng, 40, file_size=FILE)
    for number in range(40):
        place = log.log.add(storeHost=host(2), storeTimestamp=STORE_TIMESTAMP_MS + 100 + number)
        log.records[place] = bytes(log.log.data[place:])
    whole = b"".join(log.files.values())
    assert places(carved(whole)) == [*log.records]
    at = [*log.records][40]
    torn = whole[: at - 1] + b"\xff" * 8 + whole[at + 7 :]
    assert len(carved(torn).logs) == 2
    assert len(carved(torn, one_log=True).logs) == 1


def test_a_record_inside_a_record_is_the_outer_one_s() -> None:
    """Its own offset says that it lies elsewhere; damage of the outer one does not make it a record here."""
    rng = random.Random(11)
    log = planted(rng, 30, file_size=FILE)
    inner = record(4 * FILE, body=b"carried", storeHost=host(1))
    place = log.log.add(body=rng.randbytes(100) + inner + rng.randbytes(100), storeHost=host(1))
    log.records[place] = bytes(log.log.data[place:])
    after = log.log.add(body=b"after", storeHost=host(1))
    log.records[after] = bytes(log.log.data[after:])
    whole = b"".join(log.files.values())
    layout = carved(whole)
    assert places(layout) == [*log.records]
    assert (layout.causes, layout.loose["total_size"].tolist()) == ([LooseCause.INNER], [0])
    torn = bytearray(whole)
    torn[place + 100] ^= 1
    layout = carved(bytes(torn))
    assert places(layout) == [one for one in log.records if one != place]
    assert layout.causes == [LooseCause.BODY, LooseCause.INNER]


@pytest.mark.parametrize(("shift", "further_off", "carried"), [(8192, 0, 0), (8193, 2, 0), (8193, 0, 2)])
def test_records_over_an_old_frame_are_none_of_its_body(shift: int, further_off: int, carried: int) -> None:
    """Foreign records alone lie around the frame: what lies further off tells, or the sector."""
    image = record(77, storeHost=host(2))
    frame, at = record(99, body=bytes(900), storeHost=host(2)), len(image) + 200

    def run_of(position: int) -> bytes:
        one = record(position + shift, storeHost=host(1))
        return one + record(position + shift + len(one), storeHost=host(1))

    image += frame[:200] + run_of(at) + frame[200 + len(run_of(at)) :] + record(55, storeHost=host(2))
    image += run_of(len(image)) if further_off else b""
    layout = carved(image)
    assert layout.causes.count(LooseCause.INNER) == carried
    assert LooseCause.BODY in layout.causes


@pytest.mark.parametrize(
    ("fields", "at", "cause"),
    [
        ({}, -1, LooseCause.TAIL),  # text is no proof where another sector's bytes may have come in
        ({}, 90, LooseCause.BODY),
        ({}, 84, LooseCause.FRAME),  # of the body's length, the lowest byte is the fourth
        ({"body": b""}, -1, LooseCause.TAIL),
    ],
)
def test_what_is_not_proven_is_kept_loose(fields: dict[str, bytes], at: int, cause: LooseCause) -> None:
    raw = bytearray(record(1000, **({"body": b"b" * 20} | fields)))
    raw[at] = 0x03 if at == 84 else 0xFE
    layout = carved(bytes(400) + bytes(raw) + b"something else" * 9)
    if cause is LooseCause.FRAME:  # a length that cannot be is no head at all
        assert (layout.logs, layout.causes) == ((), [])
        return
    assert layout.logs == ()
    assert layout.causes == [cause]
    assert layout.loose["total_size"].tolist() == [len(raw)]


@pytest.mark.parametrize("flipped", [1, 7])
def test_an_own_offset_that_both_neighbours_contradict_is_not_believed(flipped: int) -> None:
    rng = random.Random(15)
    log = planted(rng, 40, file_size=FILE)
    place = [*log.records][11]
    data = bytearray(b"".join(log.files.values()))
    data[place + 28 + flipped] ^= 2
    layout = carved(bytes(data))
    assert len(layout.logs) == 1
    assert places(layout) == [one for one in log.records if one != place]
    assert layout.causes == [LooseCause.OFFSET]
    assert layout.loose["total_size"].tolist() == [len(log.records[place])]


def test_an_offset_that_the_record_s_own_checksum_bears_out_is_believed() -> None:
    unsigned = record(9000, properties=bytes(PROP_CRC_SIZE))[:-PROP_CRC_SIZE]
    digits = f"{masked_crc32(unsigned):010d}"[::-1].encode()
    signed = unsigned + PROP_CRC_NAME + digits + b"\2"
    first = record(0)
    image = first + signed + record(len(first) + len(signed))
    assert places(carved(image)) == [0, len(first) + len(signed), 9000]


@pytest.mark.parametrize("properties", [b"no pair at all", b"a\1b\2torn", b"a\1b\2\1value\2"])
def test_a_list_of_properties_that_is_none_is_refused(properties: bytes) -> None:
    assert carved(bytes(8) + record(1000, properties=properties) + bytes(99)).causes == [LooseCause.TAIL]
    assert places(carved(bytes(8) + record(1000, properties=b"a\1\2\2b\1c") + bytes(99))) == [1000]


def test_topic_and_properties_in_the_body_s_sector_are_believed() -> None:
    raw = record(1000, body=b"b" * 20)
    assert places(carved(bytes(8) + raw + b"something else" * 9)) == [1000]
    assert carved(bytes(400) + raw + b"something else" * 9).causes == [LooseCause.TAIL]
    assert places(carved(bytes(400) + raw + bytes(99))) == [1000]
    assert places(carved(bytes(400) + raw)) == [1000]
    following = record(1000 + len(raw))
    assert places(carved(bytes(400) + raw + following)) == [1000, 1000 + len(raw)]
    closed = carved(bytes(400) + raw + blank(2000 - 1000 - len(raw)))
    assert (places(closed), closed.logs[0].geometry.file_size) == ([1000], 2000)


def test_the_size_of_files_is_given_or_inferred_or_assumed() -> None:
    rng = random.Random(12)
    log = planted(rng, 200, file_size=20_000)
    image = b"".join(log.files.values())
    inferred = carved(image).logs[0].geometry
    assert (inferred.file_size, inferred.origin, inferred.contradicting) == (20_000, Origin.INFERRED, 0)
    given = carved(image, file_size=40_000)
    assert given.logs[0].geometry.origin is Origin.GIVEN
    assert given.logs[0].geometry.contradicting > 0
    wrong = carved(image, file_size=7_000)
    assert LooseCause.STRADDLES in wrong.causes
    assert len(places(wrong)) + wrong.causes.count(LooseCause.STRADDLES) == 200
    alone = carved(record(0)).logs[0].geometry
    assert (alone.file_size, alone.origin) == (1 << 30, Origin.DEFAULT)
    # One file of the log that has lost its name, and no BLANK: its place in the log tells its size.
    last = max(log.files)
    hinted = carved(log.files[last]).logs[0].geometry
    assert (hinted.file_size, hinted.blanks) == (20_000, 0)


def test_few_records_of_another_log_are_strays() -> None:
    rng = random.Random(13)
    log = planted(rng, 60, file_size=FILE)
    image = b"".join(log.files.values()) + record(0, storeHost=host(9)) + bytes(50)
    layout = carved(image)
    assert places(layout) == [*log.records]
    assert layout.causes == [LooseCause.STRAY]


def test_batches_and_compressed_bodies_are_records_like_others() -> None:
    """An inner batch holds messages whose magic is none; a body is under the CRC as it is stored."""
    entry = (91).to_bytes(4) + bytes(87)
    rows = [{"sysFlag": 0xC0, "body": entry * 3}, {"sysFlag": 0x301, "body": b"\x78\x9c" + bytes(40)}]
    data = b""
    for fields in rows:
        data += record(len(data), **fields)
    assert places(carved(data)) == [0, len(record(0, **rows[0]))]


def test_noise_and_broken_heads_are_nothing() -> None:
    rng = random.Random(14)
    raw = record(0, body=b"b" * 50)
    broken = [raw[:4] + raw[5:], raw[:60], b"\xff" + raw[1:], raw[:40] + bytes(40) + raw[80:]]
    layout = carved(rng.randbytes(1 << 20) + b"".join(one + rng.randbytes(100) for one in broken))
    assert layout.logs == ()


def test_properties_that_are_no_text_are_damage_where_they_are_rare() -> None:
    def log_of(odd: set[int]) -> bytes:
        data = b""
        for number in range(100):
            value = b"\xff\xfe" if number in odd else b"ok"
            data += record(len(data), properties=b"k\x01" + value, storeTimestamp=STORE_TIMESTAMP_MS + number)
        return data

    rare = carved(log_of({50}))
    assert (len(places(rare)), rare.causes) == (99, [LooseCause.TAIL])
    assert len(places(carved(log_of({*range(0, 100, 4)})))) == 100
