"""``query --consumed-by``: how far a group has come with a message, by offsets, copies and pop."""

from __future__ import annotations

import csv
import io
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.commands.query import Reason
from rmqtool.commands.query.consumption import ConsumptionState
from tests.commands.query.consumed_store import DEAD, GROUP, RETRY, SETTINGS, TOPIC, ConsumedStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

CONSUMED, NOT_YET, IN_RETRY, DEAD_LETTERED, UNKNOWN = ConsumptionState
POP_MS, INVISIBLE_MS = 1_650_000_000_000, 60_000


@pytest.fixture
def made() -> ConsumedStore:
    """A store with six messages; the group has committed five of them, two of which it had sent back."""
    store = ConsumedStore()
    done, waits, retried, dead, again, fresh = (store.send(name) for name in NAMES)
    assert done < fresh
    store.send_back("waits", waits, delivered=False)
    store.send_back("retried", retried)
    store.send_back("dead", dead)
    store.send_back("again", again)
    store.dead_letter("dead", dead)
    store.commit(5)
    store.commit(1, RETRY)
    return store


NAMES = ("done", "waits", "retried", "dead", "again", "fresh")
EXPECTED = {
    "done": CONSUMED,
    "waits": IN_RETRY,
    "retried": CONSUMED,
    "dead": DEAD_LETTERED,
    "again": IN_RETRY,
    "fresh": NOT_YET,
}


def states(root: Path, group: str = GROUP, **question: Any) -> list[ConsumptionState]:  # noqa: ANN401 - a question
    return [one.state for one in verdicts(root, group, **question)]


def verdicts(root: Path, group: str = GROUP, **question: Any) -> list[rmqtool.Consumption]:  # noqa: ANN401 - same
    with rmqtool.open(root) as store:
        answer = store.query(consumed_by=group, **question)
        found = [answer.consumption(message) for message in answer]
    return [one for one in found if one is not None]


def by_name(root: Path, **question: Any) -> dict[str, ConsumptionState]:  # noqa: ANN401 - a question
    return {name: states(root, topic=TOPIC, key=f"k-{name}", **question)[0] for name in NAMES}


def test_every_state(made: ConsumedStore, tmp_path: Path) -> None:
    """By the index, by the queues without it, and by the log alone the same."""
    root = made.write(tmp_path / "store")
    assert by_name(root) == EXPECTED
    assert by_name(root, scan=True) == EXPECTED
    shutil.rmtree(root / "index")
    with rmqtool.open(root) as store:
        answer = store.query(topic=TOPIC, queue=0, queue_offset=0, max=6, consumed_by=GROUP, explain=True)
        found = [answer.consumption(message) for message in answer]
        assert [one.state for one in found if one] == list(EXPECTED.values())
        told = [step.message for step in answer.steps if step.reason is Reason.CONSUMPTION]
    assert "were looked for in the consume queues of these topics: there are no index files" in told[0]


def test_what_it_rests_on(made: ConsumedStore, tmp_path: Path) -> None:
    root = made.write(tmp_path / "store")
    done, dead, again = (
        verdicts(root, topic=TOPIC, key=f"k-{name}")[0] for name in ("done", "dead", "again")
    )
    assert done.reason == (
        "config/consumerOffset.json: the group's offset in Orders/0 is 5, after the message, 0:"
        " the group acknowledged it or passed it over; no store knows the outcome"
    )
    assert (done.evidence[0].committed_offset, done.evidence[0].queue_offset) == (5, 0)
    assert [one.topic for one in dead.evidence] == [DEAD, RETRY, "SCHEDULE_TOPIC_XXXX"]
    assert [one.kind for one in again.evidence] == ["copy", "offset", "copy"]
    assert again.evidence[0].physical_offset == rmqtool_offset(root, RETRY, 2)
    assert "the group's offset in %RETRY%billing/0 is 1, the message is 2" in again.evidence[1].message


def rmqtool_offset(root: Path, topic: str, queue_offset: int) -> int:
    with rmqtool.open(root) as store:
        return next(store.query(topic=topic, queue=0, queue_offset=queue_offset)).physical_offset


def test_a_copy_is_judged_as_its_message(made: ConsumedStore, tmp_path: Path) -> None:
    """Found under every topic by its key, the message and each of its copies have one state."""
    root = made.write(tmp_path / "store")
    assert states(root, key="k-dead") == [DEAD_LETTERED] * 4
    assert states(root, key="k-again") == [IN_RETRY] * 3
    assert states(root, msg_id="U-retried") == [CONSUMED] * 3


def test_only_copies_for_the_group_count(made: ConsumedStore, tmp_path: Path) -> None:
    """Neither those of a group whose name goes on, nor of another topic, nor of a twin with the same key."""
    twin = made.send("done")
    made.send_back("done", twin)
    made.add(f"{RETRY}2", 0, UNIQ_KEY="U-fresh", RETRY_TOPIC=TOPIC)
    made.add(RETRY, 0, UNIQ_KEY="U-fresh", RETRY_TOPIC="Other")
    of_other = {"REAL_TOPIC": f"{RETRY}_eu", "RETRY_TOPIC": TOPIC, "DELAY": "3"}
    made.add("SCHEDULE_TOPIC_XXXX", 2, UNIQ_KEY="U-fresh", ORIGIN_MESSAGE_ID="U-fresh", **of_other)
    root = made.write(tmp_path / "store")
    assert states(root, topic=TOPIC, key="k-fresh") == [NOT_YET]
    assert states(root, topic=TOPIC, key="k-done") == [CONSUMED, IN_RETRY]


def test_clients_name_the_unique_key_as_origin(tmp_path: Path) -> None:
    """``sendMessageBackAsNormalMessage`` writes the unique key into ORIGIN_MESSAGE_ID."""
    made = ConsumedStore()
    made.send("a")
    made.send_back("a", "U-a")
    made.commit(1)
    assert states(made.write(tmp_path / "store"), topic=TOPIC, key="k-a") == [IN_RETRY]


def test_messages_without_unique_key(tmp_path: Path) -> None:
    """A copy is known by the offset id of its origin; the index finds it by a key, else the queues."""
    made = ConsumedStore()
    keyed, bare = made.add(KEYS="k-a"), made.add()
    for place, keys in ((keyed, {"KEYS": "k-a"}), (bare, {})):
        copied = {"RETRY_TOPIC": TOPIC, "ORIGIN_MESSAGE_ID": f"0102030400002A9F{place:016X}", **keys}
        made.add(RETRY, 0, **copied)
    made.commit(2)
    root = made.write(tmp_path / "store")
    assert states(root, topic=TOPIC, key="k-a") == [IN_RETRY]
    assert states(root, offset=bare) == [IN_RETRY]


@pytest.mark.parametrize("separator", ["_", "+"])
def test_what_comes_back_from_pop(separator: str, tmp_path: Path) -> None:
    """A copy in a pop retry topic has the message's own properties alone."""
    made = ConsumedStore()
    made.send("a")
    made.add(f"{RETRY}{separator}{TOPIC}", 0, KEYS="k-a", UNIQ_KEY="U-a", **{"1ST_POP_TIME": "1"})
    made.commit(1)
    made.commit(0, f"{RETRY}{separator}{TOPIC}")
    root = made.write(tmp_path / "store")
    assert states(root, topic=TOPIC, key="k-a") == [IN_RETRY]
    assert states(root, key="k-a") == [IN_RETRY, IN_RETRY]


@pytest.mark.parametrize("timed", [False, True], ids=["due", "timed"])
def test_pop(timed: bool, tmp_path: Path) -> None:
    """An offset that pop commits means handed out; acknowledged is what an ack of the same pop says."""
    made = ConsumedStore()
    for name in ("bit", "ack", "batch", "open", "longer", "memory", "later"):
        made.send(name)
    of_pop = {"so": 0, "pt": POP_MS}
    point = {**of_pop, "it": INVISIBLE_MS, "bm": 1, "n": 5, "d": [0, 1, 2, 3, 4]}
    made.pop("ck", timed=timed, **point)
    made.pop("ack", timed=timed, ao=1, **of_pop)
    made.pop("bAck", timed=timed, aol=[2, 4], **of_pop)
    made.pop("ck", timed=timed, so=4, pt=POP_MS + 5, it=INVISIBLE_MS, bm=0, n=1)
    made.pop("ack", timed=timed, ao=3, so=0, pt=1)
    made.pop("ack", timed=timed, ao=3, **(of_pop | {"c": "other"}))
    made.commit(6)
    root = made.write(tmp_path / "store")
    found = verdicts(root, topic=TOPIC, queue=0, queue_offset=0, max=7)
    assert [one.state for one in found] == [CONSUMED, CONSUMED, CONSUMED, NOT_YET, NOT_YET, CONSUMED, NOT_YET]
    assert "has not acknowledged it; it comes back as a retry" in found[3].reason
    assert "2022-04-15 05:21:00.000Z" in found[3].reason


def test_delayed_and_half_messages(tmp_path: Path) -> None:
    """What lies in the broker's own topics is judged by what was delivered of it."""
    made = ConsumedStore()
    made.add("SCHEDULE_TOPIC_XXXX", 2, UNIQ_KEY="U-a", DELAY="3", REAL_TOPIC=TOPIC, REAL_QID="0")
    made.add("SCHEDULE_TOPIC_XXXX", 2, UNIQ_KEY="U-b", DELAY="3", REAL_TOPIC=TOPIC, REAL_QID="0")
    made.add("RMQ_SYS_TRANS_HALF_TOPIC", 0, UNIQ_KEY="U-c", REAL_TOPIC=TOPIC, REAL_QID="0")
    made.add("RMQ_SYS_TRANS_HALF_TOPIC", 0, UNIQ_KEY="U-d", REAL_TOPIC=TOPIC, REAL_QID="0")
    made.send("a", DELAY="3", REAL_TOPIC=TOPIC, REAL_QID="0")
    made.send("c", TRAN_MSG="true", REAL_TOPIC=TOPIC, REAL_QID="0")
    made.prepare("e")
    made.commit(1)
    root = made.write(tmp_path / "store")
    assert states(root, msg_id="U-a") == [CONSUMED, CONSUMED]
    assert states(root, msg_id="U-b") == [NOT_YET]
    assert states(root, msg_id="U-c") == [NOT_YET, NOT_YET]
    assert states(root, msg_id="U-d") == [NOT_YET]
    assert states(root, msg_id="U-e") == [UNKNOWN]
    waits, half = verdicts(root, msg_id="U-b")[0], verdicts(root, msg_id="U-d")[0]
    assert waits.reason.startswith(f"it waits to be delivered to {TOPIC}, due at 2022-04-15 05:20:10.001Z")
    assert half.reason == f"its transaction is not committed: it is not in {TOPIC}"


def test_what_no_offset_tells(made: ConsumedStore, tmp_path: Path) -> None:
    """Other groups, other queues, an offset beyond the queue, the .bak, no file at all."""
    made.send("q1", queue_id=1)
    made.commit(0, "Elsewhere", group="idle")
    made.commit(9, group="ahead")
    root = made.write(tmp_path / "store")

    def only(group: str, key: str = "k-done") -> rmqtool.Consumption:
        return verdicts(root, group, topic=TOPIC, key=key)[0]

    other_queue = only(GROUP, "k-q1")
    assert other_queue.state is NOT_YET
    assert other_queue.reason.endswith("the group has an offset in 1 other queue of Orders, none in this one")
    assert only("idle").state is UNKNOWN
    assert "broadcasting consumers" in only("idle").reason
    assert only("ahead").state is UNKNOWN
    assert "after the queue's end, 6" in only("ahead").reason
    assert "near it: billing" in only("biling").reason
    file = root / "config" / "consumerOffset.json"
    file.rename(file.with_name("consumerOffset.json.bak"))
    file.write_text("{")
    assert only(GROUP).reason.startswith("config/consumerOffset.json.bak: the group's offset")
    shutil.rmtree(root / "config")
    assert only(GROUP).state is UNKNOWN
    assert "config/consumerOffset.json is missing" in only(GROUP).reason


def test_light_queue_tables_are_read_with_enable_lmq(made: ConsumedStore, tmp_path: Path) -> None:
    """Such a broker reads lmqConsumerOffset.json alone."""
    root = made.write(tmp_path / "store")
    table = {"offsetTable": {f"{TOPIC}@{GROUP}": {"0": 0}}}
    made.write_config(root, "lmqConsumerOffset.json", table)
    with rmqtool.open(root, properties={"enableLmq": True}) as store:
        answer = store.query(topic=TOPIC, key="k-done", consumed_by=GROUP)
        found = [answer.consumption(message) for message in answer]
    assert [one.state for one in found if one] == [NOT_YET]
    assert states(root, topic=TOPIC, key="k-done") == [CONSUMED]


def test_a_damaged_index_is_not_trusted(made: ConsumedStore, tmp_path: Path) -> None:
    """Where it cannot have all copies, the queues are read, and --explain says why."""
    root = made.write(tmp_path / "store")
    (file,) = (root / "index").iterdir()
    data = bytearray(file.read_bytes())
    data[40:240] = bytes(200)  # its slots
    file.write_bytes(data)
    with rmqtool.open(root, properties=SETTINGS) as store:
        answer = store.query(offset=made.log.places[3], consumed_by=GROUP, explain=True)
        found = [answer.consumption(message) for message in answer]
        assert [one.state for one in found if one] == [DEAD_LETTERED]
        told = [step.message for step in answer.steps if step.reason is Reason.CONSUMPTION]
    assert "in the consume queues of these topics" in told[0]
    assert "is damaged" in told[0]


def test_every_form_of_output(made: ConsumedStore, run: Callable[..., Run], tmp_path: Path) -> None:
    root = made.write(tmp_path / "store")
    asked = ("query", root, "--key", "k-fresh", "--consumed-by", GROUP)
    text = run(*asked)
    assert text.status == 0
    assert "NOT YET by billing: config/consumerOffset.json: the group's offset in Orders/0 is 5" in text.out
    row = json.loads(run(*asked, "--format", "ndjson").out)
    assert (row["consumedBy"], row["consumption"]) == (GROUP, "not-yet")
    assert row["consumptionReason"] == row["consumptionEvidence"][0]["message"]
    assert row["consumptionEvidence"][0]["committedOffset"] == 5
    document = json.loads(run(*asked, "--format", "json").out)
    assert document["rows"] == [row]
    cells = next(csv.DictReader(io.StringIO(run(*asked, "--format", "csv").out)))
    assert (cells["consumedBy"], cells["consumption"]) == (GROUP, "not-yet")
    assert json.loads(cells["consumptionEvidence"]) == row["consumptionEvidence"]
    plain = json.loads(run("query", root, "--key", "k-fresh", "--format", "ndjson").out)
    assert not [name for name in plain if name.startswith("consum")]


def test_a_misspelt_group(made: ConsumedStore, run: Callable[..., Run], tmp_path: Path) -> None:
    """The message is shown, and the exit status says that the question was not answered."""
    found = run("query", made.write(tmp_path / "store"), "-k", "k-fresh", "--consumed-by", "Biling")
    assert found.status == 1
    assert "UNKNOWN by Biling" in found.out
    assert (
        "error: the store has no group Biling in offsets, subscriptions or retry topics; near it: billing"
        in found.err
    )


def test_explain_says_how_copies_were_found(
    made: ConsumedStore, run: Callable[..., Run], tmp_path: Path
) -> None:
    root = made.write(tmp_path / "store")
    asked = ("query", root, "-t", TOPIC, "-k", "k-dead", "--consumed-by", GROUP, "--explain")
    assert (
        "explain: copies for group billing were looked for by unique key in the index: U-dead"
        in run(*asked).err
    )
    assert "were looked for in the commit log: --scan was given" in run(*asked, "--scan").err


def test_databases_that_are_not_read(made: ConsumedStore, tmp_path: Path) -> None:
    """Offsets kept in RocksDB, and what was popped (5.4.0+), may be elsewhere: then nothing is claimed."""
    made.add(f"{RETRY}+{TOPIC}", 0, KEYS="k-other", UNIQ_KEY="U-other")
    root = made.write(tmp_path / "store")
    (root / "kvStore").mkdir()
    for name in ("CURRENT", "MANIFEST-000004"):
        (root / "kvStore" / name).write_text("x")
    (popped,) = verdicts(root, topic=TOPIC, key="k-done")
    assert popped.state is UNKNOWN
    assert "unacknowledged messages are in kvStore, not read" in popped.reason
    (root / "kvStore").rename(root / "config" / "consumerOffsets")
    (root / "config" / "consumerOffset.json").unlink()
    for group in (GROUP, "nobody"):
        (offsets,) = verdicts(root, group, topic=TOPIC, key="k-done")
        assert offsets.state is UNKNOWN
        assert offsets.reason == "the group's offsets are in config/consumerOffsets, which is not read"


def test_groups_are_known_by_subscription_alone(made: ConsumedStore, tmp_path: Path) -> None:
    root = made.write(tmp_path / "store")
    made.write_config(root, "subscriptionGroup.json", {"subscriptionGroupTable": {"auditors": {}}})
    (found,) = verdicts(root, "auditors", topic=TOPIC, key="k-done")
    assert found.state is UNKNOWN
    assert "the group has no offset in Orders" in found.reason
