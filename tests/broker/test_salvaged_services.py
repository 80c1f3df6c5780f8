"""Services of a whole broker pass the tombstones of its own topics, and bring on what comes after them."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.commands.salvage import SalvageRequest, salvage
from rmqtool.io import location_of
from rmqtool.progress import NullProgress
from rmqtool.salvage import layout, making
from rmqtool.store import open_store
from rmqtool.store.broker_json import load_broker_json
from rmqtool.topics import HALF_TOPIC, OP_TOPIC, REVIVE_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from tests.broker import whole_broker
from tests.broker.log_damage import LogCopy
from tests.builders import InlineEngine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.broker.jvm import Version
    from tests.broker.whole_broker import Site

pytestmark = pytest.mark.broker

SETTINGS = {
    "messageDelayLevel": "15s 30s",
    "transactionTimeOut": 1000,
    "transactionOpBatchInterval": 50,
    "fileReservedTime": 720,
    "reviveQueueNum": 1,
    "reviveInterval": 3_600_000,
}
PATIENCE_S = 120
CHECKS = b"transactionCheckInterval=2000\nreviveInterval=1000\nflushConsumerOffsetInterval=500\n"
"""For the salvaged store; before, nobody is to be asked, and nothing to come again."""
REVIVE_TOPIC = f"{REVIVE_PREFIX}DefaultCluster"
RUBBED_OUT = {SCHEDULE_TOPIC: (0, 3, 4), HALF_TOPIC: (0, 1, 7), OP_TOPIC: (0,)}
"""Which messages of each topic are damaged: the first, and others between those that stay."""
RUBBED_OUT_SINCE_5 = {TIMER_TOPIC: (0, 15, 16), REVIVE_TOPIC: (0, 1, 5)}
MARKED = (SCHEDULE_TOPIC, HALF_TOPIC, TIMER_TOPIC, REVIVE_TOPIC)
"""Topics whose tombstones carry the mark, unless they are short."""


def rub_out(site: Site, topics: Mapping[str, Sequence[int]]) -> set[str]:
    """Damage bodies in the topics of all services; return the keys of what is lost with them."""
    log, keys = LogCopy(site.store), set()
    with rmqtool.open(site.store, broker_conf=site.conf) as store:
        popped = {row.queue_offset: row.keys for row in store.messages(topic="Popped")}
        for topic, numbers in topics.items():
            rows = list(store.messages(topic=topic))
            assert len(rows) > max(numbers) + 1, topic
            for number in numbers:
                log.flip(log.body_at(rows[number].physical_offset), 1)
                keys.update(rows[number].keys)
                if rows[number].tags == "ck":
                    keys.update(popped[json.loads(rows[number].body)["so"]])
    return keys


def salvaged(site: Site, lost: int) -> None:
    """Put the salvaged store in the place of the damaged one; services begin anew."""
    store, out = open_store(site.store, broker_conf=site.conf), site.folder / "out"
    request = SalvageRequest((store,), InlineEngine())
    report = salvage(request, out, NullProgress())
    assert report.lost.damaged == report.lost.placed == lost
    conf = site.conf.read_bytes() + CHECKS
    shutil.rmtree(site.store)
    for path in ("config/delayOffset.json", "config/consumerOffset.json", "config/timercheck", "timerwheel"):
        (out / path).unlink(missing_ok=True)
    shutil.rmtree(out / "timerlog", ignore_errors=True)
    out.rename(site.store)
    site.conf.write_bytes(conf)


@pytest.mark.parametrize(("version", "short"), [("5.5.1", False), ("5.3.3", True), ("4.9.8", False)])
def test_what_comes_after_a_tombstone_is_delivered(
    version: Version, short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if short:
        monkeypatch.setattr(layout, "CONTENTS", (making.short_content, *layout.CONTENTS[1:]))
    kinds, topics = ["delayed", "committed", "undecided"], RUBBED_OUT
    if version != "4.9.8":
        kinds, topics = [*kinds, "timed", "popped"], RUBBED_OUT | RUBBED_OUT_SINCE_5
    with whole_broker.site(tmp_path, version, SETTINGS) as site:
        with whole_broker.broker(site) as process:
            sent = whole_broker.late(site, kinds)
            whole_broker.stop(process)
        lost = rub_out(site, topics)
        salvaged(site, sum(map(len, topics.values())))
        with whole_broker.broker(site) as process:
            found = whole_broker.await_keys(site, set(sent) - lost)
            await_checks(site)
            whole_broker.stop(process)
        assert set(sent) - lost <= found, whole_broker.log(site)
        with rmqtool.open(site.store, broker_conf=site.conf) as store:
            marked = Counter(row.topic for row in store.messages() if row.tags == making.LOST_TAG)
            ends = {queue.topic: queue.max_offset for queue in store.queues()}
    halves = 0 if short else len(topics[HALF_TOPIC])
    assert marked.pop("TRANS_CHECK_MAX_TIME_TOPIC", 0) == halves
    assert marked == ({} if short else {topic: len(topics[topic]) for topic in MARKED if topic in topics})
    assert offset_table(site, "delayOffset") == {"1": ends[SCHEDULE_TOPIC]}
    passed = offset_table(site, "consumerOffset")
    for topic in (HALF_TOPIC, OP_TOPIC):
        assert passed[f"{topic}@CID_RMQ_SYS_TRANS"] == {"0": ends[topic]}
    if REVIVE_TOPIC in topics:
        assert passed[f"{REVIVE_TOPIC}@CID_RMQ_SYS_REVIVE_GROUP"]["0"] > max(topics[REVIVE_TOPIC])


def await_checks(site: Site) -> None:
    """Wait until the check of transactions has passed all that is there; the test says if it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with rmqtool.open(site.store, broker_conf=site.conf) as store:
            ends = {queue.topic: queue.max_offset for queue in store.queues()}
        with suppress(AssertionError, ValueError):  # it is being written, or not there yet
            passed = offset_table(site, "consumerOffset")
            if all(
                passed.get(f"{one}@CID_RMQ_SYS_TRANS") == {"0": ends[one]} for one in (HALF_TOPIC, OP_TOPIC)
            ):
                return
        time.sleep(0.5)


def offset_table(site: Site, name: str) -> dict[str, Any]:
    read = load_broker_json(location_of(site.store / "config" / f"{name}.json"))
    assert isinstance(read, dict)
    table: dict[str, Any] = read["offsetTable"]
    return table
