"""Tag items: which messages have one, under which hash, and where it stands, as 5.4.0 and 5.5.1 put them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.dispatch.index_keys import ALL_TAG_ITEMS, NO_TAG_ITEMS, TagItems, index_seeds
from rmqtool.errors import UsageError
from rmqtool.formats import message
from rmqtool.formats.index import HEADER, ITEM, item_position, slot_position
from rmqtool.javacompat import index_key_hash, string_hash, tag_key
from rmqtool.releases import RELEASES
from tests.broker_model.reput import Sizes
from tests.builders import POLICY_5, POLICY_5_5, LogBuilder, build, memory_log, properties
from tests.dispatch.test_dispatch import SIZE, one, scanned
from tests.scan.log_builder import STORE_TIMESTAMP_MS, record

SLOTS = 5_000_000
MULTI_TAGS_FLAG = 0x2
VECTORS = [
    # topic, tags, hashCode, index hash, slot, position of the slot: made by 5.5.1
    ("TopicTest", "TagA", 1311325016, 1311325016, 1325016, 5300104),
    ("TopicTest", "TAG_A || TAG_B", -1173104366, 1173104366, 3104366, 12417504),
    ("TopicTest", " ", 85104239, 85104239, 104239, 416996),
    ("TopicTest", "a#b", 180858703, 180858703, 858703, 3434852),
    ("TopicTest", "支付成功", 2100598569, 2100598569, 598569, 2394316),
    ("TopicTest", "\U0001f600", -1654963980, 1654963980, 4963980, 19855960),
    ("SCHEDULE_TOPIC_XXXX", "TagA", -1698062367, 1698062367, 3062367, 12249508),
    ("RMQ_SYS_TRANS_OP_HALF_TOPIC", "d", -102833471, 102833471, 2833471, 11333924),
    ("TopicTest", "kjatege", -(1 << 31), 0, 0, 40),
]


@pytest.mark.parametrize(("topic", "tags", "code", "key_hash", "slot", "position"), VECTORS)
def test_hashes_are_javas(topic: str, tags: str, code: int, key_hash: int, slot: int, position: int) -> None:
    """In plain Python, from the seed, and in the kernel."""
    assert string_hash(tags, index_seeds(topic.encode())[1]) == code
    assert index_key_hash(topic, tag_key(tags)) == key_hash
    assert (key_hash % SLOTS, slot_position(key_hash % SLOTS)) == (slot, position)
    _, _, keys = one(POLICY_5_5, topic=topic.encode(), properties=properties({"TAGS": tags}))
    assert keys == [(key_hash, 0)]


def hashes(*keys: str) -> list[int]:
    return [index_key_hash("TopicTest", key) for key in keys]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"properties": b""}, []),
        ({"properties": properties({"KEYS": "a b", "UNIQ_KEY": "u"})}, ["u", "a", "b"]),
        ({"properties": properties({"TAGS": "", "KEYS": "a"})}, ["a"]),
        ({"properties": properties({"TAGS": "t"})}, ["T#t"]),
        ({"properties": properties({"TAGS": "t", "KEYS": "a b", "UNIQ_KEY": "u"})}, ["u", "a", "b", "T#t"]),
        ({"properties": properties({"TAGS": "a || b", "KEYS": "T#a || b"})}, ["T#a", "||", "b", "T#a || b"]),
        ({"properties": properties({"TAGS": "t"}), "sysFlag": message.TRANSACTION_PREPARED}, ["T#t"]),
        ({"properties": properties({"TAGS": "t"}), "sysFlag": message.TRANSACTION_COMMIT}, ["T#t"]),
        ({"properties": properties({"TAGS": "t"}), "sysFlag": message.TRANSACTION_ROLLBACK}, []),
        ({"properties": properties({"TAGS": "t"}), "sysFlag": MULTI_TAGS_FLAG}, ["T#t"]),
    ],
)
def test_which_messages_have_one(fields: dict[str, Any], expected: list[str]) -> None:
    """The last of a message's items, or the only one; before 5.4.0 there is none."""
    _, _, keys = one(POLICY_5_5, **fields)
    assert [key_hash for key_hash, _ in keys] == hashes(*expected)
    _, _, keys = one(POLICY_5._replace(release=RELEASES["5.3.4"]), **fields)
    keys_alone = expected[:-1] if b"TAGS\x01" in fields["properties"] and expected[-1:] != ["a"] else expected
    assert [key_hash for key_hash, _ in keys] == hashes(*keys_alone)


def test_a_message_with_nothing_but_tags_moves_the_end_and_is_idle_without() -> None:
    """``endPhyOffset`` goes with it from 5.4.0 on; before, it only makes the next file."""
    log = LogBuilder(SIZE)
    log.add(properties=b"KEYS\x01k")
    place = log.add(properties=b"TAGS\x01t", queueOffset=1)
    tagged, _, keys = scanned(log, POLICY_5_5)
    assert (tagged.end_phy_offset, tagged.block.count("keyless"), len(keys)) == (place, 0, 2)
    plain, _, keys = scanned(log, POLICY_5)
    assert (plain.end_phy_offset, plain.block.count("keyless"), len(keys)) == (0, 1, 1)


def test_brokers_that_took_turns_leave_items_by_turns() -> None:
    log = LogBuilder(SIZE)
    places = [
        log.add(properties=properties({"TAGS": f"t{number}"}), queueOffset=number) for number in range(6)
    ]
    turns = TagItems((places[1], places[3], places[5]))
    _, _, keys = scanned(log, POLICY_5._replace(tag_items=turns))
    assert [place for _, place in keys] == [places[1], places[2], places[5]]
    assert scanned(log, POLICY_5_5._replace(tag_items=NO_TAG_ITEMS))[2] == []
    assert len(scanned(log, POLICY_5._replace(tag_items=ALL_TAG_ITEMS))[2]) == 6


def test_the_golden_index_of_5_5_1() -> None:
    """Header and items of a file of 5.5.1; one key has the hash of a tag item and shares its chain."""
    first = properties({"UNIQ_KEY": "C0A80114E24018B4AAC24AF574000020", "KEYS": "OrderID188", "TAGS": "TagA"})
    second = properties({"UNIQ_KEY": "ckbvcG8", "KEYS": "caa9c1Y T#TagA", "TAGS": "TagB"})
    log = LogBuilder(4096)
    body = bytes(230 - len(record(0, body=b"", properties=first)))
    log.add(body=body, properties=first)
    log.add(properties=second, storeTimestamp=STORE_TIMESTAMP_MS + 7389, queueOffset=1)
    built = build(memory_log(log.files()), 4096, POLICY_5_5, sizes=Sizes(slots=50, items=20))
    (data,) = built.index
    header = HEADER.parse(data)
    assert (header.hashSlotCount, header.indexCount, header.endPhyOffset) == (6, 8, 230)
    items = [ITEM.parse(data[item_position(50, number) :]) for number in range(1, 8)]
    assert [(item.keyHash, item.physicalOffset, item.timeDiff, item.previous) for item in items] == [
        (1544196558, 0, 0, 0),
        (1231271670, 0, 0, 0),
        (1311325016, 0, 0, 0),
        (203906038, 230, 7, 0),
        (85126893, 230, 7, 0),
        (1311325016, 230, 7, 3),
        (1311325017, 230, 7, 0),
    ]


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("all", (-(1 << 63),)),
        ("none", ()),
        ("from:0", (0,)),
        ("from:7706", (7706,)),
        ("to:5", (-(1 << 63), 5)),
        ("from:5,to:7,from:9", (5, 7, 9)),
        ("to:5,from:7", (-(1 << 63), 5, 7)),
    ],
)
def test_a_rule_reads_as_it_is_written(text: str, turns: tuple[int, ...]) -> None:
    assert TagItems.parse(text).turns == turns
    assert str(TagItems(turns)) == text


@given(st.sets(st.integers(0, (1 << 63) - 1)), st.booleans())
def test_every_rule_can_be_written(turns: set[int], begins: bool) -> None:
    rule = TagItems((*(ALL_TAG_ITEMS.turns if begins else ()), *sorted(turns)))
    assert TagItems.parse(str(rule)) == rule


@pytest.mark.parametrize(
    "text",
    ["", "some", "from:", "from:-1", "from:x", "from:5,from:7", "from:7,to:5", "from:5,to:5", "all,to:5"],
)
def test_what_is_no_rule_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="give auto, all, none or from:PHY"):
        TagItems.parse(text)
