"""Salvage what was damaged, and hold the result against what the log was: the model of what must be so."""

from __future__ import annotations

import json
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.commands.salvage import SalvageReport, SalvageRequest, salvage
from rmqtool.engine import EngineOptions
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats import message
from rmqtool.progress import NullProgress
from rmqtool.salvage.evidence import read_evidence
from rmqtool.store import open_store
from rmqtool.store.broker_json import batch_queue_topics
from tests.builders import InlineEngine
from tests.salvage.damages import KINDS, damage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from tests.salvage.damages import Kind, Scene

_UNIT = struct.Struct(">qiq")
_PREBLANK = 0x7FFFFFFF
_FIELDS = (range(12, 16), range(20, 28))


@dataclass
class Outcome:
    """What became of one damaged store.

    Attributes:
        survivors: records that were whole.
        missing: physical offsets of those that are not in the result.
        strange: places of records in the result that never were, and are not ours.
        changed: places of records in the result of which damage changed what no checksum protects.
        misplaced: survivors whose queue does not have them at their queue offset.
        invented: messages said to be lost that never were: topic, queue id, queue offset, and how many.
        report: of the salvage; None if nothing could be given back.
    """

    survivors: int = 0
    missing: list[int] = field(default_factory=list)
    strange: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    misplaced: list[int] = field(default_factory=list)
    invented: list[tuple[str, int, int, int]] = field(default_factory=list)
    report: SalvageReport | None = None

    @property
    def bad(self) -> bool:
        return bool(self.missing or self.strange or self.misplaced or self.invented)


def records_of(log: Path) -> dict[int, bytes]:
    """Return the records of a log by physical offset, read as a broker's recovery would."""
    found = {}
    for path in sorted(log.iterdir()):
        data, start, at = path.read_bytes(), int(path.name), 0
        while (head := message.decode_head(data, at)) is not None and head.magic in message.TOPIC_LENGTHS:
            assert head.physical_offset == start + at
            found[start + at] = data[at : at + head.total_size]
            at += head.total_size
    return found


def made_places(out: Path) -> set[int]:
    """Return the physical offsets of the tombstones and fillers that a salvage says it made."""
    parts = json.loads((out / "salvage" / "plan.json").read_text("utf-8"))["parts"]
    made = [part for part in parts if part["kind"] in {"tombstones", "filler"}]
    return {
        part["start"] + number * (part["length"] // part["records"])
        for part in made
        for number in range(part["records"])
    }


def run(
    source: Path, folder: Path, seed: int, kinds: Mapping[str, Kind] = KINDS
) -> tuple[Outcome, list[str]]:
    """Damage, salvage and judge."""
    scene, names = damage(source, folder / "damaged", seed, kinds)
    out = folder / "out"
    store = open_store(scene.root, broker_conf=source / "broker.conf")
    request = SalvageRequest((store,), EngineOptions("local"))
    outcome = Outcome()
    survivors = scene.survivors()
    outcome.survivors = len(survivors)
    try:
        outcome.report = salvage(request, out, NullProgress(), InlineEngine())
    except EnvironmentFailureError:
        outcome.missing = sorted(survivors)
        return outcome, names
    _judge(outcome, scene, survivors, out)
    outcome.invented = list(invented(out, spans_of(source, scene.truth.values())))
    return outcome, names


def spans_of(source: Path, records: Iterable[bytes]) -> dict[tuple[str, int], int]:
    """Return the end of each queue that a store and its records have."""
    ends: dict[tuple[str, int], int] = {}
    for key, rows in read_evidence(open_store(source, broker_conf=source / "broker.conf")).units.items():
        ends[key] = int((rows["queue_offset"] + rows["count"]).max())
    for raw in records:
        head = message.decode_head(raw)
        assert head is not None
        key = topic_of(raw), head.queue_id
        ends[key] = max(ends.get(key, 0), head.queue_offset + 1)
    return ends


def invented(out: Path, ends: Mapping[tuple[str, int], int]) -> Iterator[tuple[str, int, int, int]]:
    """Yield what a salvage says to be lost, and is beyond the end of its queue, or of none."""
    for line in (out / "salvage" / "lost.ndjson").read_text("utf-8").splitlines():
        one = json.loads(line)
        if one["queueOffset"] + one["count"] > ends.get((one["topic"], one["queueId"]), 0):
            yield one["topic"], one["queueId"], one["queueOffset"], one["count"]


def _judge(outcome: Outcome, scene: Scene, survivors: dict[int, bytes], out: Path) -> None:
    result = records_of(out / "commitlog")
    outcome.missing = [place for place, raw in survivors.items() if result.get(place) != raw]
    made = made_places(out)
    for place, raw in result.items():
        was = scene.truth.get(place)
        if raw == was or place in made or scene.may_be(place, raw):
            continue
        if was is not None and len(was) == len(raw) and raw == scene.now(place, len(raw)):
            outcome.changed.append(place)
        else:
            outcome.strange.append(place)
    batch = _batch_topics(scene.root)
    for place, raw in survivors.items():
        head = message.decode_head(raw)
        assert head is not None
        if head.sys_flag & message.TRANSACTION_MASK in {4, 12} or place in outcome.missing:
            continue
        topic = topic_of(raw)
        if topic not in batch and not stands_in(out, topic, head.queue_id, head.queue_offset, place):
            outcome.misplaced.append(place)


def _batch_topics(root: Path) -> frozenset[str]:
    from rmqtool.io import location_of
    from rmqtool.store.broker_json import load_broker_json

    path = root / "config" / "topics.json"
    return batch_queue_topics(load_broker_json(location_of(path))) if path.exists() else frozenset()


def topic_of(raw: bytes) -> str:
    """Return the topic of a record."""
    head = message.decode_head(raw)
    assert head is not None
    at = message.HEAD_SIZES[message.host_variant(head.sys_flag)] + max(head.body_length, 0)
    width = message.TOPIC_LENGTHS[head.magic]
    (length,) = width.unpack_from(raw, at)
    return raw[at + width.size : at + width.size + length].decode()


def stands_in(out: Path, topic: str, queue_id: int, queue_offset: int, place: int) -> bool:
    """Whether a queue has a record at a queue offset."""
    at = queue_offset * _UNIT.size
    for path in sorted((out / "consumequeue" / topic / str(queue_id)).glob("*")):
        start = int(path.name)
        if start <= at < start + path.stat().st_size:
            data = path.read_bytes()[at - start : at - start + _UNIT.size]
            return bool(_UNIT.unpack(data)[0] == place)
    return False


def summary(outcomes: list[Outcome]) -> Counter[str]:
    """Count."""
    counts: Counter[str] = Counter()
    for one in outcomes:
        counts["runs"] += 1
        counts["survivors"] += one.survivors
        counts["missing"] += len(one.missing)
        counts["strange"] += len(one.strange)
        counts["changed"] += len(one.changed)
        counts["misplaced"] += len(one.misplaced)
        counts["invented"] += sum(count for _, _, _, count in one.invented)
        if one.report is not None:
            counts["given back"] += one.report.records
            counts["lost"] += one.report.lost.proven
            counts["placed"] += one.report.lost.placed
    return counts
