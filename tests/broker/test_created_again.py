"""A topic that is deleted while clients send, and that their sending creates again: what that leaves.

5.5.1 leaves whole queues of the messages since. 5.3.3 dispatches older messages into the new queues, too, and
destroys files that have units already: pre-blank units, gaps and messages of both in one queue.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from rmqtool.commands.rebuild import Generations
from rmqtool.errors import ExitStatus
from tests.broker import whole_broker
from tests.commands.rebuilding import rebuild_store
from tests.damage.running import verified

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker import jvm
    from tests.broker.whole_broker import Site

pytestmark = pytest.mark.broker

TOPIC = "Whole"
PAUSES_S, MORE = (0.05, 0.2, 0.5), 60
PATIENCE_S = 180


def _delete_while_sending(site: Site) -> None:
    rows: list[bytes] = []
    with whole_broker.sending(site, 0, 1_000_000) as client:
        assert client.stdout is not None
        reader = threading.Thread(target=lambda: rows.extend(iter(client.stdout.readline, b"")))  # type: ignore[union-attr]
        reader.start()
        for pause in (0, *PAUSES_S):
            time.sleep(pause)
            if rows:
                whole_broker.delete_topic(site, TOPIC)
            wanted, end = len(rows) + MORE, time.monotonic() + PATIENCE_S
            while len(rows) < wanted and client.poll() is None:
                assert time.monotonic() < end
                time.sleep(0.02)
        client.kill()
        reader.join(PATIENCE_S)


@pytest.mark.parametrize("version", ["5.5.1", "5.3.3"])
def test_verify_and_rebuild_say_the_same(version: jvm.Version, tmp_path: Path) -> None:
    """A sound store is rebuilt to the byte; another is rebuilt once the user has said what lives."""
    with whole_broker.site(tmp_path, version) as site, whole_broker.broker(site) as process:
        _delete_while_sending(site)
        whole_broker.stop(process)
    judged = verified(site.store)
    assert judged.damage_status in {ExitStatus.CLEAN, ExitStatus.NEGATIVE}
    report = rebuild_store(site.store, site.conf, tmp_path / "auto", compare=True)
    if judged.damage_status is ExitStatus.CLEAN:
        assert (report.differences, report.fewer_messages) == ((), 0)
        assert report.is_installable
        return
    live = rebuild_store(site.store, site.conf, tmp_path / "live", generations=Generations.LIVE)
    assert live.is_installable, live.install_hint
    assert live.units <= report.units
    assert report.unsettled_generations or report.is_installable, report.install_hint
