"""The message schema against golden records of real brokers, and against the fast readers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats import layout, message
from tests.formats.test_decoders import snake_case

GOLDEN = {
    "4.9.3 V1, IPv4": (
        "000000acdaa320a742d1e77800000003000000000000000000000000000000000000000000000000000001802ba9f4000a01"
        "020300003039000001a1fb7ec0250a09080700002a9f00000000000000000000000000000005787878787809546f70696354"
        "65737400434b455953014f72646572494431383802554e49515f4b4559014330413830313134453234303138423441414332"
        "34414635373430303030323002544147530154616741"
    ),
    "4.9.3 V1, both hosts IPv6": (
        "00000083daa320a71c9bea0a00000000000000000000000000000000000000000000000000000030000001802ba9f4002001"
        "0db800000000000000000000000100003039000001a1fb7ec90c20010db800000000000000000000000200002a9f00000000"
        "000000000000000000000003787878025436000b554e49515f4b4559014b30"
    ),
    "5.3.3 V2": (
        "000000efdaa320ab1c9bea0a00000000000000000000000000000000000000000000000000000000000001802ba9f4000a01"
        "020300003039000001a1fb7ed2a90a09080700002a9f00000000000000000000000000000003787878008425524554525925"
        + "67" * 125
        + "000c554e49515f4b4559014b3002"
    ),
}
EXPECTED = {
    "4.9.3 V1, IPv4": (message.MAGIC_V1, b"TopicTest", b"xxxxx", 3, 1795220750373),
    "4.9.3 V1, both hosts IPv6": (message.MAGIC_V1, b"T6", b"xxx", 0, 1795220752652),
    "5.3.3 V2": (message.MAGIC_V2, b"%RETRY%" + b"g" * 125, b"xxx", 0, 1795220755113),
}

messages = st.fixed_dictionaries(
    {
        "totalSize": st.integers(-(2**31), 2**31 - 1),
        "magic": st.sampled_from([message.MAGIC_V1, message.MAGIC_V2]),
        "bodyCrc": st.integers(-(2**31), 2**31 - 1),
        "queueId": st.integers(-(2**31), 2**31 - 1),
        "flag": st.integers(-(2**31), 2**31 - 1),
        "queueOffset": st.integers(-(2**63), 2**63 - 1),
        "physicalOffset": st.integers(-(2**63), 2**63 - 1),
        "sysFlag": st.integers(-(2**31), 2**31 - 1),
        "bornTimestamp": st.integers(-(2**63), 2**63 - 1),
        "storeTimestamp": st.integers(-(2**63), 2**63 - 1),
        "reconsumeTimes": st.integers(-(2**31), 2**31 - 1),
        "preparedTransactionOffset": st.integers(-(2**63), 2**63 - 1),
        "body": st.binary(max_size=64),
        "topic": st.binary(max_size=127),
        "properties": st.binary(max_size=64),
    }
)


def with_hosts(fields: dict[str, Any]) -> dict[str, Any]:
    """Add hosts of the width that SYSFLAG asks for."""
    wide = fields["sysFlag"]
    born = 16 if wide & message.BORN_HOST_V6 else 4
    store = 16 if wide & message.STORE_HOST_V6 else 4
    return fields | {
        "bornHost": {"address": bytes(range(born)), "port": 12345},
        "storeHost": {"address": bytes(range(store)), "port": -1},
    }


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_record_parses_and_builds_back(name: str) -> None:
    data = bytes.fromhex(GOLDEN[name])
    record = message.MESSAGE.parse(data)
    observed = (record.magic, record.topic, record.body, record.queueId, record.storeTimestamp)
    assert observed == EXPECTED[name]
    assert record.totalSize == len(data)
    assert message.MESSAGE.build(record) == data


@given(messages)
def test_struct_reader_equals_construct(fields: dict[str, Any]) -> None:
    """Every field of the fixed part reads the same through construct and through ``decode_head``."""
    data = message.MESSAGE.build(with_hosts(fields))
    parsed = message.MESSAGE.parse(data)
    head = message.decode_head(b"\x00\x00\x00" + data, 3)
    assert head is not None
    hosts = {head.born_host: parsed.bornHost, head.store_host: parsed.storeHost}
    for raw, host in hosts.items():
        assert raw == host.address + host.port.to_bytes(4, "big", signed=True)
    for field in layout(message.HEAD, sysFlag=fields["sysFlag"]):
        if not field.name.endswith("Host"):
            assert getattr(head, snake_case(field.name, field.unit)) == parsed[field.name], field.name


@given(st.binary(max_size=112))
def test_head_reader_never_reads_past_the_bytes_at_hand(data: bytes) -> None:
    head = message.decode_head(data)
    if head is not None:
        assert len(data) >= message.HEAD_SIZES[message.host_variant(head.sys_flag)]


def test_smallest_record_is_the_size_formula() -> None:
    """91 bytes and the three variable parts: ``CommitLog#calMsgLength``."""
    fields = layout(message.MESSAGE, sysFlag=0)
    variable = {field.name: field for field in fields if field.size is None}
    assert set(variable) == {"body", "topicLength", "topic", "properties"}
    assert message.SMALLEST_RECORD == 91
    assert message.HEAD_SIZES == (88, 100, 100, 112)
