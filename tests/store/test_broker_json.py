"""The broker's JSON side files, bare integer keys included."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.io import location_of
from rmqtool.store.broker_json import ConfigFileError, batch_queue_topics, load_broker_json, parse_broker_json

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"offsetTable":{"T@G":{0:12,1:9}}}', {"offsetTable": {"T@G": {"0": 12, "1": 9}}}),
        ("{ 0 : 1 ,\n\t12 :{-3:4}}", {"0": 1, "12": {"-3": 4}}),
        ('{"0":1}', {"0": 1}),
        ('{"a":"{0:1,2:3}","b":"\\",5:6"}', {"a": "{0:1,2:3}", "b": '",5:6'}),
        ("[1,2,{3:[4,5]}]", [1, 2, {"3": [4, 5]}]),
    ],
)
def test_bare_integer_keys(text: str, expected: object) -> None:
    assert parse_broker_json(text) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_ordinary_json_is_read_as_it_is(value: object) -> None:
    assert parse_broker_json(json.dumps(value)) == value


@given(st.text())
def test_other_text_is_refused_or_read(text: str) -> None:
    with suppress(ValueError):
        assert json.dumps(parse_broker_json(text))


def test_absurd_nesting_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nested|Expecting"):
        parse_broker_json("[" * 200_000)


def test_the_backup_serves_where_the_file_does_not(tmp_path: Path) -> None:
    """`ConfigManager#load`."""
    path, backup = tmp_path / "topics.json", tmp_path / "topics.json.bak"
    assert load_broker_json(location_of(path)) is None
    backup.write_text('{"a":1}')
    for text in (None, "", '{"a":'):
        if text is not None:
            path.write_text(text)
        assert load_broker_json(location_of(path)) == {"a": 1}
    backup.unlink()
    with pytest.raises(ConfigFileError, match=r"topics\.json"):
        load_broker_json(location_of(path))


def test_a_fifo_is_no_config(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "topics.json")
    with pytest.raises(ConfigFileError, match="FIFO"):
        load_broker_json(location_of(tmp_path / "topics.json"))


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (None, set()),
        ([], set()),
        ({"topicConfigTable": 5}, set()),
        ({"topicConfigTable": {"a": None, "b": {"attributes": 1}, "c": {}}}, set()),
        (
            {"topicConfigTable": {"a": {"attributes": {"queue.type": "BatchCQ"}}, "b": {"attributes": {}}}},
            {"a"},
        ),
        ({"topicConfigTable": {"a": {"attributes": {"queue.type": "SimpleCQ"}}}}, set()),
    ],
)
def test_topics_with_batch_queues(topics: object, expected: set[str]) -> None:
    assert batch_queue_topics(topics) == expected
