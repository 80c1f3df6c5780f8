"""Messages sent again to a real broker, through its proxy and with the official client."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from tests.broker import whole_broker
from tests.cli.conftest import STORES
from tests.house.readme import here

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.whole_broker import Site

pytestmark = pytest.mark.broker

SOURCE = STORES / "plain-5.3.3"
MAP = {"TopicTest": "Ordered", "Orders": "Plain", "%DLQ%Group": "Mended"}
CHOSEN = ("-t", "TopicTest", "-t", "Orders")
_MARK = "RMQTOOL_REPLAY_OF"
_SECONDS = 150


def topic(name: str, kind: str) -> dict[str, Any]:
    attributes = {"message.type": kind}
    return {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "attributes": attributes}


def command(at: Site, port: int, file: Path, *words: str) -> list[str]:
    mapped = [word for old, new in MAP.items() for word in ("--topic-map", f"{old}={new}")]
    program = [sys.executable, "-m", "rmqtool", "replay", str(file), "--proxy", f"127.0.0.1:{port}"]
    return [*program, "--send", "--ledger", str(at.folder / "ledger"), *mapped, *words]


def environment(at: Site) -> dict[str, str]:
    return {**os.environ, **here(), "HOME": str(at.folder)}  # the client logs there


def run(at: Site, port: int, file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = command(at, port, file, *words)
    return subprocess.run(
        line, env=environment(at), capture_output=True, text=True, timeout=_SECONDS, check=False
    )


def kill_amid(at: Site, port: int, file: Path) -> int:
    """Kill a replay when some messages are in its ledger; return how many."""
    ledger = at.folder / "ledger"
    with subprocess.Popen(command(at, port, file, "--rate", "20", *CHOSEN), env=environment(at)) as process:
        deadline = time.monotonic() + _SECONDS
        while not ledger.exists() or ledger.read_bytes().count(b"\n") < 5:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
    return ledger.read_bytes().count(b"\n") - 1


def sendable(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [one for one in found if one["topic"] in MAP and one["body"] and "|" not in (one["tags"] or "")]


def test_a_cluster_gets_every_message_again_in_order(tmp_path: Path) -> None:
    pytest.importorskip("rocketmq", reason="needs rocketmq-python-client")
    file = tmp_path / "replay.ndjson"
    words = ["-m", "rmqtool", "dump", str(SOURCE), "--format", "replay", "-o", str(file)]
    subprocess.run([sys.executable, *words], check=True, env={**os.environ, **here()})
    wanted = sendable(file)
    folder = tmp_path / "site"
    folder.mkdir()
    table = {one["topicName"]: one for one in (topic("Ordered", "FIFO"), topic("Plain", "NORMAL"))}
    with whole_broker.site(folder, "5.3.3", {"autoCreateTopicEnable": "false"}) as at:
        config = at.store / "config"
        config.mkdir()
        (config / "topics.json").write_text(json.dumps({"topicConfigTable": table, "dataVersion": {}}))
        with whole_broker.broker(at) as process, whole_broker.proxy(at) as port:
            missing = run(at, port, file, "-t", "Payments")
            assert missing.returncode == 3
            assert f"topic Payments: 127.0.0.1:{port} has no route to it; create it" in missing.stderr
            sent = kill_amid(at, port, file)
            done = run(at, port, file, "--rate", "2000", "--format", "json", *CHOSEN)
            assert done.returncode == 1, done.stderr  # some bodies are empty: the client sends none
            report = json.loads(done.stdout)
            assert (report["sent"] + report["already"], report["already"] >= sent) == (len(wanted), True)
            again = json.loads(run(at, port, file, "--format", "json", *CHOSEN).stdout)
            assert (again["sent"], again["already"]) == (0, len(wanted))
            whole_broker.stop(process)
        check(at, wanted)


def check(at: Site, wanted: list[dict[str, Any]]) -> None:
    """Hold what the broker has stored against what was sent: once each, but for the one at the kill."""
    with rmqtool.open(at.store, broker_conf=at.conf) as store:
        stored = [one for one in store.messages(decompress=True) if one.topic in MAP.values()]
    by_key: dict[str, rmqtool.Message] = {}
    for message in stored:
        body = base64.b64encode(message.body).decode()
        by_key.setdefault(message.properties.get(_MARK) or body, message)
    assert len(stored) - len(by_key) <= 1
    assert by_key.keys() == {one["uniqKey"] or one["body"] for one in wanted}
    places: dict[int, list[tuple[int, int]]] = {}
    for one in wanted:
        got = by_key[one["uniqKey"] or one["body"]]
        assert got.body == base64.b64decode(one["body"])
        assert (got.topic, got.tags or None) == (MAP[one["topic"]], one["tags"] or None)
        assert sorted(got.keys) == sorted(set(one["keys"]))
        assert one["properties"].items() <= got.properties.items()
        if one["topic"] == "TopicTest":
            places.setdefault(one["queueId"], []).append((got.queue_id, got.queue_offset))
    for queue in places.values():
        assert len({queue_id for queue_id, _ in queue}) == 1
        assert queue == sorted(queue)
