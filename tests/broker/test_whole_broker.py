"""A whole broker, not its store alone: what it leaves is healthy, rebuilt to the byte, starts as foreseen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.commands.query import Query, QueryRequest
from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.report.console import Console
from rmqtool.store import open_store
from tests.broker import whole_broker
from tests.broker.compare import compare_derived
from tests.commands.rebuilding import rebuild_store
from tests.damage.running import verified

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

    from rmqtool.recovery import Prediction
    from tests.broker.jvm import Version
    from tests.broker.whole_broker import Site

pytestmark = pytest.mark.broker

SENT = 220
SENT_BEFORE_THE_KILL = 60
TOPIC_OF_KIND = {
    3: "SCHEDULE_TOPIC_XXXX",
    4: "rmq_sys_wheel_timer",
    8: "RMQ_SYS_TRANS_HALF_TOPIC",
    9: "RMQ_SYS_TRANS_HALF_TOPIC",
}
"""Where `Client` sends delayed, timed, rolled back and undecided messages; others are in its topic."""


def errors(site: Site) -> list[str]:
    found = verified(site.store).findings
    return [f"{one.code.code} {one.message}" for one in found if one.severity == "error"]


def predicted(site: Site) -> Prediction:
    return predict_recovery(open_store(site.store, broker_conf=site.conf), RELEASES[whole_broker.VERSION])


def differ(prediction: Prediction, site: Site) -> list[str]:
    """Ask the broker that was just started on the store for the bounds of every queue."""
    ours = {
        (one.topic, one.queue_id): (one.min_offset, one.max_offset)
        for one in prediction.queues
        if one.max_offset
    }
    assert ours
    theirs = whole_broker.bounds(site, list(ours))
    return [
        f"{queue}: predicted {ours[queue]}, is {theirs[queue]}"
        for queue in ours
        if ours[queue] != theirs[queue]
    ]


@pytest.mark.parametrize("version", ["5.3.3", "5.5.1"])
def test_a_timer_wheel_of_another_length_stops_a_start(version: Version, tmp_path: Path) -> None:
    with whole_broker.site(tmp_path, version) as site:
        with whole_broker.broker(site) as process:
            whole_broker.send(site, 0, 1)
            whole_broker.stop(process)
        with (site.store / "timerwheel").open("ab") as wheel:
            wheel.write(bytes(32))
        found = predict_recovery(open_store(site.store, broker_conf=site.conf), RELEASES[version])
        assert [one.file for one in found.refusals] == ["timerwheel"]
        with whole_broker.broker(site) as process:
            assert process.wait(60) != 0


def test_stopped_killed_and_restarted(tmp_path: Path) -> None:
    """Messages of all kinds; a clean stop; a start; a kill while a client sends; a start."""
    with whole_broker.site(tmp_path) as site:
        with whole_broker.broker(site) as process:
            sent = whole_broker.send(site, 0, SENT)
            whole_broker.stop(process)
        assert len(sent) == SENT, whole_broker.log(site)
        assert errors(site) == []
        rebuild_store(site.store, site.conf, tmp_path / "rebuilt")
        assert compare_derived(site.store, tmp_path / "rebuilt") == []
        assert not_found(site, sent[::5]) == []
        prediction = predicted(site)
        with whole_broker.broker(site) as process:
            assert differ(prediction, site) == []
            kill_while_sending(process, site)
        assert errors(site) == []
        prediction = predicted(site)
        with whole_broker.broker(site) as process:
            assert differ(prediction, site) == []
            whole_broker.stop(process)
        assert errors(site) == []


def kill_while_sending(process: Popen[bytes], site: Site) -> None:
    with whole_broker.sending(site, SENT, 100_000) as client:
        assert client.stdout is not None
        stored = [client.stdout.readline() for _ in range(SENT_BEFORE_THE_KILL)]
        process.kill()
    assert all(stored), whole_broker.log(site)


def not_found(site: Site, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages that their unique key does not find where the broker put them."""
    store, console = open_store(site.store, broker_conf=site.conf), Console(quiet=True)
    asked = [
        QueryRequest(topic=TOPIC_OF_KIND.get(row["kind"], "Whole"), unique_key=row["msgId"].split(",")[0])
        for row in sent
    ]
    return [
        row
        for row, question in zip(sent, asked, strict=True)
        if not list(Query(store, question, console).run())
    ]
