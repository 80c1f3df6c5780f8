"""The catalogue is complete, legal and append-only."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from dataclasses import fields
from pathlib import Path

import pytest

from rmqtool.errors import UsageError
from rmqtool.findings import CATALOG, Severity, Structure, code_of, codes

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).with_name("codes.txt").read_text("ascii").split()


def test_every_code_that_the_source_names_is_in_the_catalogue() -> None:
    """The checker of types takes any name of ``codes``; an id stands in the catalogue once."""
    names = {code.replace("-", "_") for code in CATALOG}
    for path in (ROOT / "rmqtool").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "codes":
                assert node.attr in names or node.attr.islower(), f"{path}:{node.lineno}"
    ids = re.findall(
        r"^([A-Z]+-\S+) \w+ \S+$", (ROOT / "rmqtool/findings/catalog.txt").read_text(), re.MULTILINE
    )
    assert ids == list(CATALOG)


def test_ids_are_append_only() -> None:
    """Baselines and scripts of users name the ids: none may disappear, a new one is recorded."""
    assert sorted(CATALOG) == sorted(RECORDED)


def test_every_heading_says_something() -> None:
    for entry in CATALOG.values():
        for field in fields(entry):
            assert str(getattr(entry, field.name)).strip()
        assert entry.severity in Severity
        assert entry.structure in Structure
        assert re.fullmatch(r"[A-Z]{2,3}(-[A-Z]+)+", entry.code)
        assert entry.meaning.endswith(".")
        assert entry.broker_effect.endswith(".")
        assert entry.remedy.endswith(".")
        assert len(entry.title) <= 50


def test_origin_is_a_java_name_or_says_that_there_is_none() -> None:
    for entry in CATALOG.values():
        assert re.match(r"[A-Z]\w+[#.,( ]?", entry.origin) or entry.origin.startswith("(none")


def test_only_the_log_counts_as_the_log() -> None:
    """Exit status 5 is for damage that nothing can rebuild."""
    of_the_log = {entry.code for entry in CATALOG.values() if entry.structure is Structure.COMMITLOG}
    assert of_the_log == {
        code for code in CATALOG if code.startswith(("CL-", "DL-", "ST-NO-COMMITLOG")) and code != "DL-UNIT"
    }


def test_an_entry_stays_itself_on_the_way_from_another_process() -> None:
    """Verify compares codes by ``is``, those that Spark's workers send back as well."""
    for entry in CATALOG.values():
        assert pickle.loads(pickle.dumps(entry)) is entry
        assert copy.deepcopy(entry) is entry


def test_look_up_takes_any_case() -> None:
    assert code_of("cl-crc") is codes.CL_CRC


def test_look_up_of_nothing_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="CL-NOTHING"):
        code_of("CL-NOTHING")
