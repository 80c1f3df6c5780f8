"""``query --consumed-by`` on what a whole broker and a real consumer left, retries included."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.broker import whole_broker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.whole_broker import Site

pytestmark = pytest.mark.broker

GROUP = "rmqtool-consumers"
EXPECTED = {
    "done": {"consumed"},
    "again": {"consumed"},
    "waits": {"in-retry"},
    "dead": {"dead-lettered"},
    "fresh": {"not-yet"},
}
"""What `Fates` makes of messages, and what is to be said of them and of all of their copies."""


def found(site: Site, sent: list[dict[str, str]], *, scan: bool) -> dict[str, set[str]]:
    """Return the states of messages and their copies, by what was made of them."""
    states: dict[str, set[str]] = defaultdict(set)
    with rmqtool.open(site.store, broker_conf=site.conf) as store:
        for row in sent:
            answer = store.query(msg_id=row["msgId"], consumed_by=GROUP, scan=scan)
            verdicts = [answer.consumption(message) for message in answer]
            assert verdicts
            states[row["fate"]].update(one.state.value for one in verdicts if one is not None)
    return dict(states)


def test_fates_of_messages(tmp_path: Path) -> None:
    """By the index, by the log, and by the queues alone."""
    with whole_broker.site(tmp_path) as site:
        with whole_broker.broker(site) as process:
            sent = whole_broker.fates(site, GROUP)
            whole_broker.stop(process)
        assert len(sent) == 15
        assert found(site, sent, scan=False) == EXPECTED
        assert found(site, sent, scan=True) == EXPECTED
        shutil.rmtree(site.store / "index")
        with rmqtool.open(site.store, broker_conf=site.conf) as store:
            answer = store.query(topic="Fates", begin=0, consumed_by=GROUP)
            verdicts = [answer.consumption(message) for message in answer]
        counts = Counter(one.state.value for one in verdicts if one is not None)
        assert counts == {"consumed": 7, "in-retry": 3, "dead-lettered": 3, "not-yet": 3}
