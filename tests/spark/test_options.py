"""What a reader is told."""

from __future__ import annotations

import pytest

from rmqtool.errors import UsageError
from rmqtool.projection import BodyMode
from rmqtool.spark.options import Mode, Table, options_of


@pytest.mark.parametrize("name", ["fromOffset", "from-offset", "from_offset", "FROMOFFSET"])
def test_names_are_those_of_the_command_line(name: str) -> None:
    assert options_of({"path": "a", name: "7"}).from_offset == 7


def test_options() -> None:
    found = options_of(
        {
            "paths": '["a", "b"]',
            "table": "Damage",
            "mode": "failFast",
            "begin": "2022-04-15T13:20:00Z",
            "queue": "3",
            "columns": "topic, tags",
            "body": "hex",
            "decompress": "true",
            "property": "maxHashSlotNum=5; storePathCommitLog=a,b",
        }
    )
    assert found.paths == ("a", "b")
    assert (found.table, found.mode, found.bodies) == (Table.DAMAGE, Mode.FAILFAST, BodyMode.HEX)
    assert (found.messages.begin_ms, found.messages.queue_id) == (1_650_028_800_000, 3)
    assert (found.columns, found.decompress) == (("topic", "tags"), True)
    assert found.properties == ("maxHashSlotNum=5", "storePathCommitLog=a,b")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "nothing to read: give the path of a store"),
        ({"path": "a", "topics": "x"}, r"no option 'topics'; did you mean topic\?"),
        ({"path": "a", "x": "x"}, "no option 'x'; there are path, table"),
        ({"path": "a", "queue": "x"}, "queue='x': give a number"),
        ({"path": "a", "splitBytes": "0"}, "splitBytes=0: must be at least 1"),
        ({"path": "a", "table": "x"}, "table='x': give one of messages"),
        ({"path": "a", "decompress": "1"}, "decompress='1': give true or false"),
    ],
)
def test_what_makes_no_sense_is_said(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        options_of(options)
