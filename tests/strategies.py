"""Messages and logs as a hostile or careless world may write them, for hypothesis."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from rmqtool.formats import message
from tests.builders import LogBuilder, properties
from tests.javacompat.byte_strategies import key_bytes, mixed_bytes, property_bytes
from tests.scan.log_builder import STORE_TIMESTAMP_MS, record

Fields = dict[str, Any]

FILE_SIZE = 2048
BATCH_TOPIC = "BatchTopic"
_SCHEDULE = b"SCHEDULE_TOPIC_XXXX"
TOPICS = [
    b"TopicTest",
    "订单".encode(),
    _SCHEDULE,
    b"%RETRY%group",
    b"rmq_sys_own",
    BATCH_TOPIC.encode(),
    b"same\xff",  # these three are one name to Java
    b"same\x80",
    "same\ufffd".encode(),
    b"same\xed\xa0\x80",
    b"..",
    b"a/b",
    b"nul\x00",
    b"",
]
LIGHT_NAMES = ["%LMQ%a", "%LMQ%b", "plain", "%LMQ%", "x/y", "..", "", "订单", "TopicTest"]
_LONGEST = (1 << 63) - 1
_SUFFIXES = ["", "", "", ",", ",,"]

REQUIRED = "RMQTOOL_REQUIRE_TIERS"
"""Where this is 1, a skipped test of a tier has failed, and properties are tried on many examples."""
_QUICK_SHARE = 10
_GATE_SHARE = 2
_CAMPAIGNS = "RMQTOOL_CAMPAIGNS"
"""Where this is 1, all seeds of campaigns are tried."""


def campaign(seeds: range, share: int) -> range:
    """Return the seeds of a campaign, all of which have passed once: one in so many, unless all are wanted.

    Those that found a fault are tests of their own.
    """
    return seeds if os.environ.get(_CAMPAIGNS) == "1" else seeds[::share]


def examples(count: int) -> settings:
    """So many examples where others are looked for, half of them in the gate, few where one waits for it."""
    if os.environ.get("RMQTOOL_EXPLORE") == "1":
        return settings(max_examples=count)
    share = _GATE_SHARE if os.environ.get(REQUIRED) == "1" else _QUICK_SHARE
    return settings(max_examples=max(10, count // share))


def numbers(good: list[str], bad: list[str], *, hostile: bool) -> st.SearchStrategy[str]:
    """Give decimal texts; those that Java cannot parse only where they are wanted."""
    return st.sampled_from(good + bad if hostile else good)


def message_properties(*, hostile: bool) -> st.SearchStrategy[bytes]:
    """Give property strings with everything that the dispatch reads; ``hostile``: also what it fails on."""
    delays = numbers(
        ["1", "3", "18", "19", "0", "-2", "+4", "007"], ["x", "2147483648", "-"], hostile=hostile
    )
    count = numbers(["1", "3", "0", "-1", "32767"], ["32768", "x"], hostile=hostile)
    base = numbers(["0", "7", "-1", "9223372036854775807"], ["9223372036854775808"], hostile=hostile)
    known: st.SearchStrategy[dict[str, str | bytes]] = st.fixed_dictionaries(
        {},
        optional={
            "KEYS": key_bytes(),
            "UNIQ_KEY": mixed_bytes(),
            "TAGS": mixed_bytes(),
            "DELAY": delays,
            "INNER_NUM": count,
            "INNER_BASE": base,
        },
    )
    parts = st.tuples(known, st.one_of(st.just({}), multi_dispatch(hostile=hostile)))
    whole = parts.map(lambda two: properties({**two[0], **two[1]}))
    odd = property_bytes().filter(lambda data: b"DELAY" not in data and b"INNER" not in data)
    return st.builds(
        lambda before, data, end, after: before + data + end + after,
        st.one_of(st.just(b""), odd.map(lambda data: data + b"\x02" if data else b"")),
        whole,
        st.sampled_from([b"", b"\x02"]),
        st.one_of(st.just(b""), odd.map(lambda data: b"\x02" + data)),
    )


def multi_dispatch(*, hostile: bool) -> st.SearchStrategy[dict[str, str]]:
    """Give the two properties of a multi dispatch: mostly of equal counts, sometimes blank or with commas."""
    offset = st.one_of(
        st.integers(0, 5).map(str),
        numbers(
            ["-1", "+3", "9223372036854775807"], ["", " 1", "1.5", "9223372036854775808"], hostile=hostile
        ),
    )
    pairs = st.lists(st.tuples(st.sampled_from(LIGHT_NAMES), offset), min_size=1, max_size=4)
    listed = st.builds(
        lambda rows, one, two, extra: {
            "INNER_MULTI_DISPATCH": ",".join(row[0] for row in rows) + one,
            "INNER_MULTI_QUEUE_OFFSET": ",".join(row[1] for row in rows) + two + extra,
        },
        pairs,
        st.sampled_from(_SUFFIXES),
        st.sampled_from(_SUFFIXES),
        st.sampled_from(["", "", "", ",5"]),
    )
    blank = st.sampled_from(["\t", " ", ",", ",,", "\u3000", "\u00a0", "\u2007", "\u2028 \x1f"])
    odd = st.builds(
        lambda names, offsets: {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets},
        st.one_of(blank, st.just("%LMQ%a")),
        st.sampled_from(["\t", " ", ",", ",,", "\u3000", "3"])
        if hostile
        else st.sampled_from(["\t", ",", "3"]),
    )
    return st.one_of(listed, listed, listed, odd)


@st.composite
def messages(draw: st.DrawFn, *, hostile: bool = False) -> Fields:
    """Give the fields of a record that is well formed."""
    v2 = draw(st.integers(0, 4)) == 0
    topic = draw(st.sampled_from([*TOPICS, b"%RETRY%" + b"g" * 200] if v2 else TOPICS))
    return {
        "magic": message.MAGIC_V2 if v2 else message.MAGIC_V1,
        "topic": topic,
        "queueId": draw(st.sampled_from([0, 0, 1, 2, -1, 0x7FFFFFFF])),
        "queueOffset": draw(
            st.one_of(st.integers(0, 30), st.sampled_from([0, -1, -_LONGEST - 1, _LONGEST, 1 << 40]))
            if hostile
            else st.integers(0, 30)
        ),
        "sysFlag": draw(st.sampled_from([0, 0, 0, 4, 8, 12]))
        | draw(st.sampled_from(message.VARIANTS))
        | draw(st.sampled_from([0, 0, 1, 0x80, -0x80000000])),
        "storeTimestamp": draw(
            st.one_of(
                st.integers(0, 9_000_000).map(lambda ms: STORE_TIMESTAMP_MS + ms),
                st.sampled_from([0, -1, _LONGEST, -_LONGEST] if hostile else [STORE_TIMESTAMP_MS]),
            )
        ),
        "body": b"b" * draw(st.sampled_from([0, 1, 5, 40, 300])),
        "properties": draw(message_properties(hostile=hostile)),
    }


def patches(size: int) -> st.SearchStrategy[list[tuple[int, bytes]]]:
    """Give damage to ``size`` bytes: flips, zeroed ranges, numbers written over fields."""
    place = st.integers(0, max(size - 1, 0))
    piece = st.one_of(
        st.binary(min_size=1, max_size=1),
        st.sampled_from([4, 16, 300]).map(bytes),
        st.sampled_from([-1, 0, 1, 7, 91, 200, 0x7FFFFFFF, -0x80000000, message.BLANK_MAGIC]).map(
            lambda number: number.to_bytes(4, "big", signed=True)
        ),
        st.sampled_from([-1, 0, 0x7FFF]).map(lambda number: number.to_bytes(2, "big", signed=True)),
    )
    return st.lists(st.tuples(place, piece), max_size=3)


def patched(data: bytes, edits: list[tuple[int, bytes]]) -> bytes:
    """Return bytes with pieces written over them, the length kept."""
    for place, piece in edits:
        data = (data[:place] + piece + data[place + len(piece) :])[: len(data)]
    return data


@st.composite
def damaged_records(draw: st.DrawFn) -> bytes:
    """Give a record with lengths that lie: its own size, body, topic or properties, or flipped bytes."""
    fields = draw(messages(hostile=True))
    raw = record(0, **fields)
    head = message.HEAD_SIZES[message.host_variant(fields["sysFlag"])]
    topic_at = head + len(fields["body"])
    width = 2 if fields["magic"] == message.MAGIC_V2 else 1
    at, size = draw(
        st.sampled_from(
            [(0, 4), (head - 4, 4), (topic_at, width), (topic_at + width + len(fields["topic"]), 2), (36, 4)]
        )
    )
    old = int.from_bytes(raw[at : at + size], "big", signed=True)
    bits = 8 * size - 1
    new = draw(
        st.one_of(
            st.integers(-3, 3).map(lambda step: old + step),
            st.sampled_from([-1, 0, 1, 7, 8, 19, 20, 90, 91, 10_000]),
            st.integers(-(1 << bits), (1 << bits) - 1),
        ).map(lambda value: min(max(value, -(1 << bits)), (1 << bits) - 1))
    )
    raw = raw[:at] + new.to_bytes(size, "big", signed=True) + raw[at + size :]
    return patched(raw, draw(st.one_of(st.just([]), patches(len(raw)))))


@st.composite
def logs(
    draw: st.DrawFn,
    *,
    hostile: bool = False,
    damage: bool = False,
    lies: bool = False,
    halves: bool = False,
    most: int = 14,
) -> LogBuilder:
    """Give a log of some files.

    Args:
        draw: hypothesis.
        hostile: also values that make a broker fail, and absurd offsets and times.
        damage: also records that are none.
        lies: also records whose PHYSICALOFFSET is not their place.
        halves: also records whose TOTALSIZE is not what their parts make.
        most: messages at most.
    """
    log = LogBuilder(FILE_SIZE, draw(st.sampled_from([0, FILE_SIZE * 3])))
    counters: dict[tuple[bytes, int], int] = {}
    for _ in range(draw(st.integers(1, most))):
        if damage and draw(st.integers(0, 5)) == 0:
            log.add_raw(draw(damaged_records()))
            continue
        fields = draw(messages(hostile=hostile))
        if draw(st.booleans()):  # what a broker writes: one after the other
            key = fields["topic"], fields["queueId"]
            counters[key] = counters.get(key, fields["queueOffset"] - 1) + 1
            fields["queueOffset"] = min(max(counters[key], 0), _LONGEST)
        if lies and draw(st.integers(0, 4)) == 0:
            fields["physicalOffset"] = draw(st.integers(-5, 3 * FILE_SIZE))
        if halves and draw(st.integers(0, 4)) == 0:
            size = len(record(0, **fields))
            fields["totalSize"] = size + draw(st.one_of(st.integers(-60, 60), st.integers(-300, 2000)))
        log.add(**fields)
    return log
