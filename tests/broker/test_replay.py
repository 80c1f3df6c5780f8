"""Messages sent again to a real broker, by the programs of the manual."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.cli.manual import page
from tests.broker import jvm, whole_broker
from tests.cli.conftest import STORES
from tests.house.readme import here

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.broker.whole_broker import Site

pytestmark = pytest.mark.broker

KINDS = {"TopicTest": "FIFO", "Orders": "NORMAL"}
_SECONDS = 150


def topic_config(name: str, kind: str | None) -> dict[str, Any]:
    attributes = {} if kind is None else {"attributes": {"message.type": kind}}
    return {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, **attributes}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Messages of two topics, and some that are not sent: without a body, and of a dead-letter topic."""
    path = tmp_path / "replay.ndjson"
    program = [sys.executable, "-m", "rmqtool", "dump", str(STORES / "plain-5.3.3")]
    words = ["-t", "TopicTest", "-t", "Orders", "--format", "replay", "-o", str(path)]
    subprocess.run([*program, *words], check=True, env={**os.environ, **here()})
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    kept = [one for one in lines if "|" not in (one["tags"] or "")]
    assert not all(one["body"] for one in kept)
    kept.append({**kept[0], "topic": "%DLQ%Group"})
    path.write_text("".join(json.dumps(one) + "\n" for one in kept), "utf-8")
    return path


@contextmanager
def running_site(tmp_path: Path, version: jvm.Version) -> Iterator[Site]:
    """Run a name server, for a broker with two topics."""
    folder = tmp_path / "site"
    folder.mkdir()
    table = {name: topic_config(name, kind if version != "4.9.8" else None) for name, kind in KINDS.items()}
    table["Whole"] = topic_config("Whole", None)  # the clients of tests wait for it
    with whole_broker.site(folder, version, {"autoCreateTopicEnable": "false"}) as at:
        config = at.store / "config"
        config.mkdir()
        (config / "topics.json").write_text(json.dumps({"topicConfigTable": table, "dataVersion": {}}))
        yield at


def program(language: str, at: Path) -> Path:
    """Write a program of the page as its reader does."""
    text = re.search(rf"```{language}\n(.*?)```", page("replay"), re.DOTALL)
    assert text is not None
    at.write_text(text[1], "utf-8")
    return at


def python_line(at: Site, file: Path, folder: Path) -> list[str]:
    return [sys.executable, str(program("python", folder / "send.py")), str(file)]


def java_line(at: Site, file: Path, folder: Path) -> list[str]:
    around = {"4.9.8": "4.9.7"}.get(at.version, at.version)
    source = program("java", folder / "Send.java")
    options = [f"-Duser.home={folder}", *jvm.SHORT_LIVED]
    return jvm.whole_command(at.version, around, options, [str(source), str(file)])


def test_the_python_program_sends_every_message_in_order(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("rocketmq", reason="needs rocketmq-python-client")
    with running_site(tmp_path, "5.3.3") as at, whole_broker.broker(at) as process:
        with whole_broker.proxy(at) as port:
            said = sent([*python_line(at, file, tmp_path), f"127.0.0.1:{port}", "TopicTest"], tmp_path)
        whole_broker.stop(process)
        check(at, file, said)


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_the_java_program_sends_every_message_in_order(
    file: Path, tmp_path: Path, version: jvm.Version
) -> None:
    with running_site(tmp_path, version) as at, whole_broker.broker(at) as process:
        whole_broker.bounds(at, [(topic, 0) for topic in KINDS])  # answered once the broker has registered
        said = sent([*java_line(at, file, tmp_path), at.name_server], tmp_path)
        whole_broker.stop(process)
        check(at, file, said)


def sent(line: list[str], folder: Path) -> list[int]:
    """Run a program; return the numbers of the lines that it says are stored."""
    environment = {**os.environ, "HOME": str(folder)}  # a client logs there
    done = subprocess.run(
        line, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return [int(one.split()[0]) for one in done.stdout.splitlines() if re.match(r"\d+ \w+$", one)]


def check(at: Site, file: Path, said: list[int]) -> None:
    """Compare what the broker has stored with the file: once each, in the order of every queue."""
    lines = dict(enumerate(map(json.loads, file.read_text("utf-8").splitlines()), 1))
    wanted = {number: one for number, one in lines.items() if one["body"] and one["topic"] in KINDS}
    assert said == list(wanted)
    with rmqtool.open(at.store, broker_conf=at.conf) as store:
        stored = [one for one in store.messages(decompress=True) if one.topic in KINDS]
    assert len(stored) == len(wanted)
    places: dict[int, list[tuple[int, int]]] = {}
    for one, new in zip(wanted.values(), stored, strict=True):
        assert new.body == base64.b64decode(one["body"])
        assert (new.topic, new.tags or None) == (one["topic"], one["tags"] or None)
        assert set(new.keys) == set(one["keys"])
        assert new.properties["RMQTOOL_REPLAY_OF"] == (one["uniqKey"] or "none")
        assert one["properties"].items() <= new.properties.items()
        if KINDS[one["topic"]] == "FIFO":
            places.setdefault(one["queueId"], []).append((new.queue_id, new.queue_offset))
    assert len(places) > 1
    for queue in places.values():
        assert len({queue_id for queue_id, _ in queue}) == 1
        assert queue == sorted(queue)
