"""Salvage what was damaged, and hold the result against what the log was: the model of what must be so."""

from __future__ import annotations

import json
import struct
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rmqtool.commands.salvage import SalvageRequest, salvage
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats import message
from rmqtool.formats.consumequeue import BATCH_UNITS
from rmqtool.genuine.evidence import read_evidence
from rmqtool.progress import NullProgress
from rmqtool.store import open_store
from rmqtool.topics import LMQ_PREFIX
from tests.builders import InlineEngine
from tests.salvage.damages import KINDS, damage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from rmqtool.commands.salvage import SalvageReport
    from rmqtool.salvage import SalvagedQueue
    from tests.salvage.damages import Kind, Scene

_UNIT = struct.Struct(">qiq")
_PRIME = 1_000_003


@dataclass
class Outcome:
    """What became of one damaged store.

    Attributes:
        survivors: records that were whole.
        missing: physical offsets of those that are not in the result.
        undecided: likewise, of copies that differ, where the salvage says that nothing decides.
        strange: places of records in the result that never were, and are not ours.
        changed: places of records in the result of which damage changed what no checksum protects.
        misplaced: survivors whose queue does not have them at their queue offset.
        invented: messages said to be lost that never were: topic, queue id, queue offset, and how many.
        faults: where a tombstone breaks the order of a queue, or is not there.
        report: of the salvage; None if nothing could be given back.
    """

    survivors: int = 0
    missing: list[int] = field(default_factory=list)
    undecided: list[int] = field(default_factory=list)
    strange: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    misplaced: list[int] = field(default_factory=list)
    invented: list[tuple[str, int, int, int]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    report: SalvageReport | None = None

    @property
    def bad(self) -> bool:
        return bool(self.missing or self.strange or self.misplaced or self.invented or self.faults)


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


_ODD = {"tags-5.5.1": [20726]}
"""A half message that its sender made, without the queue to which it belongs: no broker can commit it, and
``verify`` calls it damaged as it is.
"""


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
    source: Path, folder: Path, seed: int, kinds: Mapping[str, Kind] = KINDS, *, copies: int = 1
) -> tuple[Outcome, list[str]]:
    """Damage, salvage and judge: one store, or several copies of it, each with damage of its own."""
    made = [
        damage(source, folder / f"damaged{number}", seed + number * 1_000_003, kinds)
        for number in range(copies)
    ]
    scenes, names = [scene for scene, _ in made], [name for _, done in made for name in done]
    out = folder / "out"
    stores = tuple(open_store(scene.root, broker_conf=source / "broker.conf") for scene in scenes)
    request = SalvageRequest(stores, InlineEngine())
    outcome = Outcome()
    survivors = {place: raw for scene in scenes for place, raw in scene.survivors().items()}
    outcome.survivors = len(survivors)
    try:
        outcome.report = salvage(request, out, NullProgress())
    except EnvironmentFailureError:
        outcome.missing = sorted(survivors)
        return outcome, names
    _judge(outcome, scenes, survivors, out, source)
    outcome.missing = [place for place in outcome.missing if place not in _ODD.get(source.name, ())]
    truth = [raw for scene in scenes for raw in scene.truth.values()]
    outcome.invented = list(invented(out, spans_of(source, truth)))
    places = {one["physicalOffset"] for one in lost_lines(out) if one["topic"] is None}
    outcome.strange += places - {place for scene in scenes for place in scene.truth} | places & {*survivors}
    again = {f"{(one.topic, one.queue_id)}: " for one in outcome.report.queues if _is_again(one)}
    outcome.faults = [one for one in faults(out)[0] if not one.startswith(tuple(again))]
    return outcome, names


def spans_of(source: Path, records: Iterable[bytes]) -> dict[tuple[str, int], int]:
    """Return the end of each queue that a store and its records have."""
    ends: dict[tuple[str, int], int] = {}
    for key, rows in read_evidence(open_store(source, broker_conf=source / "broker.conf")).units.items():
        ends[key] = int((rows["queue_offset"] + rows["count"]).max())
    for raw in records:
        head = message.decode_head(raw)
        assert head is not None
        for topic, queue_id, offset in (*places_in(raw), (topic_of(raw), head.queue_id, head.queue_offset)):
            ends[topic, queue_id] = max(ends.get((topic, queue_id), 0), offset + messages_in(raw))
    return ends


def invented(out: Path, ends: Mapping[tuple[str, int], int]) -> Iterator[tuple[str, int, int, int]]:
    """Yield what a salvage says to be lost, and is beyond the end of its queue, or of none."""
    for one in lost_lines(out):
        queue, first, count = (one["topic"], one["queueId"]), one["queueOffset"], one["count"]
        if one["topic"] is not None and first + count > ends.get(queue, 0):
            yield *queue, first, count


def lost_lines(out: Path) -> list[dict[str, Any]]:
    """Return what a salvage says to be lost; what lay before the log's first byte is not."""
    lines = (out / "salvage" / "lost.ndjson").read_text("utf-8").splitlines()
    return [one for one in map(json.loads, lines) if one["cause"] != "before"]


def _judge(
    outcome: Outcome, scenes: list[Scene], survivors: dict[int, bytes], out: Path, source: Path
) -> None:
    result = records_of(out / "commitlog")
    assert outcome.report is not None
    gone = [place for place, raw in survivors.items() if result.get(place) != raw]
    if outcome.report.conflicts.get("nothing"):
        outcome.undecided = [place for place in gone if _is_put_aside(out, place, survivors[place])]
    outcome.missing = [place for place in gone if place not in outcome.undecided]
    made = made_places(out)
    for place, raw in result.items():
        truths = [scene.truth.get(place) for scene in scenes]
        if raw in truths or place in made or any(scene.may_be(place, raw) for scene in scenes):
            continue
        sizes = {len(was) for was in truths if was is not None}
        if sizes == {len(raw)} and any(scene.now(place, len(raw)) == raw for scene in scenes):
            outcome.changed.append(place)
        else:
            outcome.strange.append(place)
    batches = units_of_batches(source)
    have, moved = units_of_batches(out), _said_to_move(outcome.report, out)
    for place in survivors.keys() - {*gone}:
        raw = survivors[place]
        if place in batches:
            stands = batches[place] == have.get(place)
        else:
            stands = all(
                where[:2] in moved or stands_in(out, *where, place)
                for where in places_in(raw)
                if _is_due(source, where, raw, place)
            )
        if not stands:
            outcome.misplaced.append(place)


def _is_put_aside(out: Path, place: int, raw: bytes) -> bool:
    """Whether a record is kept beside the result, as the other copy has another."""
    return any(path.read_bytes() == raw for path in (out / "lost+found").glob(f"{place:020d}-conflict-*.bin"))


def _said_to_move(report: SalvageReport, out: Path) -> set[tuple[str, int]]:
    """Return the queues of which a salvage says that messages are at other queue offsets, or may be."""
    said = {(one["topic"], one["queueId"]) for one in lost_lines(out) if not one["placed"]}
    return said | {(one.topic, one.queue_id) for one in report.queues if one.moves or _is_again(one)}


def _is_again(one: SalvagedQueue) -> bool:
    """Whether a light queue gave queue offsets more than once: where tombstones stand, the broker decides."""
    return one.topic.startswith(LMQ_PREFIX) and not one.orderly


def _is_due(source: Path, where: tuple[str, int, int], raw: bytes, place: int) -> bool:
    """Whether a record is to stand in a queue: in its own, or in a light one that has it."""
    return where[0] == topic_of(raw) or stands_in(source, *where, place)


def units_of_batches(root: Path) -> dict[int, tuple[int, int]]:
    """Return base offset and count of messages that queues of batches list, by physical offset."""
    found = {}
    for path in (root / "batchconsumequeue").rglob("0*"):
        if path.is_file():
            data = path.read_bytes()
            for at in range(0, len(data) - BATCH_UNITS.size + 1, BATCH_UNITS.size):
                unit = BATCH_UNITS.decode(data, at)
                if unit is not None and unit.size:
                    found[unit.physical_offset] = unit.msg_base_offset, unit.batch_size
    return found


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
        counts["undecided"] += len(one.undecided)
        counts["strange"] += len(one.strange)
        counts["changed"] += len(one.changed)
        counts["misplaced"] += len(one.misplaced)
        counts["faults"] += len(one.faults)
        counts["invented"] += sum(count for _, _, _, count in one.invented)
        if one.report is not None:
            counts["given back"] += one.report.records
            counts["lost"] += one.report.lost.proven
            counts["placed"] += one.report.lost.placed
    return counts


def properties_of(raw: bytes) -> dict[str, str]:
    """Return the properties of a record."""
    head = message.decode_head(raw)
    assert head is not None
    at = message.HEAD_SIZES[message.host_variant(head.sys_flag)] + max(head.body_length, 0)
    width = message.TOPIC_LENGTHS[head.magic]
    at += width.size + int.from_bytes(raw[at : at + width.size], "big") + message.PROPERTIES_LENGTH.size
    pairs = (one.partition("\x01") for one in raw[at:].decode("utf-8", "replace").split("\x02"))
    return {name: value for name, _, value in pairs}


def messages_in(raw: bytes) -> int:
    """Return how many messages a record stands for."""
    return int(properties_of(raw).get("INNER_NUM", 1))


def places_in(raw: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield topic, queue id and queue offset of every unit that a broker makes of a record."""
    head = message.decode_head(raw)
    assert head is not None
    if head.sys_flag & message.TRANSACTION_MASK in {4, 12}:
        return
    yield topic_of(raw), head.queue_id, head.queue_offset
    properties = properties_of(raw)
    names = properties.get("INNER_MULTI_DISPATCH", "").split(",")
    offsets = properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
    if len(names) == len(offsets) and offsets != [""]:
        for name, offset in zip(names, offsets, strict=True):
            yield name, 0 if name.startswith("%LMQ%") else head.queue_id, int(offset)


def faults(out: Path) -> tuple[list[str], Counter[bool]]:
    """Return where queue offsets go down along a salvaged log at a tombstone, or a placed loss is not there.

    Also how many lost messages have a tombstone, and how many none.
    """
    rows: defaultdict[tuple[str, int], list[tuple[int, bool]]] = defaultdict(list)
    tombstones: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    made = made_places(out)
    for place, raw in sorted(records_of(out / "commitlog").items()):
        for topic, queue_id, offset in places_in(raw):
            rows[topic, queue_id].append((offset, place in made))
            if place in made:
                tombstones[topic, queue_id] |= {*range(offset, offset + messages_in(raw))}
    found = [
        f"{key}: {after[0]} after {before[0]}"
        for key, of in rows.items()
        for before, after in pairwise(of)
        if after[0] <= before[0] and (before[1] or after[1])
    ]
    counts: Counter[bool] = Counter()
    for one in (line for line in lost_lines(out) if line["topic"] is not None):
        counts[one["placed"]] += one["count"]
        if not one["placed"]:
            continue
        due = range(one["queueOffset"], one["queueOffset"] + one["count"])
        if not {*due} <= tombstones[one["topic"], one["queueId"]]:
            found.append(f"no tombstone: {one}")
    return found, counts
