"""Offsets in config/ against the bounds of their queues."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import pytest

from rmqtool.check.side_files import check_offsets
from rmqtool.derived.positions import consumed_offsets
from rmqtool.findings import codes
from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.store import open_store
from tests.broker.stores import fixture_store
from tests.check.store_edits import EditedStore
from tests.store.fixture_stores import STORE_ROOTS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.check.store_edits import DemandCache


@pytest.fixture
def store(tmp_path: Path, demand_cache: DemandCache) -> EditedStore:
    """A copy of a store in which TopicTest/0 has 24 messages, from 0 on."""
    return EditedStore.copy("plain-5.3.3", tmp_path, demand_cache)


def findings(root: Path, name: str, text: str) -> list[tuple[str, int | None, object, object]]:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / name).write_text(text)
    log = check_offsets(open_store(root))
    return [(one.code.code, one.queue_id, one.expected, one.observed) for one in log]


@pytest.mark.few(8)
@pytest.mark.parametrize("root", STORE_ROOTS, ids=lambda root: root.name)
def test_offsets_of_real_stores_are_within_bounds(root: Path) -> None:
    """What a broker wrote about its own queues is right."""
    assert list(check_offsets(open_store(root))) == []


def test_offsets_ahead_are_named(store: EditedStore) -> None:
    """2181: the end of a queue is still inside; one more is not. Integer keys need no quotes."""
    text = '{"offsetTable":{"TopicTest@g":{0:24,1:26},"TopicTest@h":{0:25}}}'
    assert findings(store.root, "consumerOffset.json", text) == [
        ("OF-AHEAD", 1, 25, 26),
        ("OF-AHEAD", 0, 24, 25),
    ]
    (first, _) = check_offsets(open_store(store.root))
    assert "set the group's offset of that queue to the queue's end" in first.remedy


def test_offsets_in_quotes_or_with_a_fraction_count(store: EditedStore) -> None:
    """A broker takes them: ``Long#parseLong`` of a text, ``Number#longValue`` of a number."""
    text = '{"offsetTable":{"TopicTest@g":{0:"25",1:26.5,2:true},"TopicTest@h":{"0":"24","1":9e9,"-1":"99"}}}'
    told = [("OF-AHEAD", 0, 24, 25), ("OF-AHEAD", 1, 25, 26), ("OF-AHEAD", 1, 25, 9_000_000_000)]
    assert findings(store.root, "consumerOffset.json", text) == told


def test_offsets_behind_an_expired_head_are_named(tmp_path: Path, demand_cache: DemandCache) -> None:
    """Messages that expired before the group read them are told, once a queue."""
    store = EditedStore.copy("expiredhead-4.9.8", tmp_path, demand_cache)
    found = findings(store.root, "consumerOffset.json", '{"offsetTable":{"TopicTest@late":{0:3}}}')
    assert [one[0] for one in found] == ["OF-BEHIND"]


def test_light_queues_have_one_number(tmp_path: Path, demand_cache: DemandCache) -> None:
    """lmqConsumerOffset.json has no queue ids."""
    store = EditedStore.copy("lmq-5.3.3", tmp_path, demand_cache)
    text = '{"lmqOffsetTable":{"%LMQ%all@g":1,"%LMQ%all@h":100000}}'
    assert [one[::3] for one in findings(store.root, "lmqConsumerOffset.json", text)] == [
        ("OF-AHEAD", 100000)
    ]


def test_delay_levels_are_queues_of_the_schedule_topic(tmp_path: Path, demand_cache: DemandCache) -> None:
    """Level n is queue n-1."""
    store = EditedStore.copy("delay-5.3.3", tmp_path, demand_cache)
    found = findings(store.root, "delayOffset.json", '{"offsetTable":{1:0,3:5000,0:9,"x":1}}')
    assert [one[::3] for one in found] == [("OF-AHEAD", 5000)]
    assert found[0][1] == 2
    (level,) = check_offsets(open_store(store.root))
    assert level.remedy.startswith("What OF-PASSED says")
    assert "delivers nothing more of the level" in level.broker_effect


def test_batch_queues_count_messages(tmp_path: Path, demand_cache: DemandCache) -> None:
    """The bounds of a batch queue are those of its messages, not of its units."""
    store = EditedStore.copy("batchcq-5.3.3", tmp_path, demand_cache)
    text = '{"offsetTable":{"Streams@g":{0:0,1:100000}}}'
    assert [one[:2] for one in findings(store.root, "consumerOffset.json", text)] == [("OF-AHEAD", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[]",
        "{}",
        '{"offsetTable":[]}',
        '{"offsetTable":{"TopicTest@g":7.5,"noseparator":{0:99},"TopicTest@h":{"x":99,"1":-1,"2":"no"}}}',
        '{"offsetTable":{"Gone@g":{0:99},"../..@g":{0:99},"@g":{0:1}}}',
    ],
)
def test_other_shapes_are_passed_over(text: str, store: EditedStore) -> None:
    """What is no offset of a queue that is there says nothing, and breaks nothing."""
    assert findings(store.root, "consumerOffset.json", text) == []


def test_the_reader_is_named(store: EditedStore) -> None:
    """Group, queue and both numbers stand in the sentence."""
    findings(store.root, "consumerOffset.json", '{"offsetTable":{"TopicTest@readers":{0:99}}}')
    (finding,) = check_offsets(open_store(store.root))
    assert finding.message == "group readers has offset 99 in TopicTest/0, beyond the queue's end, 24"
    assert [one.reader for one in consumed_offsets(open_store(store.root))] == ["group readers"]


TIMER_UNIT = struct.Struct(">iqiqiqiiq")


@pytest.mark.parametrize(
    "case", ["no log", "a log", "its master's offset", "another magic", "an empty file after it"]
)
def test_a_timer_ahead_goes_on_by_its_log_or_at_the_queue_s_end(tmp_path: Path, case: str) -> None:
    """A real 5.3.3 and 5.5.1 go by the last unit of the timer log, else by the lesser offset, to the end."""
    root = fixture_store("plain-5.3.3").copy_to(tmp_path / "store")
    shutil.copytree(root / "consumequeue" / "TopicTest", root / "consumequeue" / "rmq_sys_wheel_timer")
    offsets = (524, 20) if case == "its master's offset" else (524, 524)
    (root / "config" / "timercheck").write_bytes(struct.pack(">4q", 1, 52, *offsets).ljust(4096, b"\0"))
    if case not in {"no log", "its master's offset"}:
        magic = 16 if case == "another magic" else 1
        unit = TIMER_UNIT.pack(TIMER_UNIT.size, -1, magic, 1, 1, 0, 100, 1, 0)
        (root / "timerlog").mkdir()
        (root / "timerlog" / f"{0:020d}").write_bytes(unit.ljust(5200, b"\0"))
        if case == "an empty file after it":
            (root / "timerlog" / f"{5200:020d}").write_bytes(bytes(5200))
    (finding,) = check_offsets(open_store(root))
    is_harmless = case not in {"no log", "another magic"}
    assert finding.code is (codes.OF_AHEAD if is_harmless else codes.OF_TIMER)
    prediction = predict_recovery(open_store(root), RELEASES["5.3.3"])
    hazards = [one for one in prediction.hazards if one.startswith("The timer has offset 524")]
    assert bool(hazards) is not is_harmless
    assert (finding.remedy == "None needed.") is is_harmless
    if not is_harmless:
        assert "a start resumes at 24, and never delivers what was still to come of the 24" in finding.message
