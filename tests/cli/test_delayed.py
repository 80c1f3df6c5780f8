"""``offsets --delayed``: messages that wait, are late, were passed over, or came more than once."""

from __future__ import annotations

import json
import shutil
import struct
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.formats.checkpoint import SLOT
from rmqtool.lookup.delayed import delayed_messages
from rmqtool.store import open_store
from tests.check.test_delay_checks import Delays
from tests.cli.conftest import STORES
from tests.damage.running import install_rebuilt
from tests.schemas.validating import defects

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

    Runner = Callable[..., Run]

_RUN = {"version": "", "arguments": [], "begin": "", "end": ""}


def _rows(run: Runner, root: Path, *words: str) -> dict[str, dict[str, Any]]:
    document = run("offsets", root, "--delayed", "--format", "json", *words).document
    assert defects("delayed", document | {"run": _RUN}) == []
    return {row["reader"]: row for row in document["rows"]}


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_what_a_broker_stored_waits(run: Runner, version: str) -> None:
    """Its due times are those of the records: stored, and the delay of the level later."""
    root = STORES / f"delay-{version}"
    rows = _rows(run, root)
    third = rows["delay level 3"]
    assert (third["offset"], third["waiting"], third["overdue"], third["delay"]) == (0, 26, 26, 10_000)
    assert len(third["oldest"]) == 10
    for row in rows.values():
        for message in row["oldest"]:
            (record,) = rmqtool.open(root).query(offset=message["physicalOffset"])
            assert message["due"] - record.store_timestamp_ms in {row["delay"], row["delay"] + 1000}
            assert message["topic"] == record.properties["REAL_TOPIC"]
    assert third["since"] == third["oldest"][0]["due"]
    assert "63 delayed messages wait, 63 overdue" in run("offsets", root, "--delayed").out


def test_what_is_not_due_yet(run: Runner) -> None:
    store = rmqtool.open(STORES / "delay-5.3.3")
    (third,) = (row for row in store.delayed() if row.reader == "delay level 3")
    times = [message.due_ms for message in third.oldest]
    (then,) = (row for row in store.delayed(at=times[4]) if row.reader == "delay level 3")
    assert then.overdue == sum(time <= times[4] for time in times)
    assert (then.since_ms, then.next_ms) == (times[0], min(time for time in times if time > times[4]))


def test_passed_over_and_twice(run: Runner, tmp_path: Path) -> None:
    """Of five messages below the offset two have a copy, and one has two; the sixth waits."""
    log = Delays()
    for number in range(6):
        log.delayed(f"U{number}", 1)
    for key in ("U0", "U0", "U1", "U4"):
        log.copy(key)
    root = tmp_path / "store"
    log.write(root / "commitlog")
    settings = ["maxHashSlotNum=50", "maxIndexNum=100", "mappedFileSizeConsumeQueue=200"]
    install_rebuilt(root, settings)
    (root / "config").mkdir()
    (root / "config" / "delayOffset.json").write_text(json.dumps({"offsetTable": {"1": 5}}))
    row = _rows(run, root, *(word for setting in settings for word in ("-p", setting)))["delay level 1"]
    assert (row["offset"], row["maxOffset"], row["waiting"]) == (5, 6, 1)
    assert (row["passedOver"], row["twice"]) == (2, 1)
    assert [message["uniqKey"] for message in row["oldest"]] == ["U5"]
    words = [word for setting in settings for word in ("-p", setting)]
    document = run("offsets", root, *words, "--format", "json").document
    assert document["readers"] == {"delay level 1": {"queues": 1, "lag": 1, "outOfRange": 0, "passedOver": 2}}
    assert defects("offsets", document) == []
    for number, state in enumerate(
        (
            "delivered: 2 copies in T, the first at log offset ",
            "delivered: 1 copy in T, ",
            "T has no copy of it: it was passed over",
            "T has no copy of it: it was passed over",
            "delivered: 1 copy in T, ",
            "not delivered to T yet, overdue since ",
        )
    ):
        place = ["--topic", "SCHEDULE_TOPIC_XXXX", "--queue", 0, "--queue-offset", number]
        ran = run("query", root, *place, *words, "--format", "json", "--explain")
        assert state in ran.err
        (step,) = [step for step in ran.document["explain"] if step["reason"] == "waits"]
        assert state in step["message"]
        ran = run("query", root, "--topic", "Elsewhere", "--unique-key", f"U{number}", "--explain", *words)
        assert ran.status == 1
        assert number in {0, 1, 4} or state in ran.err
    page = tmp_path / "page.html"
    run("report", root, "-o", page, *words)
    for cell in ("Messages that wait for their time", "passed over", "delivered twice", "delay level 1"):
        assert cell in page.read_text()
    (level,) = run("report", root, "--format", "json", *words).document["delayed"]
    assert level == row
    assert run("offsets", root, "--delayed", "-p", settings[2]).status == 1
    assert run("offsets", root, "--delayed", "-p", settings[2], "--fail-on", "never").status == 0


def test_a_level_beyond_its_queue(run: Runner, tmp_path: Path) -> None:
    """7077, 1869: ``schedule CQ offset invalid. offset=77``, the queue ends at 2; 3212: late."""
    root = shutil.copytree(STORES / "delay-5.3.3", tmp_path / "store")
    offsets = root / "config" / "delayOffset.json"
    offsets.write_text('{"offsetTable":{"2":77}}')
    ahead = run("offsets", root, "--out-of-range", "--format", "ndjson")
    assert [row["reader"] for row in ahead.objects if row["type"] == "offset"] == ["delay level 2"]
    level = _rows(run, root)["delay level 2"]
    assert (level["waiting"], level["passedOver"]) == (0, 2)
    query = ["query", root, "-t", "Later", "-k", "level-2", "--explain"]
    assert "it was passed over, and no consumer gets it" in run(*query).err
    offsets.write_text('{"offsetTable":{"2":0}}')
    level = _rows(run, root)["delay level 2"]
    assert (level["waiting"], level["overdue"], level["passedOver"]) == (2, 2, None)
    assert "not delivered to Later yet, overdue since" in run(*query).err


def test_the_timers_wheel(run: Runner, tmp_path: Path) -> None:
    """Slots up to the last delivery are done; the queue behind the timer's offset is not read yet."""
    root = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    shutil.copytree(root / "consumequeue" / "TopicTest", root / "consumequeue" / "rmq_sys_wheel_timer")
    (root / "config" / "timercheck").write_bytes(
        struct.pack(">7q", 1_795_231_720_000, 52, 20, 0, 0, 0, 0).ljust(4096, b"\0")
    )
    slots = [(1_795_231_719, 5), (1_795_231_721, 2), (4_000_000_000, 3)]
    (root / "timerwheel").write_bytes(
        b"".join(SLOT.pack(time, 0, 0, count, 0) for time, count in slots).ljust(4096, b"\0")
    )
    row = _rows(run, root)["timer"]
    assert (row["offset"], row["maxOffset"]) == (20, 24)
    assert (row["waiting"], row["overdue"]) == (2 + 3 + 4, 2)
    assert (row["since"], row["next"]) == (1_795_231_721_000, 4_000_000_000_000)


def test_a_damaged_slot_of_the_wheel_takes_no_memory(tmp_path: Path) -> None:
    """Its number of messages can be any; a list of them would take gigabytes."""
    root = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    (root / "timerwheel").write_bytes(SLOT.pack(1_795_231_719, 0, 0, 3_000_000, 0).ljust(4096, b"\0"))
    tracemalloc.start()
    try:
        (timer,) = delayed_messages(open_store(root), 0)
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()
    assert timer.waiting == 3_000_000


def test_no_other_selection(run: Runner) -> None:
    for words in (("--group", "g"), ("--topic", "T"), ("--out-of-range",)):
        assert run("offsets", STORES / "delay-5.3.3", "--delayed", *words).status == 2
    assert run("offsets", STORES / "delay-5.3.3/commitlog", "--delayed").status == 2
