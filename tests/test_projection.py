"""Dataclasses as JSON: the rule, and the table of what is otherwise."""

from __future__ import annotations

import ast
import inspect
import json
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ClassVar

import pytest

import rmqtool
from rmqtool import projection, rows
from rmqtool.check import Examined, VerifyReport
from rmqtool.columns import ColumnFile
from rmqtool.commands.carve import CarveReport
from rmqtool.commands.export import ExportReport
from rmqtool.commands.fleet import StoreOutcome
from rmqtool.commands.info import StoreSummary
from rmqtool.commands.rebuild import ResultOptions
from rmqtool.commands.rebuild.report import RebuildReport
from rmqtool.commands.repair import RepairReport
from rmqtool.commands.topics import TopicsReport
from rmqtool.dispatch.index_keys import TagRule
from rmqtool.doctor import ConfigCopy
from rmqtool.doctor.choices import ConfigChoice
from rmqtool.findings import Finding, FindingCode, FindingLog, StoreFinding, codes
from rmqtool.lookup.context import Reason, Step
from rmqtool.outcomes import Outcome
from rmqtool.projection import columns_of, field_types, json_object, json_value
from rmqtool.recovery import Prediction
from rmqtool.reput.damage import SkippedRange, UnreachableRange
from rmqtool.rows.messages import MessageFilter
from rmqtool.store import Setting

PACKAGE = Path(rmqtool.__file__).parent
OTHERWISE = [
    *(rows.Damage, ColumnFile, StoreFinding),
    *(
        Finding,
        FindingCode,
        Outcome,
        Prediction,
        RebuildReport,
        Setting,
        SkippedRange,
        Step,
        TagRule,
        UnreachableRange,
    ),
    *(CarveReport, ConfigChoice, ConfigCopy, ExportReport, RepairReport, StoreOutcome, VerifyReport),
    *(MessageFilter, ResultOptions, StoreSummary, TopicsReport),
]


class _Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class _Inner:
    stored_at_ms: int


@dataclass(frozen=True)
class _Outer:
    type: ClassVar = "outer"
    raw_bytes: bytes
    colour: _Colour
    inner: tuple[_Inner, ...]
    nothing: _Inner | None = None


def test_names_are_camel_case_and_values_are_those_of_json() -> None:
    value = _Outer(b"\x01\xff", _Colour.RED, (_Inner(5),))
    assert json_object(value) == {
        "type": "outer",
        "rawBytes": "01ff",
        "colour": "red",
        "inner": [{"storedAt": 5}],
        "nothing": None,
    }
    assert columns_of(_Outer) == ("type", "rawBytes", "colour", "inner", "nothing")
    with pytest.raises(TypeError, match="no form in JSON"):
        json_value(1j)


def test_a_body_is_shown_as_asked_for() -> None:
    @dataclass(frozen=True)
    class Bodied:
        body: bytes

    assert json_object(Bodied(b"x")) == {"body": "78", "bodyEncoding": "hex"}
    assert json_object(Bodied(b"x"), lambda _: (None, None)) == {"body": None, "bodyEncoding": None}


def test_members_of_a_step_are_its_facts() -> None:
    step = Step(Reason.FOUND, "a message", facts={"item": 3})
    assert json_object(step) == {
        "type": "explain",
        "reason": "found",
        "file": None,
        "message": "a message",
        "item": 3,
    }


def test_what_is_empty_may_be_left_out() -> None:
    log = FindingLog()
    log.add(Finding(code=codes.CL_CRC), count=3)
    whole = json_object(VerifyReport("/data", 1, log, Examined()))
    assert "interrupted" not in whole
    assert (whole["schema"], whole["counts"], whole["exitStatus"]) == ("rmqtool.verify/2", {"CL-CRC": 3}, 5)
    stopped = VerifyReport("/data", 1, log, Examined(), interrupted="log")
    assert json_object(stopped)["interrupted"] == "log"
    assert json.loads(json.dumps(json_object(stopped)))["examined"]["consumeQueues"] == 0


@pytest.mark.parametrize("kind", OTHERWISE, ids=lambda kind: kind.__name__)
def test_the_table_names_what_is_there(kind: type) -> None:
    known = field_types(kind).keys() | {name for name, _ in inspect.getmembers_static(kind)}
    for word in projection._OTHERWISE[kind.__name__].split():
        path = word.strip("?*").rpartition("=")[2]
        assert path.split(".")[0] in known


@pytest.mark.full
def test_every_class_of_the_table_is_one_class() -> None:
    """It goes by their names; enums, as that of a walk, have no members to name."""
    assert projection._OTHERWISE.keys() == {kind.__name__ for kind in OTHERWISE}
    trees = (ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py"))
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names = Counter(one.name for one in classes if not any("Enum" in ast.unparse(base) for base in one.bases))
    assert {kind.__name__: names[kind.__name__] for kind in OTHERWISE} == dict.fromkeys(
        projection._OTHERWISE, 1
    )


def test_a_choice_without_content_is_none() -> None:
    with pytest.raises(TypeError, match="document"):
        ConfigChoice("file", "nothing was given")  # type: ignore[call-arg]
