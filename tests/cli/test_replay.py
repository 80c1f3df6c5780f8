"""``replay`` with a stand-in for the client: what is sent, in which order, how often; and what is said."""

from __future__ import annotations

import base64
import json
import shutil
import socket
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.commands import replay as replaying
from rmqtool.commands.replay.sender import RefusedMessageError
from rmqtool.errors import EnvironmentFailureError
from rmqtool.rows.replay import LEFT_OUT
from tests.cli.conftest import STORES
from tests.salvage.incidents import bit_rot
from tests.schemas.validating import defects

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.rows.replay import ReplayMessage
    from tests.runs import Run

    Runner = Callable[..., Run]

PROXY = "127.0.0.1:8081"


class Cluster:
    """A stand-in: takes messages until it is told to fail."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str | None, ReplayMessage]] = []
        self.types: dict[str, frozenset[str]] = {}
        self.fails_at: int | None = None
        self.failure: BaseException = EnvironmentFailureError("the proxy did not answer")
        self.refuses: set[str] = set()
        self.closed = 0

    def types_of(self, topic: str) -> frozenset[str]:
        return self.types.get(topic, frozenset({"NORMAL"}))

    def send(self, message: ReplayMessage, topic: str, group: str | None) -> str:
        if len(self.got) == self.fails_at:
            self.fails_at = None
            raise self.failure
        if message.uniq_key in self.refuses:
            raise RefusedMessageError("not this one")
        self.got.append((topic, group, message))
        return f"id-{len(self.got)}"

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(replaying, "ProxySender", lambda *_, **__: made)
    return made


@pytest.fixture
def file(run: Runner, tmp_path: Path) -> Path:
    path = tmp_path / "replay.ndjson"
    done = run("dump", STORES / "plain-5.3.3", "--format", "replay", "-o", path)
    assert done.status == 0
    wanted = {"TopicTest", "Orders"}
    usual = [
        one
        for one in lines(path)
        if one["body"] and one["topic"] in wanted and "|" not in (one["tags"] or "")
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in usual))
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def send(run: Runner, file: Path, *words: object) -> Run:
    return run("replay", file, "--proxy", PROXY, "--send", "--rate", 1e6, *words)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["batchcq-5.4.0", "plain-4.9.8", "lmq-5.5.1", "ext-5.3.3"])
def test_a_line_is_the_message_without_what_the_broker_added(run: Runner, name: str, tmp_path: Path) -> None:
    path = tmp_path / "replay.ndjson"
    done = run("dump", STORES / name, "--format", "replay", "-o", path)
    words = ("--rows", "message", "--rows", "inner-message", "--body", "base64", "--decompress")
    rows = run("dump", STORES / name, "--format", "ndjson", *words).objects
    wanted = {(one["physicalOffset"], one.get("index")): one for one in rows if one["type"] != "damage"}
    found = lines(path)
    assert [one for one in map(defects_of, found) if one] == []
    assert len(found) + sum(left_out(done.err).values()) <= len(wanted)
    by_place = {(one["physicalOffset"], one["queueOffset"], one["topic"]): one for one in wanted.values()}
    for one in found:
        was = by_place[one["physicalOffset"], one["queueOffset"], one["topic"]]
        same = ("queueId", "tags", "keys", "uniqKey", "bornTimestamp", "storeTimestamp", "body")
        assert {key: one[key] for key in same} == {key: was[key] for key in same}
        assert one["properties"].items() <= was["properties"].items()
        assert not one["properties"].keys() & {"UNIQ_KEY", "TAGS", "KEYS", "WAIT", "CLUSTER", "__CRC32#"}


def defects_of(line: dict[str, Any]) -> list[str]:
    return defects("replay-line", line)


def left_out(said: str) -> dict[str, int]:
    counts = {}
    for reason, words in LEFT_OUT.items():
        for line in said.splitlines():
            if line.endswith(words):
                counts[reason] = int(line.split("left out: ")[1].split()[0].replace(",", ""))
    return counts


def test_nothing_is_sent_and_nobody_is_asked_without_send(run: Runner, file: Path, cluster: Cluster) -> None:
    done = run("replay", file, "--proxy", PROXY, "--format", "json")
    report = done.document
    assert defects("replay", report) == []
    assert (done.status, cluster.got, cluster.closed) == (0, [], 0)
    assert (report["dryRun"], report["sent"], report["lines"]) == (True, 0, len(lines(file)))
    counts = Counter(one["topic"] for one in lines(file))
    assert {one["topic"]: one["messages"] for one in report["topics"]} == counts
    assert not file.with_name("replay.ndjson.ledger").exists()
    text = run("replay", file, "--proxy", PROXY).out
    assert text.splitlines()[-1] == "nothing was sent; --send does it"


def test_all_is_sent_once_in_order_and_not_again(run: Runner, file: Path, cluster: Cluster) -> None:
    done = send(run, file)
    assert done.status == 0
    assert "takes no ordered messages" in done.err
    wanted = lines(file)
    assert [(one[0], one[2].physical_offset) for one in cluster.got] == [
        (one["topic"], one["physicalOffset"]) for one in wanted
    ]
    assert [one[2].body for one in cluster.got] == [base64.b64decode(one["body"]) for one in wanted]
    again = send(run, file, "--format", "json").document
    assert (again["sent"], again["already"]) == (0, len(wanted))
    assert len(cluster.got) == len(wanted)


def test_a_topic_of_ordered_messages_gets_a_group_for_every_queue(
    run: Runner, file: Path, cluster: Cluster
) -> None:
    cluster.types["Again"] = frozenset({"FIFO"})
    assert send(run, file, "-t", "TopicTest", "--topic-map", "TopicTest=Again").status == 0
    assert {one[0] for one in cluster.got} == {"Again"}
    assert {one[1] for one in cluster.got} == {f"queue-{one[2].queue_id}" for one in cluster.got}
    queues: dict[str | None, list[int]] = {}
    for _, group, message in cluster.got:
        queues.setdefault(group, []).append(message.queue_offset)
    assert len(queues) > 1
    assert all(offsets == sorted(offsets) for offsets in queues.values())


@pytest.mark.parametrize("failure", [EnvironmentFailureError("it fell over"), KeyboardInterrupt()])
def test_an_interrupted_replay_goes_on_where_it_was(
    run: Runner, file: Path, cluster: Cluster, failure: BaseException
) -> None:
    cluster.fails_at, cluster.failure = 7, failure
    done = send(run, file)
    assert done.status == (130 if isinstance(failure, KeyboardInterrupt) else 3)
    assert "ledger" in done.err
    assert cluster.closed == 1
    ledger = file.with_name("replay.ndjson.ledger")
    torn = ledger.read_bytes() + b'{"key": "torn'
    ledger.write_bytes(torn)
    assert send(run, file).status == 0
    assert [one[2].physical_offset for one in cluster.got] == [one["physicalOffset"] for one in lines(file)]
    assert all(json.loads(line) for line in ledger.read_bytes().splitlines())


def test_what_is_refused_is_told_and_the_rest_is_sent(run: Runner, file: Path, cluster: Cluster) -> None:
    wanted = lines(file)
    cluster.refuses = {wanted[3]["uniqKey"]}
    wanted[5]["body"] = ""
    file.write_text("".join(json.dumps(one) + "\n" for one in wanted))
    done = send(run, file, "--format", "json")
    assert (done.status, done.document["sent"]) == (1, len(wanted) - 2)
    assert {one["line"]: one["reason"][:12] for one in done.document["refused"]} == {
        4: "not this one",
        6: "its body is ",
    }


def test_retry_and_dead_letter_topics_are_sent_where_the_map_says(
    run: Runner, file: Path, cluster: Cluster
) -> None:
    wanted = lines(file)[:3]
    for one, topic in zip(wanted, ("%DLQ%group", "%RETRY%group", "SCHEDULE_TOPIC_XXXX"), strict=True):
        one["topic"] = topic
    file.write_text("".join(json.dumps(one) + "\n" for one in wanted))
    done = send(run, file, "--topic-map", "%DLQ%group=Mended", "--format", "json")
    assert [one[0] for one in cluster.got] == ["Mended"]
    assert done.document["leftOut"] == {"broker topics": 1, "retry topics": 1}


def test_a_ledger_is_of_one_replay(run: Runner, file: Path, cluster: Cluster) -> None:
    assert send(run, file).status == 0
    done = send(run, file, "--topic-map", "TopicTest=Other")
    assert (done.status, "give the same again" in done.err) == (4, True)
    other = file.with_name("notes.txt")
    other.write_text("mine\n")
    assert send(run, file, "--ledger", other).status == 4
    assert other.read_text() == "mine\n"


def test_what_is_no_file_of_messages_is_a_usage_error(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "it").write_text('{"type":"message"}\n')
    done = run("replay", tmp_path / "it", "--proxy", PROXY)
    assert (done.status, "line 1 is not a message to send" in done.err) == (2, True)
    assert run("replay", tmp_path / "none", "--proxy", PROXY).status == 3


def test_a_topic_of_delayed_messages_only_is_not_sent_to(run: Runner, file: Path, cluster: Cluster) -> None:
    cluster.types["TopicTest"] = frozenset({"DELAY"})
    done = send(run, file, "-t", "TopicTest")
    assert (done.status, cluster.got) == (3, [])
    assert "takes DELAY messages only" in done.err


def test_nobody_answers(run: Runner, file: Path) -> None:
    with socket.socket() as bound:  # bound and not listening: nobody else gets the port
        bound.bind(("127.0.0.1", 0))
        done = run("replay", file, "--proxy", f"127.0.0.1:{bound.getsockname()[1]}", "--send")
    assert done.status == 3
    assert "no proxy answers there" in done.err
    assert run("replay", file, "--proxy", "nonsense", "--send").status == 2


@pytest.mark.full
def test_a_salvage_writes_what_it_gave_back(run: Runner, tmp_path: Path) -> None:
    store = Path(shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store"))
    bit_rot(store)
    path = tmp_path / "replay.ndjson"
    done = run("salvage", store, "--out", tmp_path / "out", "--replay", path, "--format", "json")
    assert done.status == 5
    given = {one["physicalOffset"] for one in lines(path)}
    rows = run("dump", tmp_path / "out", "--rows", "message", "--format", "ndjson").objects
    true = {one["physicalOffset"] for one in rows if "RMQTOOL_LOST" not in one["properties"]}
    lost = {one["physicalOffset"] for one in rows} - true
    assert lost
    assert not given & lost
    assert given
    assert given <= true
    assert "tombstones of lost messages" in done.err
