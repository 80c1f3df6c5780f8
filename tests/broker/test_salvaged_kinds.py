"""Brokers serve what was salvaged of stores of special kinds: one JVM a release opens them all."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from rmqtool.commands.salvage import SalvageRequest, salvage
from rmqtool.formats import message
from rmqtool.progress import NullProgress
from rmqtool.salvage import Choices, Holes
from rmqtool.store import open_store
from rmqtool.topics import LMQ_PREFIX
from tests.broker import jvm
from tests.broker.ahead import begun
from tests.broker.log_damage import LogCopy
from tests.broker.stores import fixture_store
from tests.builders import InlineEngine
from tests.salvage.campaign import faults, made_places, places_in, records_of, topic_of
from tests.salvage.incidents import bit_rot, lost_segment
from tests.salvage.light_stores import EVIDENCE, lose_neighbours, write_store
from tests.scan.log_builder import blank, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker

MIB = 1 << 20
COMPACTED = "Orders"
QUEUES_STAY = {"batch repeat", "compaction"}
"""Kinds whose queues are ours; others' are made anew by the broker, which reads all of the log for it."""

Case = tuple[jvm.Version, str]
CASES: list[Case] = [
    ("4.9.8", "megabytes"),
    *(("5.3.3", kind) for kind in ("batch tombstone", "batch repeat")),
    *(("5.5.1", kind) for kind in ("megabytes", "batch tombstone", "batch repeat", "dup info", "compaction")),
    ("5.5.1", "checked records"),
    *((version, f"{evidence} tell") for version in ("4.9.8", "5.3.3", "5.5.1") for evidence in EVIDENCE),
]


@dataclass(frozen=True)
class Made:
    """A salvaged store.

    Attributes:
        found: where it is.
        survivors: records of the damaged log that are whole, by physical offset.
        written: records of the salvaged log.
        compacted: a topic that the broker compacts.
        is_batch: whether a queue's unit stands for several messages.
    is_batch: a unit stands for several messages.
    """

    found: jvm.Found
    survivors: dict[int, bytes]
    written: dict[int, bytes]
    compacted: str | None = None
    is_batch: bool = False


def salvaged(root: Path, conf: Path, before: dict[int, bytes], holes: Holes = Holes.TOMBSTONE) -> Made:
    survivors = {place: raw for place, raw in before.items() if now(root, place, len(raw)) == raw}
    assert 0 < len(survivors) < len(before)
    out = root.with_name("out")
    request = SalvageRequest((open_store(root, broker_conf=conf),), InlineEngine(), Choices(holes=holes))
    salvage(request, out, NullProgress())
    written = records_of(out / "commitlog")
    assert written.keys() == survivors.keys() | made_places(out)
    return Made(jvm.Found(out, conf), survivors, written)


def now(root: Path, place: int, length: int) -> bytes:
    for path in (root / "commitlog").iterdir():
        if int(path.name) <= place < int(path.name) + path.stat().st_size:
            with path.open("rb") as file:
                file.seek(place - int(path.name))
                return file.read(length)
    return b""


def batch(holes: Holes, folder: Path, version: jvm.Version) -> Made:
    """Make a store whose batch queues have lost single messages and inner batches."""
    store = fixture_store(f"batchcq-{version}")
    root = store.copy_to(folder / "damaged")
    before = records_of(root / "commitlog")
    streams = [place for place, raw in before.items() if topic_of(raw) == "Streams"]
    log = LogCopy(root)
    for place in streams[7:14]:
        log.write(place, bytes(len(before[place])))
    for place in streams[20:30:3]:
        log.flip(log.body_at(place), 1)
    shutil.rmtree(root / "batchconsumequeue")
    return replace(salvaged(root, store.conf, before, holes), is_batch=True)


def neighbours(folder: Path, evidence: str) -> Made:
    """Make a store that lost neighbouring messages, which stood in several light queues."""
    chance = random.Random(10 + EVIDENCE.index(evidence))
    root = write_store(folder, chance, queues=2, lights=5, count=300)
    before = records_of(root / "commitlog")
    lose_neighbours(root, chance, evidence)
    made = salvaged(root, root.with_name("broker.conf"), before)
    found, counts = faults(made.found.root)
    assert not found
    assert counts[True] > 0 == counts[False]
    return made


def dup_info(folder: Path) -> Made:
    """Make a store of a broker that demands DUP_INFO of every message."""
    bodies = [bytes([number]) * 200 for number in range(40)]
    properties = b"TAGS\x01TagA\x02DUP_INFO\x010_1"
    return built(folder, 4096, bodies, properties, rotten={5, 20}, zero={8, 9, 10, 30})


def megabytes(folder: Path) -> Made:
    """Make a store that lost messages of megabytes."""
    large = bytes(range(256)) * (3 * MIB // 256)
    bodies = [b"a", large, b"b", large, large, large, b"c", b"d"]
    return built(folder, 16 * MIB, bodies, b"TAGS\x01TagA", rotten={1}, zero={3, 4, 5})


def checked_records(folder: Path, version: jvm.Version) -> Made:
    """Make a store of a broker that takes no record without the checksum of all of it, some bodies damaged.

    So are those of its own records in which nothing parts the checksum from another property: it finds none.
    """
    store = fixture_store(f"propcrc-{version}")
    root = store.copy_to(folder / "damaged")
    conf = folder / "broker.conf"
    conf.write_text(f"{store.conf.read_text('utf-8')}forceVerifyPropCRC=true\n", "utf-8")
    before = records_of(root / "commitlog")
    log = LogCopy(root)
    for number, (place, raw) in enumerate(before.items()):
        if log.head(place).body_length and (b"batch-" in raw or number % 16 in {0, 1}):
            log.flip(log.body_at(place), 1)
    return salvaged(root, conf, before)


def compaction(folder: Path, version: jvm.Version) -> Made:
    """Make a store that has lost messages of a topic that its broker compacts, and others."""
    store = fixture_store(f"plain-{version}")
    root = store.copy_log_to(folder / "damaged")
    path = root / "config" / "topics.json"
    topics = json.loads(path.read_text("utf-8"))
    topics["topicConfigTable"][COMPACTED]["attributes"] = {"cleanup.policy": "COMPACTION"}
    path.write_text(json.dumps(topics), "utf-8")
    conf = folder / "broker.conf"
    sizes = "compactionMappedFileSize=4096\ncompactionCqMappedFileSize=920\n"
    conf.write_text(store.conf.read_text("utf-8") + sizes, "utf-8")
    jvm.rebuild(version, root, conf)
    before = records_of(root / "commitlog")
    log = LogCopy(root)
    for place in [place for place, raw in before.items() if topic_of(raw) == COMPACTED][5:9]:
        log.flip(log.body_at(place), 1)
    bit_rot(root)
    return replace(salvaged(root, conf, before), compacted=COMPACTED)


def built(
    folder: Path, size: int, bodies: list[bytes], properties: bytes, *, rotten: set[int], zero: set[int]
) -> Made:
    """Make a log of one queue, some of its bodies damaged, some of its records zero."""
    folder.mkdir()
    conf = folder / "broker.conf"
    demands = str(b"DUP_INFO" in properties).lower()
    settings = {
        "mappedFileSizeCommitLog": size,
        "mappedFileSizeConsumeQueue": 600,
        "duplicationEnable": demands,
    }
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    files, before, at = [bytearray()], {}, 0
    for number, body in enumerate(bodies):
        one = record(at, queueOffset=number, body=body, properties=properties)
        if at % size + len(one) + 8 > size:
            files[-1] += blank(size - at % size)
            files.append(bytearray())
            at = size * (len(files) - 1)
            one = record(at, queueOffset=number, body=body, properties=properties)
        before[at] = one
        files[-1] += bytes(len(one)) if number in zero else one
        if number in rotten:
            files[-1][-len(properties) - 20] ^= 1
        at += len(one)
    root = folder / "damaged"
    (root / "commitlog").mkdir(parents=True)
    for number, data in enumerate(files):
        (root / "commitlog" / f"{number * size:020d}").write_bytes(data.ljust(size, b"\0"))
    return salvaged(root, conf, before)


def make(case: Case, folder: Path) -> Made:
    version, kind = case
    match kind:
        case "batch tombstone" | "batch repeat":
            return batch(Holes(kind.split()[1]), folder, version)
        case "compaction":
            return compaction(folder, version)
        case "checked records":
            return checked_records(folder, version)
        case "dup info":
            return dup_info(folder)
        case _ if kind.endswith(" tell"):
            return neighbours(folder, kind.removesuffix(" tell"))
        case _:
            return megabytes(folder)


@dataclass(frozen=True)
class Served:
    """What a broker makes of a salvaged store: what it serves, and its records afterwards."""

    made: Made
    rows: list[jvm.Row]
    left: dict[int, bytes]


def serve(cases: list[Case], folder: Path) -> dict[Case, Served]:
    made = [make(case, folder / str(number)) for number, case in enumerate(cases)]
    for case, one in zip(cases, made, strict=True):
        if case[1] not in QUEUES_STAY:
            shutil.rmtree(one.found.root / "consumequeue")
            shutil.rmtree(one.found.root / "batchconsumequeue", ignore_errors=True)
    answers = jvm.serve(cases[0][0], [one.found for one in made], restart=True)
    return {
        case: Served(one, rows, records_of(one.found.root / "commitlog"))
        for case, one, rows in zip(cases, made, answers, strict=True)
    }


@pytest.fixture(scope="module")
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Case], Served]]:
    folder = tmp_path_factory.mktemp("kinds")
    with begun(request, "case", folder, group=lambda case: case[0], run=serve) as served_of:
        yield served_of


def check(made: Made, rows: list[jvm.Row]) -> None:
    """Every queue offset is served, survivors from where they were; of a compacted topic copies."""
    assert {row["status"] for row in rows} == {"FOUND"}
    found = {(row["topic"], row["queueId"], row["queueOffset"]): row for row in rows}
    for place, raw in made.survivors.items():
        head = message.decode_head(raw)
        assert head is not None
        row = found[topic_of(raw), head.queue_id, head.queue_offset]
        if row["topic"] != made.compacted:
            assert row["physicalOffset"] == place
        elif b"KEYS\x01" in raw:  # what has none is left out
            assert (row["msgQueueOffset"], row["bodyCrc"]) == (head.queue_offset, head.body_crc)
    if made.compacted is None and not made.is_batch:
        light: dict[tuple[str, int], list[int]] = {}
        for place, raw in sorted(made.written.items()):
            for key in places_in(raw):
                if key[0].startswith(LMQ_PREFIX):
                    light.setdefault(key[:2], []).append(place)
                else:
                    assert found[key]["physicalOffset"] == place, key
        for queue, places in light.items():  # one after the other, as in the log
            numbers = sorted(key[2] for key in found if key[:2] == queue)
            assert numbers == list(range(len(places))), queue
            assert [found[*queue, number]["physicalOffset"] for number in numbers] == places, queue


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_every_queue_offset_is_served(case: Case, served: Callable[[Case], Served]) -> None:
    one = served(case)
    assert one.left == one.made.written
    for phase in ("as-found", "after-restart"):
        check(one.made, [row for row in one.rows if row["type"] == "message" and row["phase"] == phase])


@pytest.mark.parametrize("version", ["4.9.8", "5.5.1"])
def test_a_slave_copies_the_log(version: jvm.Version, tmp_path: Path) -> None:
    store = fixture_store(f"segments-{version}")
    root = store.copy_to(tmp_path / "damaged")
    before = records_of(root / "commitlog")
    bit_rot(root)
    lost_segment(root)
    made = salvaged(root, store.conf, before)
    log = sorted((made.found.root / "commitlog").iterdir())
    slave = tmp_path / "slave"
    (slave / "commitlog").mkdir(parents=True)
    shutil.copy(log[0], slave / "commitlog")
    (rows,) = jvm.copy(version, [(made.found, slave)])
    assert records_of(slave / "commitlog") == made.written
    check(made, [row for row in rows if row["type"] == "message"])
