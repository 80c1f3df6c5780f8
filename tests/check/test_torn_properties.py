"""A record whose last page never reached a full disk: nobody encoded that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.commands.query import Query, QueryRequest
from rmqtool.commands.verify import roots_of
from rmqtool.errors import ExitStatus
from rmqtool.store import open_store
from tests.commands.rebuilding import Listener, rebuild_store
from tests.damage.edits import edited
from tests.damage.running import ONE_THREAD, verified
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path


def test_zeros_for_properties_are_told_as_a_tear(tmp_path: Path) -> None:
    tear = {"record": 30, "field": "properties", "zero": 0}
    root = edited(fixture("plain-5.3.3"), tmp_path / "store", [tear])
    (found,) = [one for one in verified(root).findings if one.code.code == "CL-PROPERTIES"]
    assert "compare with a replica: the record is torn, as by a full disk" in found.code.remedy
    assert "the sender encodes" not in found.code.remedy
    assert verified(root).exit_status() == ExitStatus.LOG_DAMAGED


def test_what_points_to_changed_properties_follows_from_them(tmp_path: Path) -> None:
    """Items of the old keys are no sign of another record that lay there."""
    tear = {"record": 30, "field": "properties", "plus": 60, "zero": 20}
    report = verified(edited(fixture("plain-5.3.3"), tmp_path / "store", [tear]))
    explained = roots_of(report.findings).explained["CL-PROPERTIES"]
    assert explained["CQ-SIZE-TAG"] + explained["IX-WRONG"] == report.findings.counts["IX-WRONG"] + 1
    assert not any("another record" in one.message for one in report.findings)


def test_a_query_warns_of_a_torn_message(tmp_path: Path) -> None:
    """Zeros for a part of the text are enough: what stands before them looks sound."""
    tear = {"record": 30, "field": "properties", "plus": 60, "zero": 20}
    root, listener = edited(fixture("plain-5.3.3"), tmp_path / "store", [tear]), Listener()
    (row,) = Query(open_store(root), QueryRequest(offset=9700), listener).run()
    assert row.damage == ["CL-PROPERTIES"]
    assert any("damaged: compare with a replica" in warning for warning in listener.warnings)


def test_a_query_of_a_shared_key_names_the_torn_message_that_lost_it(tmp_path: Path) -> None:
    """Others with the key are found, and hide nothing."""
    tear = {"record": 30, "field": "properties", "plus": 60, "zero": 20}
    whole = next(
        one for one in rmqtool.open(fixture("plain-5.3.3")).messages() if one.physical_offset == 9700
    )
    root, listener = edited(fixture("plain-5.3.3"), tmp_path / "store", [tear]), Listener()
    (key,) = [one for one in whole.keys if one == "hot"]
    query = Query(open_store(root), QueryRequest(topic=whole.topic, key=key), listener)
    assert 9700 not in {one.physical_offset for one in query.run()}
    warned = [one for one in listener.warnings if "may be the one" in one]
    assert warned == ["the message at 9700 may be the one: show it with --offset 9700"]
    assert query.findings.exit_status() == ExitStatus.LOG_DAMAGED


CHANGED: list[dict[str, Any]] = [
    {"record": 30, "property": "KEYS", "text": "h0t"},
    {"record": 30, "property": "TAGS", "text": "XagA"},
]

KEYLESS: list[dict[str, Any]] = [
    {"record": 30, "field": "properties", "plus": 0, "text": "XNIQ_KEY"},
    {"record": 30, "field": "properties", "plus": 62, "text": "XEYS"},
]
SEPARATOR = {"record": 30, "field": "properties", "plus": 8, "write": "02"}


@pytest.mark.parametrize(
    ("edits", "is_damage"),
    [
        ([{"record": 30, "property": "KEYS", "zero": 0}], True),  # the tags are as they were
        ([{"record": 30, "property": "UNIQ_KEY", "plus": 8, "zero": 4}], True),
        ([{"record": 30, "property": "WAIT", "zero": 0}], True),  # which nothing else has
        ([SEPARATOR], True),
        ([*KEYLESS, CHANGED[1]], True),  # items lead to a record that has no key now
        (KEYLESS, False),
        (CHANGED, True),
        (CHANGED[1:], False),  # the unit alone says so, and can have rotted itself
        (CHANGED[:1], False),
        ([*CHANGED, {"file": "index", "delete": True}], False),
        ([*CHANGED, {"file": "consumequeue/TopicTest/2", "delete": True}], False),
        ([*CHANGED, {"record": 50, "field": "queueOffset", "plus": 0, "flip": 1}], True),
    ],
)
def test_verify_rebuild_and_salvage_name_the_same_changed_properties(
    edits: list[dict[str, Any]], is_damage: bool, tmp_path: Path
) -> None:
    """Also where the queues are not the same as those that are made."""
    root = edited(fixture("plain-5.3.3"), tmp_path / "store", edits)
    report = rebuild_store(root, root / "broker.conf", None, engine=ONE_THREAD, dry_run=True)
    judged = verified(root)
    told = [
        [(one.physical_offset, one.message) for one in findings if one.code.code == "CL-PROPERTIES"]
        for findings in (judged.findings, report.findings)
    ]
    assert told[0] == told[1]
    assert bool(told[0]) == is_damage
    lost = rmqtool.open(root).plan_salvage(jobs=1).lost
    salvaged = {(one.physical_offset, one.cause, one.is_there) for one in lost}
    assert ((9700, "properties", True) in salvaged) == is_damage
    if is_damage:
        assert report.exit_status() == judged.exit_status() == ExitStatus.LOG_DAMAGED
