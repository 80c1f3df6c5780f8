"""Hashes of messages by the kernel, and by plain Python over decoded text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqtool.dispatch.hash_kernels import hash_messages
from rmqtool.dispatch.index_keys import item_keys
from rmqtool.javacompat import decode_utf8, index_key_hash, parse_properties, tags_hash
from rmqtool.releases import LENIENT
from rmqtool.scan.rows import rules_of
from rmqtool.scan.walk import SegmentWalk
from tests.builders import memory_segment
from tests.scan.log_builder import record

NAMES = st.sampled_from([b"KEYS", b"UNIQ_KEY", b"TAGS", b"WAIT"])
VALUES = st.one_of(st.binary(max_size=20), st.sampled_from([b"", b" ", b"a  b ", b"\xe6\x94\xaf", b"TagA"]))
PROPERTIES = st.lists(st.tuples(NAMES, VALUES), max_size=6)
TOPICS = st.one_of(st.binary(max_size=12), st.just("支付".encode()))


@given(st.lists(st.tuples(TOPICS, PROPERTIES), min_size=1, max_size=4))
def test_hashes_are_those_of_text(messages: list[tuple[bytes, list[tuple[bytes, bytes]]]]) -> None:
    log, wanted = b"", []
    for topic, pairs in messages:
        properties = b"\x02".join(b"%b\x01%b" % pair for pair in pairs)
        found, text = parse_properties(properties), decode_utf8(topic)
        if "TAGS" in found:
            wanted.append((len(log), tags_hash(found["TAGS"]), True))
        wanted += [(len(log), index_key_hash(text, key), False) for key in item_keys(found)]
        log += record(len(log), topic=topic, properties=properties)
    walk = SegmentWalk(memory_segment(log), rules_of(LENIENT))
    assert [
        (int(row["log_offset"]), int(row["code"]), bool(row["of_queue"]))
        for batch in walk.batches(0, len(log))
        for row in hash_messages(batch.buffer, batch.rows, batch.values)
    ] == wanted
