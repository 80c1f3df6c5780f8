"""``--unpack-batches`` on what a 5.3.3 broker stored, and on damage."""

from __future__ import annotations

import csv
import io
import shutil
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.formats import message
from tests.cli.conftest import STORES
from tests.scan.log_builder import record
from tests.scan.test_inner_batch import encoded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

STORE = STORES / "batchcq-5.3.3"
_NAMES = (
    "type file position physicalOffset index batchPosition totalSize queueId flag queueOffset sysFlag"
    " bornTimestamp bornHost storeTimestamp storeHost topic bodyLength body bodyEncoding properties tags"
    " keys uniqKey tagsCode msgId"
)


def of_type(found: Run, kind: str) -> list[dict[str, Any]]:
    return [one for one in found.objects if one["type"] == kind]


def test_every_batch_holds_what_the_broker_counted(run: Callable[..., Run]) -> None:
    """INNER_NUM, INNER_BASE and the batch queue are the broker's own words about the bodies."""
    found = run("dump", STORE, "--format", "ndjson", "--unpack-batches")
    assert found.status == 0
    assert not [one for one in of_type(found, "damage") if one["code"] == "CL-INNER-BATCH"]
    batches = [one for one in of_type(found, "message") if one["sysFlag"] & 0x80]
    inner: dict[int, list[dict[str, Any]]] = {}
    for one in of_type(found, "inner-message"):
        assert list(one) == _NAMES.split()
        inner.setdefault(one["physicalOffset"], []).append(one)
    assert batches
    assert len(inner) == len(batches)
    units = {one["physicalOffset"]: one for one in of_type(found, "batch-unit")}
    for batch in batches:
        held = inner[batch["physicalOffset"]]
        assert len(held) == int(batch["properties"]["INNER_NUM"])
        assert len(held) == units[batch["physicalOffset"]]["batchSize"]
        base = int(batch["properties"]["INNER_BASE"])
        assert [one["queueOffset"] for one in held] == list(range(base, base + len(held)))
        assert sum(one["totalSize"] for one in held) == batch["bodyLength"]
        assert all(one["uniqKey"] for one in held)


def test_inner_messages_follow_their_batch(run: Callable[..., Run]) -> None:
    found = run("dump", STORE / "commitlog", "--format", "ndjson", "--unpack-batches").objects
    for before, one in pairwise(found):
        if one["type"] == "inner-message":
            assert before["physicalOffset"] == one["physicalOffset"]
            assert one["index"] == (before["index"] + 1 if before["type"] == "inner-message" else 0)


def test_the_same_by_kernels(run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("dump", STORE / "commitlog", "--format", "ndjson", "--unpack-batches", "--body", "hex")
    by_rows = run(*words).out
    monkeypatch.setattr("rmqtool.commands.dump.run.LARGE_LOG_BYTES", 0)
    assert run(*words).out == by_rows


def test_batches_of_ordinary_topics_are_messages_already(run: Callable[..., Run]) -> None:
    words = ("dump", STORES / "batch-5.3.3" / "commitlog", "--format", "ndjson")
    assert run(*words, "--unpack-batches").out == run(*words).out


@pytest.mark.parametrize("kind", ["message", "inner-message"])
def test_csv_has_a_table_for_each_type(run: Callable[..., Run], kind: str) -> None:
    """In one table each would lack numbers of the other."""
    words = ("dump", STORE / "commitlog", "--rows", kind, "--format")
    table = list(csv.DictReader(io.StringIO(run(*words, "csv").out)))
    objects = run(*words, "ndjson").objects
    assert {one["type"] for one in objects} == {kind}
    assert [list(one) for one in table] == [list(one) for one in objects]
    integers = [name for name, value in objects[0].items() if isinstance(value, int)]
    assert [[int(row[name]) for name in integers] for row in table] == [
        [one[name] for name in integers] for one in objects
    ]


def test_text_shows_them_below_the_batch(run: Callable[..., Run]) -> None:
    lines = run("dump", STORE / "commitlog", "--unpack-batches").out.splitlines()
    first = next(number for number, line in enumerate(lines) if "[0]" in line)
    assert "Streams/1 #0  221 B  tags=Tag0  keys=batch-1 item-0" in lines[first]
    assert "  [1]  Streams/1 #1" in lines[first + 2]


@pytest.mark.parametrize("large_log_bytes", [0, 1 << 30])
def test_tags_and_keys_are_asked_of_inner_messages(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, large_log_bytes: int
) -> None:
    """A batch is there with those of its messages that have the key; other batches are not."""
    monkeypatch.setattr("rmqtool.commands.dump.run.LARGE_LOG_BYTES", large_log_bytes)
    words = ("dump", STORE / "commitlog", "--format", "ndjson", "--unpack-batches")
    everything = of_type(run(*words), "inner-message")
    for option, name, value in (("--key", "keys", "item-1"), ("--tag", "tags", "Tag1")):
        found = run(*words, option, value)
        expected = [one for one in everything if value == one[name] or value in (one[name] or [])]
        assert expected
        assert of_type(found, "inner-message") == expected
        batches = [one["physicalOffset"] for one in of_type(found, "message") if one["sysFlag"] & 0x80]
        assert batches == list(dict.fromkeys(one["physicalOffset"] for one in expected))
    assert not of_type(run(*words[:-1], "--key", "item-1"), "message")


def test_query_unpacks_too(run: Callable[..., Run]) -> None:
    found = run("query", STORE, "--offset", 537, "--format", "ndjson", "--unpack-batches")
    assert [one["type"] for one in found.objects] == ["message", *3 * ["inner-message"]]
    assert found.status == 0


def test_bodies_of_inner_messages_as_files(run: Callable[..., Run], tmp_path: Path) -> None:
    words = ("dump", STORE / "commitlog", "--unpack-batches", "--body", "hex", "--format", "ndjson")
    bodies = of_type(run(*words, "--body-dir", tmp_path / "bodies"), "inner-message")
    for one in bodies:
        path = tmp_path / "bodies" / f"{one['physicalOffset']:020d}-{one['index']}.body"
        assert path.read_bytes().hex() == one["body"]


def store_with(folder: Path, body: bytes, properties: bytes, sys_flag: int = 0xC0) -> Path:
    (folder / "commitlog").mkdir()
    data = record(0, body=body, properties=properties, sysFlag=sys_flag)
    (folder / "commitlog" / f"{0:020d}").write_bytes(data + bytes(64))
    return folder


def test_a_compressed_batch(run: Callable[..., Run], tmp_path: Path) -> None:
    batch = encoded(b"one", b"KEYS\x01k\x02") + encoded(b"two", b"")
    store = store_with(tmp_path, zlib.compress(batch), b"INNER_NUM\x012\x02INNER_BASE\x010", 0xC1)
    words = ("dump", store, "--format", "ndjson", "--unpack-batches", "--body", "text")
    for more in ((), ("--decompress",)):
        found = run(*words, *more)
        assert found.status == 0
        assert [one["body"] for one in of_type(found, "inner-message")] == ["one", "two"]
        assert of_type(found, "inner-message")[0]["keys"] == ["k"]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("body", "sys_flag", "inner", "said"),
    [
        (
            encoded(b"one", b"") + b"junk",
            0xC0,
            1,
            "no message at byte 25 of the batch: only 4 bytes are left",
        ),
        (encoded(b"one", b""), 0xC0, 1, "INNER_NUM is 2, the batch holds 1 messages"),
        (b"", 0xC0, 0, "INNER_NUM is 2, the batch holds 0 messages"),
        (b"no zlib", 0xC1, 0, "it is no zlib data"),
        (zlib.compress(bytes(80 << 20)), 0xC1, 0, "it unpacks to more than 67108864 bytes"),
    ],
)
def test_damage_in_a_batch_is_a_row(
    run: Callable[..., Run], tmp_path: Path, body: bytes, sys_flag: int, inner: int, said: str
) -> None:
    store = store_with(tmp_path, body, b"INNER_NUM\x012\x02INNER_BASE\x010", sys_flag)
    found = run("dump", store, "--format", "ndjson", "--unpack-batches")
    assert found.status == 5
    assert len(of_type(found, "inner-message")) == inner
    (damage,) = (one for one in of_type(found, "damage") if one["code"] == "CL-INNER-BATCH")
    assert said in damage["message"]
    assert damage["physicalOffset"] == 0
    asked = run("query", store, "--offset", 0, "--format", "ndjson", "--unpack-batches")
    assert asked.status == 5
    assert run("dump", store, "--format", "ndjson").status == 0


@pytest.mark.full
def test_a_flipped_byte_never_ends_in_a_traceback(run: Callable[..., Run], tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(STORE, store)
    file = store / "commitlog" / f"{0:020d}"
    content = file.read_bytes()
    start = 537 + message.HEAD_SIZES[0]
    for place in range(start, start + 60, 3):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        found = run("dump", store / "commitlog", "--format", "ndjson", "--unpack-batches", "--to-offset", 538)
        assert found.status == 5  # its CRC, if not the batch


def test_the_layout_shows_the_inner_message(run: Callable[..., Run]) -> None:
    found = run("dump", "--layout", "--type", "commitlog", "--format", "ndjson")
    fields = [one["javaName"] for one in found.objects if one["structure"] == "inner-message"]
    assert fields[:4] == ["TOTALSIZE", "MAGICCODE", "BODYCRC", "FLAG"]
