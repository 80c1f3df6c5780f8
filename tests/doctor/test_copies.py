"""What became of a copy, and the whole entries of one that was cut anywhere."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.doctor import CONFIG_KINDS, CopyState, entries_of, read_bytes, whole_prefix
from rmqtool.store.broker_json import parse_broker_json

OFFSETS, TOPICS = CONFIG_KINDS["consumerOffset.json"], CONFIG_KINDS["topics.json"]
OLD = '{\n\t"offsetTable":{\n\t\t"T@G":{0:12,1:9\n\t\t},\n\t\t"%RETRY%G@G":{0:3\n\t\t}\n\t}\n}'
NEW = '{"dataVersion":{"counter":7},"offsetTable":{"T@G":{\n0:12,\n1:9\n},"Ü@G":{0:3}}}'


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (b"", CopyState.EMPTY),
        (b" \n\t", CopyState.SPACES),
        (b"[]", CopyState.SPACES),
        (b"null", CopyState.VOID),
        (bytes(100), CopyState.ZEROS),
        (OLD.encode(), CopyState.SOUND),
        (OLD.encode() + bytes(50), CopyState.SOUND),
        (bytes(8) + OLD.encode(), CopyState.SOUND),
        (("\ufeff" + OLD).encode(), CopyState.SOUND),
        (OLD.encode() + b"}", CopyState.TRAILED),
        (OLD.encode() + b"3\n\t\t}\n\t}\n}", CopyState.TRAILED),
        (OLD.encode() + b"\n" + NEW.encode("utf-8")[-20:], CopyState.TRAILED),
        (OLD.encode()[:-1] + b",}", CopyState.CUT),
        (b"<nil>", CopyState.BROKEN),
        (OLD.encode()[:50] + bytes(40), CopyState.CUT),
        (b'{"offsetTable":5}', CopyState.BROKEN),
        (b'{"offsetTable":{"T@G":{"x":5}}}', CopyState.BROKEN),
        (b'{"offsetTable":{"T@G":null}}', CopyState.BROKEN),
        (b'"x"', CopyState.BROKEN),
        (b"\x93\xfe\x01" * 30, CopyState.BROKEN),
        (b"[" * 100_000, CopyState.BROKEN),
        (b'{"offsetTable":' + b'{"a":' * 100_000, CopyState.BROKEN),
    ],
)
def test_states(data: bytes, state: CopyState) -> None:
    """As the real ``ConfigManager`` sees them, see `tests.broker.test_configs`."""
    assert read_bytes(data, OFFSETS)[0] is state


def test_bytes_of_another_charset_are_kept() -> None:
    data = '{"offsetTable":{"主题@G":{0:1}}}'.encode("gbk")
    state, document = read_bytes(data, OFFSETS)
    assert state is CopyState.SOUND
    (key,) = document["offsetTable"]
    assert key.encode("utf-8", "surrogateescape") == "主题@G".encode("gbk")


@pytest.mark.parametrize("text", [OLD, NEW])
def test_every_cut_keeps_what_was_whole(text: str) -> None:
    """Of maps of numbers each number that something follows; never one that may have had more digits."""
    whole = dict(_numbers(text))
    kept = -1
    for end in range(1, len(text)):
        state, document = read_bytes(text[:end].encode("utf-8"), OFFSETS)
        assert state in {CopyState.CUT, CopyState.BROKEN}
        found = dict(_numbers(json.dumps(document)))
        assert found.items() <= whole.items()
        assert len(found) >= kept
        kept = len(found)
    assert kept == len(whole)


def test_entries_are_kept_whole() -> None:
    """Half a topic would get the default for the rest of its settings."""
    text = '{"topicConfigTable":{"A":{"perm":6,"readQueueNums":8},"B":{"perm":6,"readQueueNums":4'
    state, document = read_bytes(text.encode(), TOPICS)
    assert (state, [key for _, key, _ in entries_of(document, TOPICS)]) == (CopyState.CUT, ["A"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.full
@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4), st.integers(1, 3), st.data())
def test_any_cut_of_any_object_parses_to_a_part_of_it(
    value: dict[str, object], depth: int, data: st.DataObject
) -> None:
    text = json.dumps(value, indent=data.draw(st.sampled_from([None, 1])))
    prefix = whole_prefix(text[: data.draw(st.integers(0, len(text)))], depth)
    if prefix:
        _assert_part(parse_broker_json(prefix), value)


def _assert_part(part: object, whole: object) -> None:
    if isinstance(part, dict):
        assert isinstance(whole, dict)
        for key, one in part.items():
            _assert_part(one, whole[key])
    elif isinstance(part, list):
        assert isinstance(whole, list)
        for mine, other in zip(part, whole, strict=False):
            _assert_part(mine, other)
    else:
        assert part == whole


def _numbers(text: str) -> list[tuple[tuple[str, str], int]]:
    document = parse_broker_json(text)
    assert isinstance(document, dict)
    table = document.get("offsetTable", {})
    return [((key, inner), number) for key, value in table.items() for inner, number in value.items()]
