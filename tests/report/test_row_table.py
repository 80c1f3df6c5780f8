"""What the manual says of rows is what is printed of real stores: names, their order, and JSON types."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from rmqtool.cli import main
from tests.house.manual_tables import row_table
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Sequence

_PYTHON_TYPES = {
    "integer": int,
    "number": float,
    "string": str,
    "hex string": str,
    "boolean": bool,
    "null": type(None),
    "object": dict,
    "any": object,
    "array of strings": list,
    "array of integers": list,
    "array of objects": list,
}
_BATCHES, _EXT = (str(fixture(name)) for name in ("batchcq-5.3.3", "ext-5.3.3"))
_DELAYED, _PLAIN = (str(fixture(name)) for name in ("delay-5.3.3", "plain-5.3.3"))
_EXPIRED = str(fixture("expiredhead-5.3.3"))


def documented() -> dict[str, dict[str, tuple[type, ...]]]:
    """Return the members of each type of row, and what they may be."""
    found = {}
    for kind, members in re.findall(r"^\| `(\S+)` \| [\w, -]+ \| (.*) \|$", row_table(), re.MULTILINE):
        pairs = re.findall(r"`(\w+)` ([^,`]+)", members)
        found[kind] = {name: tuple(_PYTHON_TYPES[one] for one in said.split(" or ")) for name, said in pairs}
    return found


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (("dump", _BATCHES, "--unpack-batches", "--body", "text"), "message inner-message batch-unit unit"),
        (("dump", _EXT, "--slots", "--chains"), "message ext-unit unit slot item chain index-header blank"),
        (("dump", _DELAYED, "--hex"), "message bytes damage checkpoint config-entry"),
        (("dump", _EXPIRED), "message unit"),
        (("dump", "--layout"), "field"),
        (("query", _PLAIN, "-t", "TopicTest", "-k", "hot"), "message"),
        (("query", _PLAIN, _EXPIRED, "-t", "TopicTest", "-k", "hot"), "copy"),
        (("offsets", _DELAYED, "--delayed"), "delayed"),
        (("decode-id", "C0A80114E24018B4AAC24AF57400002A"), "id"),
        (("offsets", _PLAIN), "offset"),
        (("topics", _PLAIN), "topic"),
        (("diff", _PLAIN, _DELAYED), "difference"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value[0],
)
def test_rows_are_as_documented(words: Sequence[str], kinds: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([*words, "--format", "ndjson"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    shapes, met = documented(), set()
    for one in found:
        kind = one.pop("type")
        if kind == "summary":
            continue
        assert list(one) == list(shapes[kind])
        assert [name for name, value in one.items() if not isinstance(value, shapes[kind][name])] == []
        met.add(kind)
    assert met >= set(kinds.split())
