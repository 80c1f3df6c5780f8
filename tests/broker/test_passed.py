"""Delayed and timed messages that a whole broker passes over, once its offsets in `config/` are set ahead."""

from __future__ import annotations

import json
import shutil
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

import rmqtool
from rmqtool.topics import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.broker import whole_broker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.jvm import Version
    from tests.broker.whole_broker import Site

pytestmark = pytest.mark.broker

LEVEL_S = 30
SETTINGS = {"messageDelayLevel": f"{LEVEL_S}s 60s", "fileReservedTime": 720}
PATIENCE_S = 120
AFTER_S = 5
"""So long a broker that runs looks many times for what is due."""


class Sent(NamedTuple):
    """Messages that came to the broker's services.

    Attributes:
        keys: Their keys.
        due: When all of them are, by the monotonic clock.
    """

    keys: list[str]
    due: float


def stored(site: Site, kind: str) -> Sent:
    """Send messages with one run of the broker, which stops before they are due."""
    with whole_broker.broker(site) as process:
        keys = whole_broker.late(site, [kind])
        due = time.monotonic() + LEVEL_S
        whole_broker.stop(process)
    assert time.monotonic() < due
    return Sent(keys, due)


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


def delivered(site: Site, sent: Sent, wanted: int) -> int:
    """Let the broker run until so many of the messages have come, and for some time after all are due.

    Returns:
        How many came.
    """
    with whole_broker.running(site) as process:
        end = time.monotonic() + PATIENCE_S
        while come(site, sent) < wanted and time.monotonic() < end:
            time.sleep(1)
        time.sleep(max(sent.due - time.monotonic(), 0) + AFTER_S)
        whole_broker.stop(process)
    return come(site, sent)


def come(site: Site, sent: Sent) -> int:
    """Count the messages with some keys that are in a topic of their own."""
    with rmqtool.open(site.store, broker_conf=site.conf) as store:
        rows = [row for row in store.messages() if row.topic not in {SCHEDULE_TOPIC, TIMER_TOPIC}]
    return sum(not set(sent.keys).isdisjoint(row.keys) for row in rows)


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_delayed_messages_below_the_offset_come_after_the_remedy(version: Version, tmp_path: Path) -> None:
    """7077: ``correct delay offset [ delayLevel 1 ] from 77 to``; what lies below never comes by itself."""
    with whole_broker.site(tmp_path, version, SETTINGS) as site:
        first = stored(site, "delayed")
        count = len(first.keys)
        assert delivered(site, first, count) == count
        assert verified(site, "OF-PASSED") == 0  # the offset lies after them, and they have their copies
        assert levels(site) == (0, 0, 0)
        second = stored(site, "delayed")
        set_level(site, 77)
        assert verified(site, "OF-AHEAD") == 1
        assert verified(site, "OF-PASSED") == count
        assert levels(site) == (0, count, 0)
        assert delivered(site, second, count) == count  # of the first, whose keys are the same
        assert verified(site, "OF-PASSED") == count
        with rmqtool.open(site.store, broker_conf=site.conf) as store:
            (finding,) = (one for one in store.verify().findings if one.code.code == "OF-PASSED")
        assert "to the queue offset of the first of them" in finding.remedy
        set_level(site, finding.queue_offset)
        assert delivered(site, second, 2 * count) == 2 * count
        assert verified(site, "OF-PASSED") == 0


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_delayed_messages_come_twice_by_an_offset_that_was_not_kept(version: Version, tmp_path: Path) -> None:
    """3473: a broker that is killed has not written how far a level is; the next start delivers again."""
    with whole_broker.site(tmp_path, version, SETTINGS) as site:
        sent = stored(site, "delayed")
        count = len(sent.keys)
        assert delivered(site, sent, count) == count
        set_level(site, 0)
        assert levels(site) == (count, 0, 0)
        assert delivered(site, sent, 2 * count) == 2 * count
        assert levels(site) == (0, 0, count)


def test_a_timer_ahead_of_its_queue_passes_what_its_log_lacks(tmp_path: Path) -> None:
    """7480, 6269: its offset lies beyond a queue that was cut, and no message that its log names is left."""
    with whole_broker.site(tmp_path, "5.5.1", SETTINGS) as site:
        sent = stored(site, "timed")
        path = site.store / "config" / "timercheck"
        head = path.read_bytes()
        path.write_bytes(head[:16] + struct.pack(">2q", 500, 500) + head[32:])
        assert verified(site, "OF-TIMER") == 0  # the timer log says how far it came
        assert verified(site, "OF-AHEAD") == 1
        shutil.rmtree(site.store / "timerlog")
        assert verified(site, "OF-TIMER") == 1
        assert delivered(site, sent, 0) == 0
        for file in (site.store / "timerwheel", path):  # the second way of the remedy: no timer log is left
            file.unlink()
        assert delivered(site, sent, len(sent.keys)) == len(sent.keys)
