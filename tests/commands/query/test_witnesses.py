"""A query says what the rest of the store says of a message that it shows, or does not find."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import rmqtool
from rmqtool.account.lost import LostReason
from rmqtool.findings import codes
from tests.commands.rebuilding import Listener
from tests.damage.cases import load_cases
from tests.damage.running import damaged_copy
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

_HOLE = f"{16384:020d}"


def test_properties_that_unit_and_index_contradict_are_damage(tmp_path: Path) -> None:
    """The case that verify calls CL-PROPERTIES: tags and keys were changed after they were dispatched."""
    (case,) = (one for one in load_cases() if one.name == "tags and keys changed")
    store = rmqtool.open(damaged_copy(case, tmp_path))
    place = next(
        one.physical_offset for one in store.verify(jobs=1).findings if one.code is codes.CL_PROPERTIES
    )
    listener = Listener()
    answer = store.query(offset=place, progress=listener)
    (shown,) = answer
    assert shown.damage == [codes.CL_PROPERTIES.code]
    assert int(answer.findings.exit_status()) == 5
    assert any("damaged: compare with a replica" in one for one in listener.warnings)


def test_sound_messages_are_contradicted_by_nothing() -> None:
    for name in ("plain-5.3.3", "ext-5.5.1", "delay-4.9.8", "transaction-5.3.3", "tags-5.4.0", "lmq-5.5.1"):
        store = rmqtool.open(fixture(name))
        for message in store.messages():
            answer = store.query(offset=message.physical_offset)
            assert [one.damage for one in answer] == [[]]


def test_a_place_in_a_queue_that_is_gone_is_said_to_be_lost(tmp_path: Path) -> None:
    """By its unit; without the queue, by the messages before and after it."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    file = root / "commitlog" / _HOLE
    file.write_bytes(file.read_bytes()[:4096] + bytes(4096))
    told: list[rmqtool.LostMessage] = []
    rmqtool.open(root).rebuild(dry_run=True, lost=told.append, jobs=1)
    lost = next(one for one in told if one.reason is LostReason.GONE)
    assert lost.topic is not None
    for _ in ("with its queue", "without"):
        listener = Listener()
        answer = rmqtool.open(root).query(
            topic=lost.topic, queue=lost.queue_id, queue_offset=lost.queue_offset, progress=listener
        )
        assert list(answer) == []
        assert int(answer.findings.exit_status()) == 5
        assert any("lost from the log" in one and f"#{lost.queue_offset}" in one for one in listener.warnings)
        assert codes.CL_LOST.code in answer.findings.counts
        shutil.rmtree(root / "consumequeue" / lost.topic, ignore_errors=True)
    sound = rmqtool.open(root).query(topic=lost.topic, queue=lost.queue_id, queue_offset=10_000)
    assert (list(sound), codes.CL_LOST.code in sound.findings.counts) == ([], False)


def test_explanations_begin_with_what_decides() -> None:
    store = rmqtool.open(fixture("plain-5.3.3"))
    answer = store.query(topic="TopicTest", key="order-140", explain=True)
    assert len(list(answer)) == 1
    reasons = [step.reason.value for step in answer.steps]
    assert reasons.index("found") < min(reasons.index(one) for one in ("file-walked", "slot-empty"))
