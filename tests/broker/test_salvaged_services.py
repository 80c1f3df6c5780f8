"""Services of a whole broker pass the tombstones of its own topics, and bring on what comes after them."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.commands.salvage import SalvageRequest, salvage
from rmqtool.engine import EngineOptions
from rmqtool.io import location_of
from rmqtool.progress import NullProgress
from rmqtool.salvage import layout, making
from rmqtool.store import open_store
from rmqtool.store.broker_json import load_broker_json
from rmqtool.topics import HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from tests.broker import whole_broker
from tests.broker.log_damage import LogCopy
from tests.builders import InlineEngine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.jvm import Version
    from tests.broker.whole_broker import Site

pytestmark = pytest.mark.broker

SETTINGS = {
    "messageDelayLevel": "15s 30s",
    "transactionTimeOut": 1000,
    "transactionOpBatchInterval": 50,
    "fileReservedTime": 720,
}
CHECKS = b"transactionCheckInterval=2000\n"
"""For the salvaged store; before, nobody is to be asked."""
RUBBED_OUT = {SCHEDULE_TOPIC: (0, 3, 4), TIMER_TOPIC: (0, 3, 4), HALF_TOPIC: (0, 1, 7), OP_TOPIC: (0,)}
"""Which messages of each topic are damaged: the first, and others between those that stay."""
MARKED = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC)
"""Topics whose tombstones carry the mark, unless they are short."""


def rub_out(site: Site) -> set[str]:
    """Damage bodies in the topics of all services; return the keys of what is lost with them."""
    log, keys = LogCopy(site.store), set()
    with rmqtool.open(site.store, broker_conf=site.conf) as store:
        for topic, numbers in RUBBED_OUT.items():
            rows = list(store.messages(topic=topic))
            assert len(rows) > max(numbers) + 1, topic
            for number in numbers:
                log.flip(log.body_at(rows[number].physical_offset), 1)
                keys.update(rows[number].keys)
    return keys


def salvaged(site: Site) -> None:
    """Put the salvaged store in the place of the damaged one; services begin anew."""
    store, out = open_store(site.store, broker_conf=site.conf), site.folder / "out"
    request = SalvageRequest((store,), EngineOptions("local"))
    report = salvage(request, out, NullProgress(), InlineEngine())
    assert report.lost.proven == report.lost.placed == sum(map(len, RUBBED_OUT.values()))
    conf = site.conf.read_bytes() + CHECKS
    shutil.rmtree(site.store)
    for path in ("config/delayOffset.json", "config/consumerOffset.json", "config/timercheck", "timerwheel"):
        (out / path).unlink(missing_ok=True)
    shutil.rmtree(out / "timerlog", ignore_errors=True)
    out.rename(site.store)
    site.conf.write_bytes(conf)


@pytest.mark.parametrize(("version", "short"), [("5.5.1", False), ("5.3.3", True)])
def test_what_comes_after_a_tombstone_is_delivered(
    version: Version, short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if short:
        monkeypatch.setattr(layout, "tombstone_content", making.short_content)
    with whole_broker.site(tmp_path, version, SETTINGS) as site:
        with whole_broker.broker(site) as process:
            sent = whole_broker.late(site)
            whole_broker.stop(process)
        assert len(sent) == 32, whole_broker.log(site)
        lost = rub_out(site)
        salvaged(site)
        with whole_broker.broker(site) as process:
            found = whole_broker.await_keys(site, set(sent) - lost)
            whole_broker.stop(process)
        assert set(sent) - lost <= found, whole_broker.log(site)
        with rmqtool.open(site.store, broker_conf=site.conf) as store:
            marked = Counter(row.topic for row in store.messages() if row.tags == making.LOST_TAG)
            ends = {queue.topic: queue.max_offset for queue in store.queues()}
    halves = 0 if short else len(RUBBED_OUT[HALF_TOPIC])
    assert marked.pop("TRANS_CHECK_MAX_TIME_TOPIC", 0) == halves
    assert marked == ({} if short else {topic: len(RUBBED_OUT[topic]) for topic in MARKED})
    assert offset_table(site, "delayOffset") == {"1": ends[SCHEDULE_TOPIC]}
    passed = offset_table(site, "consumerOffset")
    for topic in (HALF_TOPIC, OP_TOPIC):
        assert passed[f"{topic}@CID_RMQ_SYS_TRANS"] == {"0": ends[topic]}


def offset_table(site: Site, name: str) -> dict[str, object]:
    read = load_broker_json(location_of(site.store / "config" / f"{name}.json"))
    assert isinstance(read, dict)
    table: dict[str, object] = read["offsetTable"]
    return table
