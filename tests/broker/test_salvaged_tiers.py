"""A broker of 5.5 with its proxy, and with tiered storage, serves what was salvaged: both pass the holes.

Tiered storage begins a queue with what came in the last two minutes, if the store has been there before it
(``MessageStoreDispatcherImpl#doScheduleDispatch``, 5.5.0): so the log is made to be of tomorrow.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.formats import message
from rmqtool.salvage import layout, making
from tests.broker import whole_broker
from tests.broker.log_damage import LogCopy
from tests.broker.stores import DERIVED, fixture_store
from tests.broker.test_salvaged_kinds import salvaged
from tests.house.readme import here
from tests.salvage.campaign import records_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.broker.test_salvaged_kinds import Made
    from tests.broker.whole_broker import Site

    Queue = tuple[str, int]
    Place = tuple[str, int, int]
    """Topic, queue id, queue offset."""

pytestmark = pytest.mark.broker

PATIENCE_S = 300
DAY_MS = 86_400_000
SHORT = ("TopicTest", 1)
"""A queue whose tombstones carry no mark."""
AT_ONCE, TIERED = "AtOnce", "Tiered"
"""Consumer groups."""
UNIT = struct.Struct(">qiq")
UPDATE_BROKER_CONFIG = 25


def damaged(folder: Path) -> Made:
    """Salvage a log that has rot and holes and a file less, and no queues."""
    store = fixture_store("handovers-5.5.1")
    root = store.copy_log_to(folder / "damaged")
    log = LogCopy(root)
    tomorrow = int(time.time() * 1000) + DAY_MS
    for number, place in enumerate(place for segment in log.records for place in segment):
        log.put(place, "storeTimestamp", tomorrow + number, 8)
    before = records_of(root / "commitlog")
    for place in (*log.records[0][:2], *log.records[1][3:9:2]):
        log.flip(log.body_at(place), 1)
    for place in log.records[3][4:6]:
        log.write(place, bytes(log.head(place).total_size))
    log.remove_segment(2)
    return salvaged(root, store.conf, before)


def moved_in(made: Made, site: Site, ends: Counter[Queue]) -> None:
    """Make the salvaged store the broker's, without queues, and let consumers begin at its first messages."""
    for path in made.found.root.iterdir():
        if path.name not in DERIVED:
            path.rename(site.store / path.name)
    config, groups = site.store / "config", (AT_ONCE, TIERED)
    offsets: dict[str, dict[str, int]] = {}
    for topic, queue_id in ends:
        for group in groups:
            offsets.setdefault(f"{topic}@{group}", {})[str(queue_id)] = 0
    (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    table = {"subscriptionGroupTable": {group: {"groupName": group} for group in groups}}
    (config / "subscriptionGroup.json").write_text(json.dumps(table))


def wanted(made: Made) -> dict[Place, rmqtool.Message]:
    """Return what the queues have to give, survivors and tombstones, by the place there."""
    with rmqtool.open(made.found.root, broker_conf=made.found.conf) as store:
        messages = [one for one in store.messages(decompress=True) if one.transaction_type == "none"]
    found = {(one.topic, one.queue_id, one.queue_offset): one for one in messages}
    assert {one.physical_offset for one in messages} >= made.survivors.keys()
    for queue, end in ends_of(found).items():
        assert {key[2] for key in found if key[:2] == queue} == set(range(end))
        properties = [one.properties for key, one in found.items() if key[:2] == queue]
        assert (
            {"L": "1"} if queue == SHORT else {"TAGS": making.LOST_TAG, making.LOST_PROPERTY: "1"}
        ) in properties
    return found


def ends_of(found: Iterable[Place]) -> Counter[Queue]:
    """Return how many messages each queue has."""
    return Counter((topic, queue_id) for topic, queue_id, _ in found)


def received(site: Site, port: int, group: str, ends: Counter[Queue]) -> dict[Place, tuple[int, bytes]]:
    """Receive all messages through the proxy; return where each lies, and its body."""
    topics = Counter(topic for topic, _ in ends.elements())
    words = [f"127.0.0.1:{port}", group, *(f"{topic}={count}" for topic, count in topics.items())]
    done = subprocess.run(
        [sys.executable, "-m", "tests.broker.receive", *words],
        env={**os.environ, **here(), "HOME": str(site.folder)},  # the client logs there
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == ends.total()
    assert all(row["isWhole"] for row in rows)
    return {
        (row["topic"], row["queueId"], row["queueOffset"]): (row["place"], base64.b64decode(row["body"]))
        for row in rows
    }


def segments(site: Site, kind: str) -> dict[Queue, bytes]:
    """Return what tiered storage holds of every queue; each has one file here."""
    found = (site.folder / "tiered").glob(f"*/{whole_broker.NAME}/*/*/{kind}/*")
    return {(path.parts[-4], int(path.parts[-3])): path.read_bytes() for path in found}


def await_tiers(site: Site, ends: Counter[Queue]) -> dict[Place, tuple[int, bytes]]:
    """Wait until tiered storage has all of all queues; return its records, and where each lies in its log."""
    deadline = time.monotonic() + PATIENCE_S
    while any(
        len(segments(site, "CONSUME_QUEUE").get(key, b"")) < end * UNIT.size for key, end in ends.items()
    ):
        assert time.monotonic() < deadline, whole_broker.log(site)
        time.sleep(0.5)
    logs = segments(site, "COMMIT_LOG")
    return {
        (*key, number): (at, logs[key][at : at + size])
        for key, units in segments(site, "CONSUME_QUEUE").items()
        for number, (at, size, _) in enumerate(UNIT.iter_unpack(units))
    }


def read_tiers_only(site: Site) -> None:
    """Tell the broker to serve all that users ask for from tiered storage."""
    header = {"code": UPDATE_BROKER_CONFIG, "flag": 0, "language": "OTHER", "opaque": 1, "version": 0}
    head, body = json.dumps(header).encode(), b"tieredStorageLevel=FORCE\n"
    with socket.create_connection(("127.0.0.1", site.broker_port), PATIENCE_S) as channel:
        channel.sendall(struct.pack(">II", 4 + len(head) + len(body), len(head)) + head + body)
        with channel.makefile("rb") as answer:
            length, head_length = struct.unpack(">II", answer.read(8))
            assert json.loads(answer.read(length - 4)[:head_length])["code"] == 0


def test_proxy_and_tiered_storage_pass_the_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rocketmq", reason="needs rocketmq-python-client")

    def content(topic: str, queue_id: int, time_ms: int) -> tuple[making.Properties, str]:
        make = making.short_content if (topic, queue_id) == SHORT else making.tombstone_content
        return make(topic, queue_id, time_ms)

    monkeypatch.setattr(layout, "CONTENTS", (content, *layout.CONTENTS[1:]))
    made = damaged(tmp_path)
    messages = wanted(made)
    ends = ends_of(messages)
    settings = {
        **dict(line.split("=") for line in made.found.conf.read_text().splitlines()),
        "messageStorePlugIn": "org.apache.rocketmq.tieredstore.TieredMessageStore",
        "tieredBackendServiceProvider": "org.apache.rocketmq.tieredstore.provider.PosixFileSegment",
        "tieredStoreFilePath": tmp_path / "tiered",
        "tieredStoreGroupCommit": "false",  # else messages of tomorrow wait
    }
    with whole_broker.site(tmp_path, settings=settings) as site:
        moved_in(made, site, ends)
        with whole_broker.proxy(site, local=True) as port:
            at_once = received(site, port, AT_ONCE, ends)
            tiers = await_tiers(site, ends)
            read_tiers_only(site)
            tiered = received(site, port, TIERED, ends)
        assert made.written.items() <= records_of(site.store / "commitlog").items()
    assert at_once == {place: (one.physical_offset, one.body) for place, one in messages.items()}
    assert tiered == {place: (tiers[place][0], one.body) for place, one in messages.items()}
    for place, one in messages.items():
        assert without_offset(tiers[place][1]) == without_offset(made.written[one.physical_offset])


def without_offset(record: bytes) -> bytes:
    """Return a record but for its physical offset, which is another in tiered storage."""
    at = message.HEAD_OFFSETS[0]["physicalOffset"]
    return record[:at] + record[at + 8 :]
