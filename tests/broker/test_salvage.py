"""A real broker starts on what was salvaged, serves every survivor from its old place, and cuts nothing."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rmqtool.commands.salvage import SalvageRequest, salvage
from rmqtool.formats import message
from rmqtool.progress import NullProgress
from rmqtool.store import open_store
from tests.broker import jvm
from tests.broker.ahead import begun
from tests.broker.stores import DERIVED, fixture_store
from tests.builders import InlineEngine
from tests.salvage.campaign import made_places, records_of, topic_of
from tests.salvage.damages import HEADS, KINDS, MISLEADING, damage
from tests.salvage.incidents import INCIDENTS
from tests.strategies import campaign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.broker, pytest.mark.every_store]

APPENDED = 5
_SERVED = {"FOUND", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL", "NO_MATCHED_LOGIC_QUEUE"}

Case = tuple[str, str, str, bool]
"""A fixture; what befell it, an incident or the seed of a random damage; the queues it starts with, ours
or those that a broker makes of the log alone; and whether ``abort`` is there."""

_STARTS = [("ours", False), ("ours", True), ("own", False), ("own", True)]
_MAKERS = {"4.9.8": "segments", "5.3.3": "plain", "5.5.1": "segments"}
_DAMAGED = {"4.9.8": "plain delay", "5.3.3": "plain transaction", "5.5.1": "plain segments lmq"}
CASES: list[Case] = [
    (f"{name}-{version}", incident, queues, abort)
    for version, names in _MAKERS.items()
    for name in names.split()
    for incident in INCIDENTS
    for queues, abort in _STARTS
]
_SPECIAL = "delay transaction propcrc batchcq v2"
CASES += [
    (f"{name}-5.5.1", incident, "ours", False)
    for name in _SPECIAL.split()
    for incident in ("bit_rot", "zeroed_half", "cut_record")
]
CASES += [
    (f"{name}-{version}", str(seed), "ours", False)
    for version, names in _DAMAGED.items()
    for name in names.split()
    for seed in campaign(range(9000, 9004), 2)
]
_LIES = campaign(range(9100, 9112), 3)
CASES += [
    (f"{name}-{version}", str(seed), "ours", False)
    for version, names in _DAMAGED.items()
    for name in names.split()
    for seed in _LIES
]
_MISLED = campaign(range(9200, 9208), 2)
CASES += [
    (f"{name}-{version}", str(seed), "ours", False)
    for version, names in _DAMAGED.items()
    for name in names.split()
    for seed in _MISLED
]


@dataclass(frozen=True)
class Salvaged:
    """A salvaged store, before a broker starts on it.

    Attributes:
        found: where it is.
        survivors: records of the damaged log that are whole, by physical offset.
        written: records of the salvaged log.
        made: places of its tombstones and fillers.
        ends: where each queue ended before the damage, as far as that can be known.
    """

    found: jvm.Found
    survivors: dict[int, bytes]
    written: dict[int, bytes]
    made: set[int]
    ends: dict[tuple[str, int], int]


@dataclass(frozen=True)
class Opened(Salvaged):
    """What a broker made of it: what it served, and the records of the log afterwards."""

    rows: list[jvm.Row]
    left: dict[int, bytes]

    def messages(self, phase: str) -> list[jvm.Row]:
        return [row for row in self.rows if row["type"] == "message" and row["phase"] == phase]


def _prepared(case: Case, folder: Path) -> Salvaged:
    name, what, queues, abort = case
    store = fixture_store(name)
    root = folder / "damaged"
    if what in INCIDENTS:
        store.copy_to(root)
        before = records_of(root / "commitlog")
        INCIDENTS[what](root)
        survivors = {place: raw for place, raw in before.items() if _now(root, place, len(raw)) == raw}
        ends = {} if what == "rot_without_queues" or "batchcq" in name else _ends(before)
    else:
        kinds = HEADS if int(what) in _LIES else MISLEADING if int(what) in _MISLED else KINDS
        scene, _ = damage(store.root, root, int(what), kinds)
        survivors, ends = scene.survivors(), {}
    opened = open_store(root, broker_conf=store.conf)
    out = folder / "out"
    salvage(SalvageRequest((opened,), InlineEngine()), out, NullProgress())
    written = records_of(out / "commitlog")
    if queues == "own":
        for directory in DERIVED:
            shutil.rmtree(out / directory, ignore_errors=True)
        if abort:  # else an abnormal start makes those of the newest files only
            (out / "checkpoint").unlink()
    if abort:
        (out / "abort").touch()
    return Salvaged(jvm.Found(out, store.conf), survivors, written, made_places(out), ends)


def _now(root: Path, place: int, length: int) -> bytes:
    for path in sorted((root / "commitlog").iterdir()):
        start = int(path.name)
        if start <= place < start + path.stat().st_size:
            return path.read_bytes()[place - start : place - start + length]
    return b""


def _ends(records: dict[int, bytes]) -> dict[tuple[str, int], int]:
    """Return each queue's end, of records that are put into queues."""
    ends: dict[tuple[str, int], int] = {}
    for raw in records.values():
        head = message.decode_head(raw)
        assert head is not None
        if head.sys_flag & message.TRANSACTION_MASK in {4, 12}:
            continue
        key = topic_of(raw), head.queue_id
        ends[key] = max(ends.get(key, 0), head.queue_offset + 1)
    return ends


def serve(cases: list[Case], folder: Path) -> dict[Case, Opened]:
    """Salvage, and let brokers of one version serve the results."""
    prepared = [_prepared(case, folder / str(number)) for number, case in enumerate(cases)]
    version, timezone = _judge(cases[0])
    stores = [one.found for one in prepared]
    answers = jvm.serve(version, stores, append=APPENDED, restart=True, timezone=timezone, timeout=600)
    return {
        case: Opened(**vars(one), rows=rows, left=records_of(one.found.root / "commitlog"))
        for case, rows, one in zip(cases, answers, prepared, strict=True)
    }


def _judge(case: Case) -> tuple[jvm.Version, str]:
    store = fixture_store(case[0])
    return store.version, store.timezone


@pytest.fixture(scope="module")
def openings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Case], Opened]]:
    with begun(request, "case", tmp_path_factory.mktemp("salvaged"), group=_judge, run=serve) as opened_of:
        yield opened_of


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case)))
def test_every_survivor_is_served_at_its_old_offset_and_nothing_is_cut(
    case: Case, openings: Callable[[Case], Opened]
) -> None:
    opened = openings(case)
    rows = opened.messages("as-found")
    assert {row["status"] for row in rows} <= _SERVED
    found = {(row["topic"], row["queueId"], row["queueOffset"]): row.get("physicalOffset") for row in rows}
    for place, raw in opened.survivors.items():
        head = message.decode_head(raw)
        assert head is not None
        if head.sys_flag & message.TRANSACTION_MASK not in {4, 12}:
            assert found.get((topic_of(raw), head.queue_id, head.queue_offset)) == place
    assert {place: raw for place, raw in opened.left.items() if place in opened.written} == opened.written
    if case[1] in INCIDENTS:
        assert opened.written.keys() == opened.survivors.keys() | opened.made
    ends: dict[tuple[str, int], int] = {}
    for topic, queue_id, offset in found:
        ends[topic, queue_id] = max(ends.get((topic, queue_id), 0), offset + 1)
    for key, end in opened.ends.items():
        assert ends.get(key) == end, key
    after = opened.messages("after-restart")
    assert len(after) >= len(rows) + APPENDED
