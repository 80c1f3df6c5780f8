"""Delayed and timed messages that a whole broker passes over, once its offsets in `config/` are set ahead."""

from __future__ import annotations

import json
import shutil
import struct
import time
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.topics import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.broker import whole_broker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.broker.jvm import Version
    from tests.broker.whole_broker import Site

pytestmark = pytest.mark.broker

SETTINGS = {"messageDelayLevel": "30s 60s", "fileReservedTime": 720}
LATE_S = 35
"""After this all that was sent is due, and a broker that runs has delivered it."""


def stored(site: Site, kind: str) -> list[str]:
    """Send messages with one run of the broker, which stops before they are due; return their keys."""
    with whole_broker.broker(site) as process:
        keys = whole_broker.late(site, [kind])
        whole_broker.stop(process)
    return keys


def verified(site: Site, code: str) -> int:
    """Return how many messages a finding counts."""
    with rmqtool.open(site.store, broker_conf=site.conf) as store:
        return store.verify().findings.counts.get(code, 0)


def set_level(site: Site, offset: int | None) -> None:
    """Set the offset of the first delay level, as an operator does."""
    for name in ("delayOffset.json", "delayOffset.json.bak"):
        (site.store / "config" / name).write_text(json.dumps({"offsetTable": {"1": offset}}))


def levels(site: Site) -> tuple[int, int, int]:
    """Return how many delayed messages wait, were passed over, and have more than one copy."""
    with rmqtool.open(site.store, broker_conf=site.conf) as store:
        rows = [row for row in store.delayed() if row.delay_ms is not None]
    waiting, passed = sum(row.waiting for row in rows), sum(row.passed_over or 0 for row in rows)
    return waiting, passed, sum(row.twice or 0 for row in rows)


def delivered(site: Site, keys: Sequence[str]) -> int:
    """Let the broker run until all is due; return how many messages with these keys came."""
    with whole_broker.broker(site) as process:
        time.sleep(LATE_S)
        whole_broker.stop(process)
    with rmqtool.open(site.store, broker_conf=site.conf) as store:
        rows = [row for row in store.messages() if row.topic not in {SCHEDULE_TOPIC, TIMER_TOPIC}]
    return sum(not set(keys).isdisjoint(row.keys) for row in rows)


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_delayed_messages_below_the_offset_come_after_the_remedy(version: Version, tmp_path: Path) -> None:
    """7077: ``correct delay offset [ delayLevel 1 ] from 77 to``; what lies below never comes by itself."""
    with whole_broker.site(tmp_path, version, SETTINGS) as site:
        first = stored(site, "delayed")
        assert delivered(site, first) == len(first)
        assert verified(site, "OF-PASSED") == 0  # the offset lies after them, and they have their copies
        assert levels(site) == (0, 0, 0)
        second = stored(site, "delayed")
        set_level(site, 77)
        assert verified(site, "OF-AHEAD") == 1
        assert verified(site, "OF-PASSED") == len(second)
        assert levels(site) == (0, len(second), 0)
        assert delivered(site, second) == len(first)  # whose keys are the same
        assert verified(site, "OF-PASSED") == len(second)
        with rmqtool.open(site.store, broker_conf=site.conf) as store:
            (finding,) = (one for one in store.verify().findings if one.code.code == "OF-PASSED")
        assert "to the queue offset of the first of them" in finding.remedy
        set_level(site, finding.queue_offset)
        assert delivered(site, second) == len(first) + len(second)
        assert verified(site, "OF-PASSED") == 0


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_delayed_messages_come_twice_by_an_offset_that_was_not_kept(version: Version, tmp_path: Path) -> None:
    """3473: a broker that is killed has not written how far a level is; the next start delivers again."""
    with whole_broker.site(tmp_path, version, SETTINGS) as site:
        keys = stored(site, "delayed")
        assert delivered(site, keys) == len(keys)
        set_level(site, 0)
        assert levels(site) == (len(keys), 0, 0)
        assert delivered(site, keys) == 2 * len(keys)
        assert levels(site) == (0, 0, len(keys))


def test_a_timer_ahead_of_its_queue_passes_what_its_log_lacks(tmp_path: Path) -> None:
    """7480, 6269: its offset lies beyond a queue that was cut, and no message that its log names is left."""
    with whole_broker.site(tmp_path, "5.5.1", SETTINGS) as site:
        keys = stored(site, "timed")
        path = site.store / "config" / "timercheck"
        head = path.read_bytes()
        path.write_bytes(head[:16] + struct.pack(">2q", 500, 500) + head[32:])
        assert verified(site, "OF-TIMER") == 0  # the timer log says how far it came
        assert verified(site, "OF-AHEAD") == 1
        shutil.rmtree(site.store / "timerlog")
        assert verified(site, "OF-TIMER") == 1
        assert delivered(site, keys) == 0
        path.unlink()  # the second way of the remedy
        assert delivered(site, keys) == len(keys)
